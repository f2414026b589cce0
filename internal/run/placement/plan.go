package placement

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// MemoryPlan describes what a training run stores on a device with its own memory, in bytes.
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
	// CallByCall is the reason why steps are not recorded, empty if they are.
	CallByCall string `json:"call_by_call,omitempty"`

	measured bool // Free excludes the inputs, copies and scratch memory of a step
}

// MemoryTable is a part of the data set other than the features of the training split.
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
		tables += fmt.Sprintf("%s %s, %s; ", t.Name, device.FormatBytes(t.Bytes),
			map[bool]string{true: "resident", false: "streamed"}[t.Resident])
	}
	copies := ""
	if p.Copies > 0 {
		copies = fmt.Sprintf(", bf16 copies of these operands at most %s", device.FormatBytes(p.Copies))
	}
	pinned := ""
	if p.Pinned > 0 {
		pinned = fmt.Sprintf(" from %s of pinned main memory", device.FormatBytes(p.Pinned))
	}
	return fmt.Sprintf("GPU memory: parameters %s, gradients %s, optimiser %s, values of a step %s (batch %d, up to "+
		"%d words), inputs %s%s, reserve %s; features %s as %s, %s%s; %s%s of %s free before them",
		device.FormatBytes(p.Parameters), device.FormatBytes(p.Gradients), device.FormatBytes(p.Optimiser),
		device.FormatBytes(p.Values), p.Batch,
		p.Words, device.FormatBytes(p.Inputs), copies, device.FormatBytes(p.Reserve), device.FormatBytes(p.Features),
		kind, where,
		pinned, tables, device.FormatBytes(p.Free), device.FormatBytes(p.Total))
}

// Steps describes how training steps are started.
func (p *MemoryPlan) Steps() string {
	if p.CallByCall == "" {
		return "training steps are recorded as CUDA graphs, one for each shape of batches"
	}
	return "training steps are started kernel by kernel: " + p.CallByCall
}
