package place

import (
	"context"
	"fmt"
	"strings"

	"vsetrain/batch"
	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/models"
)

// MemoryPlan says what a training run stores on a device with memory of its own, in bytes.
type MemoryPlan struct {
	Parameters int64 `json:"parameters"`
	Gradients  int64 `json:"gradients"`
	Optimiser  int64 `json:"optimiser"`
	Values     int64 `json:"values"`  // of a step on Words words a caption
	Inputs     int64 `json:"inputs"`  // features of a batch, and what is streamed of the next one
	Copies     int64 `json:"copies"`  // of parameters, values and inputs as bfloat16, at most
	Reserve    int64 `json:"reserve"` // for scratch memory and larger batches
	Features   int64 `json:"features"`
	Free       int64 `json:"free"` // before the features were copied
	Total      int64 `json:"total"`
	Pinned     int64 `json:"pinned,omitempty"` // of main memory, for the features of batches that are streamed
	Batch      int   `json:"batch"`
	Words      int   `json:"words"`    // of the longest caption
	Half       bool  `json:"half"`     // features as float16
	Resident   bool  `json:"resident"` // the features are
	// Tables are the other parts of the data set that can be resident.
	Tables []*MemoryTable `json:"tables,omitempty"`
	// CallByCall is why steps are not recorded, empty if they are.
	CallByCall string `json:"call_by_call,omitempty"`

	measured bool // inputs, copies and scratch memory of a step are no longer in Free
}

// MemoryTable is a part of the data set beside the features of the training split.
type MemoryTable struct {
	Name     string `json:"name"`
	Bytes    int64  `json:"bytes"`
	Resident bool   `json:"resident"` // otherwise it is streamed
}

// String is the plan in one line.
func (p *MemoryPlan) String() string {
	kind, where := "f32", "streamed with the batches"
	if p.Half {
		kind = "f16"
	}
	if p.Resident {
		where = "resident"
	}
	tables := ""
	for _, t := range p.Tables {
		tables += fmt.Sprintf("%s %s, %s; ", t.Name, device.Size(t.Bytes),
			map[bool]string{true: "resident", false: "streamed"}[t.Resident])
	}
	copies := ""
	if p.Copies > 0 {
		copies = fmt.Sprintf(", bf16 copies of these operands at most %s", device.Size(p.Copies))
	}
	pinned := ""
	if p.Pinned > 0 {
		pinned = fmt.Sprintf(" from %s of pinned main memory", device.Size(p.Pinned))
	}
	return fmt.Sprintf("GPU memory: parameters %s, gradients %s, optimiser %s, values of a step %s (batch %d, up to "+
		"%d words), inputs %s%s, reserve %s; features %s as %s, %s%s; %s%s of %s free before them",
		device.Size(p.Parameters), device.Size(p.Gradients), device.Size(p.Optimiser), device.Size(p.Values), p.Batch,
		p.Words, device.Size(p.Inputs), copies, device.Size(p.Reserve), device.Size(p.Features), kind, where,
		pinned, tables, device.Size(p.Free), device.Size(p.Total))
}

// Steps says how training steps are started.
func (p *MemoryPlan) Steps() string {
	if p.CallByCall == "" {
		return "training steps are recorded as CUDA graphs, one for each shape of batches"
	}
	return "training steps are started kernel by kernel: " + p.CallByCall
}

