package cuda

import (
	"errors"
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// recording is a CUDA graph of kernel calls.
type recording struct {
	graph  driver.Graph
	exec   driver.Exec
	copies []recordedCopies
	at     string // the node of Record
}

func (r *recording) destroy(d *dev) (first error) {
	drop(&first, d.drv.DestroyExec, r.exec)
	drop(&first, d.drv.DestroyGraph, r.graph)
	*r = recording{}
	return first
}

// lendWorkspace gives cuBLAS as much memory as NVIDIA recommends. All recordings share it.
func (d *dev) lendWorkspace() (err error) {
	bytes := 4 << 20
	if d.info.Major >= 9 { // Hopper
		bytes = 32 << 20
	}
	if d.blasSpace, err = d.drv.Alloc(bytes); err != nil {
		return fmt.Errorf("memory for cuBLAS: %w", err)
	}
	d.biased = d.blas.Version() >= 120100 // before, some sizes with a bias fail (pytorch/pytorch#73455)
	return d.blas.Workspace(d.blasSpace, bytes)
}

// refuse reports whether calls are being recorded, and makes the recording fail: what would happen once and not at
// every replay.
func (d *dev) refuse(what string) bool {
	if d.recording && d.refused == nil {
		d.refused = fmt.Errorf("device: cuda: %s cannot be recorded", what)
	}
	return d.recording
}

// Record implements device.Recorder: the stream records a CUDA graph. A recording cannot load modules, so if f starts a
// kernel whose module is not loaded, Record loads it and records f again. If the driver refuses to record kernels whose
// blocks run at once, the device uses none of them from then on.
func (d *dev) Record(f func()) (device.Recording, error) {
	if d.recording {
		panic("cuda: Record inside Record")
	}
	at := d.at // f changes it
	for {
		d.at = at
		r, err := d.record(f)
		if err == nil {
			return r, nil
		}
		var missing *notLoaded
		if !errors.As(err, &missing) || missing.handle != 0 {
			if d.together && !d.apart && driver.Refused(err) {
				d.stepByStep(err)
				continue
			}
			return nil, err
		}
		d.run(func() error { return d.load(missing.module) })
		if err := d.wait(); err != nil {
			return nil, err
		}
	}
}

func (d *dev) record(f func()) (*recording, error) {
	d.run(func() error {
		d.captureErr, d.capturing = nil, true
		return d.drv.BeginCapture(d.stream)
	})
	r := &recording{at: d.at}
	var err error
	func() {
		d.recording, d.together, d.refused = true, false, nil
		finish := d.recordCopies()
		d.lengths.forget()
		defer func() {
			d.recording = false
			d.lengths.forget()
			r.copies = finish()
			d.run(func() error { err = d.endCapture(r); return nil })
		}()
		f()
	}()
	if failure := d.wait(); failure != nil {
		return nil, failure
	}
	if d.refused != nil {
		err = d.refused
	}
	if err != nil {
		d.run(func() error { r.destroy(d); return nil })
		d.wait()
		return nil, err
	}
	d.recordings[r] = struct{}{}
	return r, nil
}

// endCapture ends the recording on the thread of the context. Its error is not a failure of the device: nothing has
// run.
func (d *dev) endCapture(r *recording) error {
	d.capturing = false
	g, err := d.drv.EndCapture(d.stream)
	if err == nil {
		r.graph = g
	}
	if d.captureErr != nil { // why the recording failed or did not begin
		err = d.captureErr
	}
	if err != nil {
		return fmt.Errorf("device: cuda: record: %w", err)
	}
	r.exec, err = d.drv.Instantiate(r.graph)
	return err
}

// Replay implements device.Recorder.
func (d *dev) Replay(r device.Recording) {
	own := d.recorded(r)
	d.expect(own.copies)
	c := d.next()
	c.kind, c.exec, c.at = commandReplay, own.exec, own.at
	d.copiesAfter(own.copies)
	d.lengths.forget()
}

// Forget implements device.Recorder.
func (d *dev) Forget(r device.Recording) {
	own := d.recorded(r)
	delete(d.recordings, own)
	d.run(func() error { return own.destroy(d) })
}

func (d *dev) recorded(r device.Recording) *recording {
	own, ok := r.(*recording)
	if _, alive := d.recordings[own]; !ok || !alive {
		panic(fmt.Sprintf("cuda: a recording that this device does not have (%T)", r))
	}
	return own
}

// Generation implements device.Recorder.
func (d *dev) Generation() int { return d.moves }

func (d *dev) Guard(a device.Guard) {
	of := [2]device.View{}
	copy(of[:], a.Losses)
	d.start("guard", 32, 1, 1, 1).of(a.Coefficient, a.Norm, of[0], of[1])
}
