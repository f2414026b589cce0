package train

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"vsetrain/internal/compute/device"
	"vsetrain/models"
)

// verifier finds bits that memory or a processor has changed (Options.Verify). Each update adds the bits of the
// parameters and moments as it reads them, which must be what the update before wrote; a step in so many is done twice
// from the same state; and each step adds a part of what of the training split stays on the device.
type verifier struct {
	opt      *optimiser
	runner   runner
	recorder *recorder        // the runner, where the device records
	resident *models.Resident // what stays on the device; nil is nothing
	every    int64            // a step in so many is done twice; 0 is none
	batches  int              // steps in which all of what is resident is added once

	sums     device.View // int32 [5] of a step: as its update reads and writes them (device.Adam), and resident part
	zeros    device.View // int32 [5]
	expected [2]uint32   // sums of the bits of what the updates change now
	idle     [2]uint32   // and of parameters and moments that no update changes
	counted  []update    // the updates; nil where nothing is expected yet
	parts    []residentPart
	saved    []savedValues
}

// FlippedBits is the error of values that are not what the device computed or was given. Nothing was saved since.
type FlippedBits struct {
	Device string
	Array  string // with what was found
	Remedy string
}

func (e *FlippedBits) Error() string {
	return fmt.Sprintf("%s: %s; the state was not saved: %s", e.Device, e.Array, e.Remedy)
}

func newVerifier(opt *optimiser, r runner, rec *recorder, every, batches int) (*verifier, error) {
	v := &verifier{opt: opt, runner: r, recorder: rec, every: int64(every), batches: batches}
	if err := device.Make(opt.dev, device.Int32, sumCount, &v.sums, &v.zeros); err != nil {
		return nil, fmt.Errorf("allocate the sums of train.verify: %w", err)
	}
	opt.sums = v.sums
	return v, nil
}

// unchanged returns an error where a bit of the parameters or moments has changed since the last update. v may be nil.
func (v *verifier) unchanged() error {
	if v == nil || v.counted == nil {
		return nil
	}
	bits := v.all()
	return v.compare([2]uint32{bits[0] - v.idle[0], bits[1] - v.idle[1]})
}

// expect takes parameters and moments for what they are, of which updates change a part.
func (v *verifier) expect(updates []update) {
	v.counted, v.expected = updates, v.count(updates)
	all := v.all()
	v.idle = [2]uint32{all[0] - v.expected[0], all[1] - v.expected[1]}
}

// begin prepares the sums of a step with the given updates, which fetches what it reports into a slot. Where it is done
// twice, begin does it, takes it back, and returns what it reported. v may be nil.
func (v *verifier) begin(updates []update, slot int, step func() error) (*report, error) {
	if v == nil {
		return nil, nil
	}
	if v.counted == nil {
		v.expect(updates)
		v.parts = v.divide(v.resident)
	} else if !sameRanges(v.counted, updates) { // of a graph that lacks parameters which others have
		if err := v.unchanged(); err != nil {
			return nil, err
		}
		v.expect(updates)
	}
	v.reset()
	if v.every == 0 || v.opt.steps%v.every != 0 {
		return nil, nil
	}
	return v.ahead(slot, step)
}

// reset sets the sums to what a step begins with.
func (v *verifier) reset() {
	device.Do(v.opt.dev, device.Copy{Dst: v.sums, Src: v.zeros})
	if len(v.parts) > 0 {
		v.part(v.opt.steps).add(v.opt.dev, v.residentSum())
	}
}

// part is what of the resident data a step adds.
func (v *verifier) part(update int64) *residentPart { return &v.parts[update%int64(len(v.parts))] }

// sameRanges reports whether updates are of the same parameters, however these are divided.
func sameRanges(a, b []update) bool {
	ranges := func(list []update) []span {
		var spans []span
		for _, u := range list {
			if u.nth == 1 {
				spans = append(spans, span{lo: u.lo, hi: u.hi})
			}
		}
		return join(spans)
	}
	return len(a) > 0 && len(b) > 0 && &a[0] == &b[0] || slices.Equal(ranges(a), ranges(b))
}