// PlanMemory makes the memory plan of a run, and copies the parts of the data set that are resident to the device. It
// returns nil on devices that compute in the memory of the host.
func (t *Setup) PlanMemory(ctx context.Context) (*MemoryPlan, error) {
	r, ok := device.As[device.Resident](t.Device)
	if !ok {
		return nil, nil
	}
	t.Step.Record(t.Cfg.Device.Capture != "never")
	params, batch, d := t.Model.Instance.Params, t.Cfg.Train.Batch, t.Model.Dims
	n := int64(params.OptimisedSize())
	p := &MemoryPlan{Parameters: 4 * int64(params.Count()), Gradients: 4 * n, Optimiser: 8 * n, Batch: batch,
		Words: longestCaption(t.Train, &t.Cfg.Model), Inputs: 4 * int64(batch) * int64(d.Regions) * int64(d.Feature),
		CallByCall: t.Step.CallByCall()}
	if t.Step.Averages() {
		p.Optimiser += 4 * n
	}
	semantic := 0
	if t.Cfg.Loss.NeedsSemantics() {
		semantic = SemanticDim
		if t.Train != nil {
			semantic = t.Train.SemanticDim()
		}
	}
	if err := t.Step.Reserve(usualLengths(batch, p.Words), semantic); err != nil {
		return nil, err
	}
	p.Values = t.Model.Instance.SlabBytes()
	var err error
	if t.Train != nil && t.Cfg.Device.Resident == "auto" {
		if err = t.rehearse(batch, p.Words, semantic); err != nil {
			return nil, err
		}
		p.measured = true
	}
	if p.Free, p.Total, err = r.FreeMemory(); err != nil {
		return nil, err
	}
	p.Reserve = min(1<<29, p.Total/16)
	if t.Cfg.Device.Precision == "bf16" {
		p.Copies = (p.Parameters + p.Values + p.Inputs) / 2
	}
	if t.Train == nil { // synthetic batches
		return p, nil
	}
	return p, t.makeResident(ctx, r, p)
}

// rehearse does a step of the usual size that changes nothing, so that its memory is allocated before the features of
// the data set get the rest.
func (t *Setup) rehearse(n, longest, semantic int) error {
	d := t.Model.Dims
	x := SyntheticBatch(t.Cfg.Seed, n, d.Regions, d.Feature, d.Vocab, semantic, usualLengths(n, longest))
	if t.Cfg.Model.Traits().Boxes {
		AddBoxes(x, t.Cfg.Seed)
	}
	return t.Step.Rehearse(x)
}

// usualLengths are those of the captions of a batch that memory is planned for: one is as long as any, the others half
// as long.
func usualLengths(n, longest int) []int32 {
	lengths := make([]int32, n)
	for i := range lengths {
		lengths[i] = int32(max(2, longest/2))
	}
	lengths[0] = int32(max(2, longest))
	return lengths
}

// Stages allocates pinned memory for the features of n batches, of float16 with half, on a device that receives those
// of the next step while it works on one. Where the host has no such memory it returns none, and a warning is said.
func (t *Setup) Stages(n int, half bool, p *MemoryPlan) (all []batch.Stage) {
	s, ok := device.As[device.Streamer](t.Device)
	if !ok {
		return nil
	}
	d, next := t.Model.Dims, p.Inputs
	values := t.Cfg.Train.Batch * d.Regions * d.Feature
	for range n {
		x, err := s.NewStage(values, half)
		if err != nil {
			for _, x := range all {
				s.FreeStage(x)
			}
			p.Inputs += next
			t.Warnings = append(t.Warnings, fmt.Errorf("features go to the GPU as float32, through two small buffers: "+
				"%w; free main memory, or lower train.batch", err))
			return nil
		}
		all = append(all, x)
	}
	p.Pinned = int64(n) * next
	if half {
		p.Pinned /= 2
		if !p.measured { // the rehearsal has streamed float32
			next /= 2
		}
	}
	p.Inputs += next
	return all
}

// longestCaption is an upper bound of the length of captions that is seldom far away: words between white space and two
// more, for BERT with half as many again.
func longestCaption(s *data.Split, m *models.Options) int {
	longest := 32
	if s != nil {
		longest = 0
		for c := range s.Captions {
			longest = max(longest, len(strings.Fields(c))+2)
		}
	}
	if m.TextEncoder == models.TextBert {
		longest = min(longest*3/2, m.Bert.Positions)
	}
	return longest
}
