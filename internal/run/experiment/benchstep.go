package experiment

import (
	"time"

	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/models"
	"vsetrain/train"
)

// stepTimer does steps as training does: where the device lets it, each is started before the result of the one before
// is looked at.
type stepTimer struct {
	step    *train.Step
	lr      float64
	now     func() time.Time
	pending func()    // releases the batch of a step that was started and is not finished; nil where none is
	since   time.Time // when its time began
	times   []float64 // of the finished steps, in milliseconds
	last    train.StepResult
}

// do does a step on a batch, or starts it and finishes the one before. A batch is released when its step is finished.
func (t *stepTimer) do(x *data.Batch, release func(*data.Batch)) error {
	start := t.now()
	if err := t.step.Start(x, t.lr, false); err != nil {
		return err
	}
	if t.pending != nil {
		if err := t.finish(); err != nil {
			return err
		}
		start = t.since
	}
	t.pending, t.since = func() { release(x) }, start
	if t.step.Depth() == 1 {
		return t.finish()
	}
	return nil
}

// finish waits for the step that was started.
func (t *stepTimer) finish() error {
	if t.pending == nil {
		return nil
	}
	r, err := t.step.Finish()
	t.pending()
	t.pending = nil
	now := t.now()
	t.last = r
	t.times = append(t.times, milliseconds(now.Sub(t.since)))
	t.since = now
	return err
}

// residentBatches are the parts of the synthetic batches that are resident on a GPU, as those of a training split are.
type residentBatches struct {
	models.Resident
	words, starts []int32 // as Words and Starts; nil where captions are augmented
}

// makeResident allocates memory for synthetic batches on a GPU; it returns nil if features are streamed.
func (b *bench) makeResident(memory *MemoryPlan, semantic int) (*residentBatches, error) {
	r, ok := device.As[device.Resident](b.dev)
	if !ok {
		return nil, nil
	}
	n, d := syntheticBatches*b.cfg.Train.Batch, b.model.Dims
	memory.Features = 4 * int64(n) * int64(d.Regions) * int64(d.Feature)
	if b.Stream {
		return nil, nil
	}
	k := &residentBatches{Resident: models.Resident{Device: r}}
	memory.Resident = true
	var err error
	table := func(to *device.Table, width int) {
		if width > 0 && err == nil {
			*to, err = r.NewTable(n*width, false)
		}
	}
	table(&k.Features, d.Regions*d.Feature)
	table(&k.Semantics, semantic)
	if b.cfg.Model.Traits().Boxes {
		table(&k.Boxes, 4*d.Regions)
	}
	if !b.cfg.Model.Traits().SizeAugment {
		k.starts = []int32{0}
	}
	return k, err
}

// store copies batch i to the GPU.
func (k *residentBatches) store(x *data.Batch, i int) {
	for _, p := range []struct {
		table  device.Table
		values []float32
	}{{k.Features, x.Features}, {k.Boxes, x.Boxes}, {k.Semantics, x.Semantics}} {
		if p.table != nil {
			k.Device.Store(p.table, i*len(p.values), p.values)
		}
	}
	for c := 0; c < x.N && k.starts != nil; c++ {
		k.words = append(k.words, x.WordsOf(c)...)
		k.starts = append(k.starts, int32(len(k.words)))
	}
}

// number makes batch i number its rows on the GPU.
func (k *residentBatches) number(x *data.Batch, i int) {
	for _, rows := range []struct {
		of   []int32
		each int
	}{{x.Rows, x.N}, {x.Numbers, x.N}, {x.RegionRows, x.N * x.Regions}} {
		for j := range rows.of {
			rows.of[j] += int32(i * rows.each)
		}
	}
	x.Features, x.Boxes, x.Semantics = nil, nil, nil
}