// all adds the bits of all parameters and moments of the rank.
func (v *verifier) all() [2]uint32 {
	return v.count(v.opt.cut(updatesOf(1, span{hi: v.opt.params.OptimisedSize()})))
}

// count adds the bits of the parameters and moments of updates.
func (v *verifier) count(updates []update) [2]uint32 {
	device.Do(v.opt.dev, device.Copy{Dst: v.sums, Src: v.zeros})
	for i := range updates {
		if updates[i].nth == 1 {
			v.opt.sumOf(&updates[i].span, updates[i].at, v.sums.Slice(sumAfter, sumAfter+2))
		}
	}
	x := v.read()
	return [2]uint32{x[sumAfter], x[sumAfter+1]}
}

func (v *verifier) residentSum() device.View { return v.sums.Slice(sumResident, sumResident+1) }

func (v *verifier) read() (sums [sumCount]uint32) {
	var x [sumCount]int32
	v.opt.dev.DownloadInts(x[:], v.sums)
	for i := range x {
		sums[i] = uint32(x[i])
	}
	return sums
}

// check looks at what a step with an update reported, and at first, what it reported before where it was done twice. v
// may be nil.
func (v *verifier) check(update int64, first *report, scalars []float64, scores []float32) error {
	if v == nil {
		return nil
	}
	if err := v.same(first, scalars, scores); err != nil {
		return err
	}
	return v.finish(update, scalars[len(scalars)-sumCount:])
}

// finish compares the sums of a step with an update.
func (v *verifier) finish(update int64, sums []float64) error {
	sum := func(i int) uint32 { return uint32(int32(sums[i])) }
	if err := v.compare([2]uint32{sum(sumBefore), sum(sumBefore + 1)}); err != nil {
		return err
	}
	v.expected = [2]uint32{sum(sumAfter), sum(sumAfter + 1)}
	if len(v.parts) == 0 {
		return nil
	}
	if p := v.part(update); sum(sumResident) != p.sum {
		return v.failure(fmt.Sprintf("bits of %s, which stay on the device, have changed since they were copied there",
			p.name))
	}
	return nil
}

// compare compares what parameters and moments are with what the last update wrote.
func (v *verifier) compare(bits [2]uint32) error {
	if bits == v.expected {
		return nil
	}
	what := "several bits of the parameters or moments"
	if array, bit, ok := device.FlippedBy(bits[0]-v.expected[0], bits[1]-v.expected[1]); ok {
		what = fmt.Sprintf("bit %d of one of the %s", bit, [...]string{"parameters", "first moments (optim/m)",
			"second moments (optim/v)"}[array])
	}
	return v.failure(what + " has changed since the update before")
}

func flipped(err error) bool {
	_, ok := err.(*FlippedBits)
	return ok
}

func (v *verifier) failure(what string) error {
	return &FlippedBits{Device: v.opt.dev.Name(), Array: what, Remedy: "test the memory and the " +
		"processors of this machine"}
}

// residentPart is what of the resident data a step adds.
type residentPart struct {
	name   string
	tables []device.SumTable
	views  []device.SumBits
	sum    uint32
}

func (p *residentPart) add(dev device.Device, sum device.View) {
	for _, k := range p.tables {
		k.Sum = sum
		device.Do(dev, k)
	}
	for _, k := range p.views {
		k.Sum = sum
		device.Do(dev, k)
	}
}

