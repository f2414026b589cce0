package train

import (
	"math"
	"slices"

	"vsetrain/internal/compute/device"
)

// runner makes the kernel calls of training steps on a device and fetches what the steps report.
type runner interface {
	// run makes the calls of a step. key is all that they depend on beside addresses, generation that of the instance.
	run(key callKey, generation int, calls func())
	// guard keeps Adam from changing anything unless the norm and the losses are finite. It reports whether the calls
	// of the update follow: a device that runs behind its calls is given them and does nothing.
	guard(coef, norm device.View, losses []device.View) bool
	// fetch begins to copy scalars, the last of which may be int32, and behind them scores, to the host; fetched waits
	// for them. They are valid until the next fetch of the slot. There are as many slots as depth.
	fetch(slot int, values []device.View)
	fetched(slot int) (scalars []float64, scores []float32, err error)
	// depth is how many steps may be started and not finished.
	depth() int
}

// callKey is what the calls of a step depend on beside addresses.
type callKey struct {
	shape
	words, all, regions int // upper bounds of words, of those of all ranks, and of regions
}

// newRunner returns the runner of a device, and the same as a recorder where the device records.
func newRunner(dev device.Device) (runner, *recorder) {
	if r, ok := device.As[device.Recorder](dev); ok {
		rec := &recorder{Recorder: r, dev: dev, table: map[callKey]*recorded{}}
		return rec, rec
	}
	return &direct{dev: dev}, nil
}

// direct is the runner of a device that records nothing: every call is made at once, one step at a time.
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
		for range v.N {
			d.scalars = append(d.scalars, 0)
		}
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
	if cap(d.scores) < values[last].N {
		d.scores = make([]float32, values[last].N)
	}
	d.scores = d.scores[:values[last].N]
	d.dev.DownloadFloats(d.scores, values[last])
}

func (d *direct) fetched(int) ([]float64, []float32, error) { return d.scalars, d.scores, d.dev.Sync() }

// recorder is the runner of a device.Recorder: forward, loss, backward, norm, clip and update are one sequence of
// kernel calls without a look from the host in between. The calls of a first step are made one by one; those of the
// second with the same key are recorded, and the recording is replayed by it and all later ones. What changes from step
// to step lies in device memory: inputs, lengths, scalars of the optimiser, counter of dropout.
type recorder struct {
	device.Recorder
	dev     device.Device
	never   bool   // make all calls one by one
	divided bool   // the same, because batches are divided: calls depend on the lengths of captions
	failed  string // why the device could not record, most recently
	inRow   int    // keys behind each other that it could not record
	table   map[callKey]*recorded

	slots [device.FetchSlots]struct {
		scalars int // how many of the values
		ints    int // how many of the scalars, the last of them
		values  []float64
	}

	Recorded, Replayed int // steps, for tests
}

type recorded struct {
	rec        device.Recording // nil: not yet
	refused    bool             // it cannot be recorded
	generation [2]int           // of instance and device
}

// mostRefused is how many keys behind each other may fail to be recorded before none is tried any more.
const mostRefused = 3

// maxRecordings bounds the memory that recordings take; the calls of steps with further keys are made one by one.
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
		calls() // which may move memory: what is recorded next finds everything where it stays
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

// why is the reason why steps are not recorded, empty if they are.
func (r *recorder) why() string {
	if r.never {
		return "device.capture is never"
	}
	if r.divided {
		return "train.micro_batch divides the batch"
	}
	return r.failed
}
