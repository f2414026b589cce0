package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/internal/compute/device/cuda/model"
	"vsetrain/internal/compute/device/cuda/null"
	"vsetrain/internal/run/place"
)

// openDevice starts the device of the request, or one that computes nothing.
func (b *bench) openDevice() (device.Device, place.Choice, error) {
	if b.opener != nil {
		d, err := b.opener()
		return d, place.Choice{}, err
	}
	if b.r.Model == "" {
		return place.Choose(b.Cfg.Device, b.r.BLAS)
	}
	d, err := openModel(b.r.Model, b.Cfg.Device)
	return d, place.Choice{}, err
}

// openModel is a device with the properties of a GPU that is not there.
func openModel(name string, o device.Options) (device.Device, error) {
	g, err := model.Find(name)
	if err != nil {
		return nil, err
	}
	info := driver.Info{Name: g.Name, Major: g.Major, Minor: g.Minor, Multiprocessors: g.Multiprocessors,
		MaxSharedBytesPerBlock: g.Shared, Together: true, Memory: uint64(g.Memory)}
	return cuda.Open(cuda.Options{On: null.New(info), Precision: o.Precision})
}

// Profile is the table of a training step: what every kernel moves and computes, its predicted time on a GPU, and
// with measured, which needs a GPU, its time there. Where r.Model is empty the GPU that is there must be one of
// package model.
func Profile(ctx context.Context, r Request, measured bool) (*model.Table, error) {
	name := r.Model
	if measured {
		r.Model = ""
	}
	c := *r.Config
	c.Device.Capture = "never" // a kernel of a recording cannot be timed alone
	r.Config = &c
	b := newBench(r)
	defer b.Close()
	if _, err := b.open(ctx); err != nil {
		return nil, place.Explain(err, c.Device, "no step had been done")
	}
	p, ok := b.Device.(cuda.Profiler)
	if !ok {
		return nil, fmt.Errorf("kernels are timed on a GPU alone, this is %s; --model alone predicts without one",
			b.Device.Name())
	}
	g, err := modelOf(name, b.Device.Name())
	if err != nil {
		return nil, err
	}
	t := stepTimer{step: b.Step, lr: c.Optim.LR, now: time.Now}
	var of model.Batch
	step := func() error {
		x, err := b.Next()
		if err != nil {
			return err
		}
		of = batchOf(x.Lengths)
		if err := t.do(x, b.Release); err != nil {
			return err
		}
		return t.finish()
	}
	for range max(r.Warmup, syntheticBatches) { // the largest shapes have been met, and memory lies where it stays
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := step(); err != nil {
			return nil, place.Explain(err, c.Device, "no step was timed")
		}
	}
	calls, err := p.Profile(measured, step)
	if err != nil {
		return nil, place.Explain(err, c.Device, "no step was timed")
	}
	return model.Predict(g, of, calls)
}

// modelOf is the GPU of a name, or the one that a device calls itself after.
func modelOf(name, device string) (model.GPU, error) {
	if name != "" {
		return model.Find(name)
	}
	for _, n := range model.Names() {
		if strings.Contains(strings.ToLower(strings.ReplaceAll(device, " ", "")), n) {
			return model.Find(n)
		}
	}
	return model.GPU{}, fmt.Errorf("there is no model of %s to put beside its times; "+
		"name one that is like it with --model: %s", device, strings.Join(model.Names(), ", "))
}

func batchOf(lengths []int32) model.Batch {
	sum, most := 0, int32(0)
	for _, n := range lengths {
		sum += int(n)
		most = max(most, n)
	}
	return model.Batch{Words: float64(sum) / float64(len(lengths)), Longest: float64(most)}
}
