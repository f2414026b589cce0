package placement

import (
	"context"
	"strings"

	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/models"
	"vsetrain/train"
)

// PlanMemory makes the memory plan of a run and copies the resident parts of the data set to the device. On devices
// that share the memory of the host it returns nil, and only makes room for steps in micro-batches.
func (t *Setup) PlanMemory(ctx context.Context) (*MemoryPlan, error) {
	semantic := 0
	if t.Cfg.Loss.NeedsSemantics() {
		semantic = SemanticDim
		if t.Train != nil {
			semantic = t.Train.SemanticDim()
		}
	}
	r, ok := device.As[device.Resident](t.Device)
	if !ok && t.Cfg.Train.MicroBatch > 0 {
		return nil, t.Step.Reserve(usualLengths(t.Cfg.Train.Batch, longestCaption(t.Train, &t.Cfg.Model)), semantic)
	}
	if !ok {
		return nil, nil
	}
	t.Step.Record(t.Cfg.Device.Capture != "never")
	params, batch, d := t.Model.Instance.Params, t.Cfg.Train.Batch, t.Model.Dims
	fed := batch // pairs whose features are in memory at once
	if train.FeedsItself(t.Step) {
		fed = min(t.Cfg.Train.MicroBatch, batch)
	}
	n := int64(params.OptimisedSize())
	p := &MemoryPlan{Parameters: 4 * int64(params.Count()), Gradients: 4 * n, Optimiser: 8 * n, Batch: batch,
		Words: longestCaption(t.Train, &t.Cfg.Model), Inputs: 4 * int64(fed) * int64(d.Regions) * int64(d.Feature),
		CallByCall: t.Step.CallByCall()}
	if t.Step.Averages() {
		p.Optimiser += 4 * n
	}
	if err := t.Step.Reserve(usualLengths(batch, p.Words), semantic); err != nil {
		return nil, err
	}
	p.Values = max(t.Model.Instance.SlabBytes(), train.MicroBytes(t.Step))
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

// rehearse runs a step of the usual size that changes nothing. Its memory is then allocated before the features of the
// data set get the rest.
func (t *Setup) rehearse(n, longest, semantic int) error {
	d := t.Model.Dims
	x := SyntheticBatch(t.Cfg.Seed, n, d.Regions, d.Feature, d.Vocab, semantic, usualLengths(n, longest))
	if t.Cfg.Model.Traits().Boxes {
		AddBoxes(x, t.Cfg.Seed)
	}
	if rank, ranks := device.RankOf(t.Device); ranks > 1 { // any of its images will do
		x.Rank, x.Ranks, x.N = rank, ranks, (n-rank+ranks-1)/ranks
		x.Features, x.Boxes = x.Features[:x.N*d.Regions*d.Feature], x.Boxes[:min(len(x.Boxes), x.N*4*d.Regions)]
	}
	return t.Step.Rehearse(x)
}

// usualLengths are the caption lengths of the batch that memory is planned for: one caption has the maximum length, the
// others half of it.
func usualLengths(n, longest int) []int32 {
	lengths := make([]int32, n)
	for i := range lengths {
		lengths[i] = int32(max(2, longest/2))
	}
	lengths[0] = int32(max(2, longest))
	return lengths
}

// longestCaption is an upper bound of the caption length that is usually close: the words between white space plus two,
// and half as many again for BERT.
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
