package placement

import (
	"fmt"

	"vsetrain/batch"
	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/train"
)

// WithFields completes the options of a loader of training batches: batches contain what the network reads and the
// device does not hold.
func (t *Setup) WithFields(o data.LoaderOptions) data.LoaderOptions {
	r, m := t.resident, &t.Cfg.Model
	o.Fields = []data.Field{}
	add := func(there bool, f data.Field) {
		if !there {
			o.Fields = append(o.Fields, f)
		}
	}
	add(r.HasFeatures() || train.FeedsItself(t.Step), data.FieldFeatures)
	if m.Traits().DecayedBoxes {
		add(false, data.FieldDecayedBoxes)
	} else {
		add(r.HasBoxes(), data.FieldBoxes)
	}
	add(r.HasSemantics(), data.FieldSemantics)
	add(!m.Traits().SizeAugment, data.FieldAugmentation)
	return o
}

// Streamed is WithFields for a loader whose batches are held until their steps are finished. Streamed features are read
// into pinned memory.
func (t *Setup) Streamed(p *MemoryPlan, o data.LoaderOptions) data.LoaderOptions {
	o = t.WithFields(o)
	o.Prefetch = 2 + t.Step.Depth()
	if p != nil && !p.Resident {
		o.Stages = t.Stages(o.Prefetch+1, p.Half, p)
	}
	return o
}

// Stages allocates pinned memory for the features of n batches, in float16 if half is set, on a device that can receive
// the features of the next step during a step. If the host has no pinned memory, it returns none and keeps a warning.
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
