package train

import (
	"math"
	"slices"

	"vsetrain/internal/compute/device"
)

// runner makes the kernel calls of training steps on a device and fetches what the steps report.
type runner interface {
	// run makes the calls of a step. They depend only on key and addresses; generation is the instance's.
	run(key callKey, generation int, calls func())
	// guard prevents the update unless the norm and the losses are finite. It reports whether the calls of the update
	// must follow: an asynchronous device receives them in any case and does nothing.
	guard(coef, norm device.View, losses []device.View) bool
	// fetch begins to copy scalars, of which the last may be int32, and then scores to the host. fetched waits for them
	// and returns them until the next fetch of the slot. There are depth slots.
	fetch(slot int, values []device.View)
	fetched(slot int) (scalars []float64, scores []float32, err error)
	// depth is the number of steps that may be started and not finished.
	depth() int
}

// callKey determines the calls of a step except for addresses.
type callKey struct {
	shape
	words, all, regions int // upper bounds of words, of words of all ranks, and of regions
}

// newRunner returns the runner of a device, also as a recorder if the device records.
func newRunner(dev device.Device) (runner, *recorder) {
	if r, ok := device.As[device.Recorder](dev); ok {
		rec := &recorder{Recorder: r, dev: dev, table: map[callKey]*recorded{}}
		return rec, rec
	}
	return &direct{dev: dev}, nil
}

// direct is the runner of a device that does not record. It makes every call immediately, one step at a time.
type direct struct {
	dev     device.Device
	scalar  [1]float64
	ints    []int32
	scalars []float64
	scores  []float32
}

func (d *direct) depth() int { return 1 }

func (d *direct) run(_ callKey, _ int, calls func()) { calls() }

func (d *direct) guard(_, norm device.View, losses []device.View) bool {
	for _, v := range losses {
		if !d.finite(v) {
			return false
		}
	}
	return d.finite(norm)
}

func (d *direct) finite(v device.View) bool {
	d.dev.DownloadDoubles(d.scalar[:], v.Slice(0, 1))
	return finite(d.scalar[0])
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func (d *direct) fetch(_ int, values []device.View) {
	d.scalars = d.scalars[:0]
	last := len(values) - 1
	for _, v := range values[:last] {
		at := len(d.scalars)
		d.scalars = slices.Grow(d.scalars, v.N)[:at+v.N]
		if v.Buf.DType() == device.Int32 {
			d.ints = slices.Grow(d.ints[:0], v.N)[:v.N]
			d.dev.DownloadInts(d.ints, v)
			for i, x := range d.ints {
				d.scalars[at+i] = float64(x)
			}
			continue
		}
		d.dev.DownloadDoubles(d.scalars[at:], v)
	}
	d.scores = slices.Grow(d.scores[:0], values[last].N)[:values[last].N]
	d.dev.DownloadFloats(d.scores, values[last])
}

func (d *direct) fetched(int) ([]float64, []float32, error) { return d.scalars, d.scores, d.dev.Sync() }

// recorder is the runner of a device.Recorder. A step is one sequence of kernel calls in which the host reads nothing.
// The calls of the first step with a key are made one by one. The second step records them, and it and all later steps
// replay the recording. All that changes from step to step is in device memory: inputs, lengths, scalars of the
// optimiser, and the counter of dropout.
type recorder struct {
	device.Recorder
	dev     device.Device
	never   bool   // make all calls one by one
	divided bool   // do so because batches are divided, and calls depend on the lengths of captions
	failed  string // the last reason why the device could not record
	inRow   int    // failed keys in a row
	table   map[callKey]*recorded

	slots [device.FetchSlots]struct {
		scalars int // number of scalars
		ints    int // number of int32 scalars, which are the last
		values  []float64
	}

	Recorded, Replayed int // steps, for tests
}

type recorded struct {
	rec        device.Recording // nil: not yet
	refused    bool             // it cannot be recorded
	generation [2]int           // of the instance and the device
}

// mostRefused is the number of failed keys in a row after which nothing is recorded.
const mostRefused = 3

// maxRecordings limits the memory of recordings. The calls of steps with further keys are made one by one.
const maxRecordings = 256

func (r *recorder) depth() int { return device.FetchSlots }

func (r *recorder) run(key callKey, instance int, calls func()) {
	if r.never || r.divided || r.inRow == mostRefused {
		calls()
		return
	}
	e, generation := r.table[key], [2]int{instance, r.Generation()}
	if e == nil && len(r.table) == maxRecordings {
		calls()
		return
	}
	if e == nil || e.generation != generation {
		if e != nil && e.rec != nil {
			r.Forget(e.rec)
		}
		calls() // may move memory, so the next step is recorded
		r.table[key] = &recorded{generation: [2]int{instance, r.Generation()}}
		return
	}
	if e.refused {
		calls()
		return
	}
	if e.rec == nil {
		rec, err := r.Record(calls)
		if err != nil {
			r.failed, e.refused = err.Error(), true
			r.inRow++
			calls()
			return
		}
		r.inRow = 0
		r.Recorded++
		e.rec = rec
	}
	r.Replayed++
	r.Replay(e.rec)
}

func (r *recorder) guard(coef, norm device.View, losses []device.View) bool {
	device.Do(r.dev, device.Guard{Coefficient: coef, Norm: norm, Losses: losses})
	return true
}

func (r *recorder) fetch(slot int, values []device.View) {
	s := &r.slots[slot]
	s.scalars, s.ints = 0, 0
	for _, v := range values[:len(values)-1] {
		s.scalars += v.N
		if v.Buf.DType() == device.Int32 {
			s.ints += v.N
		}
	}
	r.Fetch(slot, values...)
}

func (r *recorder) fetched(slot int) ([]float64, []float32, error) {
	x, err := r.Fetched(slot)
	if err != nil {
		return nil, nil, err
	}
	s := &r.slots[slot]
	s.values = s.values[:0]
	for i, v := range x[:s.scalars] {
		if i >= s.scalars-s.ints {
			s.values = append(s.values, float64(int32(math.Float32bits(v))))
		} else {
			s.values = append(s.values, float64(v))
		}
	}
	return s.values, x[s.scalars:], nil
}

// why returns the reason why steps are not recorded, "" if they are.
func (r *recorder) why() string {
	if r.never {
		return "device.capture is never"
	}
	if r.divided {
		return "train.micro_batch divides the batch"
	}
	return r.failed
}