// divide divides what is resident into parts of nearly the same size, one for each batch, and adds each.
func (v *verifier) divide(r *models.Resident) []residentPart {
	if r == nil {
		return nil
	}
	tables := []struct {
		name string
		device.Table
	}{{"features", r.Features}, {"boxes", r.Boxes}, {"semantic vectors", r.Semantics}}
	views := []struct {
		name string
		device.View
	}{{"word ids", r.Words}, {"word ids", r.Starts}}
	var all int64
	for _, t := range tables {
		if t.Table != nil {
			all += t.Bytes()
		}
	}
	for _, x := range views {
		all += 4 * int64(x.N)
	}
	if all == 0 {
		return nil
	}
	size := (all/int64(v.batches) + 4) / 4 * 4
	parts := make([]residentPart, (all+size-1)/size)
	var begin int64 // of a table or view among all
	// cut calls add for each part that has some of what follows: bytes from to to of it.
	cut := func(name string, bytes int64, add func(p *residentPart, from, to int64)) {
		for i := begin / size; i*size < begin+bytes; i++ {
			from, to := max(0, i*size-begin), min(bytes, (i+1)*size-begin)
			p := &parts[i]
			p.name = strings.TrimPrefix(fmt.Sprintf("%s, %s (bytes %d to %d)", p.name, name, from, to), ", ")
			add(p, from, to)
		}
		begin += (bytes + 3) / 4 * 4
	}
	for _, t := range tables {
		if t.Table != nil {
			cut(t.name, t.Bytes(), func(p *residentPart, from, to int64) {
				p.tables = append(p.tables, device.SumTable{Table: t.Table, From: from, To: to})
			})
		}
	}
	for _, x := range views {
		cut(x.name, 4*int64(x.N), func(p *residentPart, from, to int64) {
			p.views = append(p.views, device.SumBits{X: x.Slice(int(from/4), int(to/4))})
		})
	}
	dev := v.opt.dev
	for i := range parts {
		device.Do(dev, device.Copy{Dst: v.sums, Src: v.zeros})
		parts[i].add(dev, v.residentSum())
		parts[i].sum = v.read()[sumResident]
	}
	return parts
}

// savedValues are values of the device, on the host.
type savedValues struct {
	view   device.View
	single []float32
	double []float64
}

// ahead does a step, without a recording, and takes it back. It returns what the step reported.
func (v *verifier) ahead(slot int, step func() error) (*report, error) {
	o := v.opt
	dev, params := o.dev, o.params
	if v.saved == nil {
		views := []device.View{params.Values(), params.State(), o.m, o.v}
		if a := o.average; a != nil {
			views = append(views, a.values)
		}
		for _, x := range views {
			k := savedValues{view: x}
			if dev.Wide() {
				k.double = make([]float64, x.N)
			} else {
				k.single = make([]float32, x.N)
			}
			v.saved = append(v.saved, k)
		}
	}
	for _, k := range v.saved {
		if k.double != nil {
			dev.DownloadDoubles(k.double, k.view)
		} else {
			dev.DownloadFloats(k.single, k.view)
		}
	}
	if r := v.recorder; r != nil {
		never := r.never
		r.never = true
		defer func() { r.never = never }()
	}
	if err := step(); err != nil {
		return nil, err
	}
	x, scores, err := v.runner.fetched(slot)
	if err != nil {
		return nil, err
	}
	first := &report{slices.Clone(x), slices.Clone(scores)}
	for _, k := range v.saved {
		if k.double != nil {
			dev.UploadDoubles(k.view, k.double)
		} else {
			dev.UploadFloats(k.view, k.single)
		}
	}
	v.reset()
	return first, nil
}

// report is what a step reports: scalars, and scores.
type report struct {
	scalars []float64
	scores  []float32
}

// same compares what a step reported when it was done twice.
func (v *verifier) same(first *report, x []float64, scores []float32) error {
	if first == nil {
		return nil
	}
	n := len(x) - sumCount
	what := ""
	switch {
	case !slices.EqualFunc(first.scalars[:n], x[:n], sameBits):
		what = fmt.Sprintf("the loss is %v and then %v, the norm of the gradients %v and then %v", first.scalars[0],
			x[0], first.scalars[3], x[3])
	case !slices.EqualFunc(first.scores, scores, func(a, b float32) bool {
		return math.Float32bits(a) == math.Float32bits(b)
	}):
		what = "scores differ"
	case !slices.EqualFunc(first.scalars[n:], x[n:], sameBits):
		what = "the loss is the same, but parameters or moments differ behind the update"
	default:
		return nil
	}
	return v.failure("the step was done twice from the same state, and its results have other bits: " + what)
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
