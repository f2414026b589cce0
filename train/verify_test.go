package train

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// verified is a step that looks for flipped bits, and repeats one of every.
func verified(t testing.TB, s *Step, every int) *Step {
	t.Helper()
	try.Do(t, Verify(s, every, 4))
	return s
}

// All networks train with the same bits with and without Verify, on a batch at once and in micro-batches, and nothing
// is found.
func TestVerifyChangesNothing(t *testing.T) {
	cases := recordedCases(t)
	for i := range cases {
		if c := &cases[i]; strings.HasSuffix(c.name, "captions true") {
			c.step = func(d device.Device) *Step { // whose parameters are updated twice
				o := models.DefaultOptions().VSRN
				o.Caption, o.DuplicateParams = true, true
				return vsrnStep(t, d, o)
			}
		}
	}
	for _, c := range cases[:len(cases):len(cases)] {
		if strings.HasPrefix(c.name, "vseinf") || c.name == "vsepp lmh" {
			cases = append(cases, divided(t, c, 4))
		}
	}
	for _, c := range lossCases(t) {
		if c.name == models.VSEPP+" siglip" { // which learns what its limits hold back at this rate
			c.name, c.lr = c.name+" at its limits", 30
			cases = append(cases, c)
		}
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dev := newDevice(t, "fp32")
			plain, looked := c.step(dev), verified(t, c.step(dev), 2)
			steps := 3
			if strings.HasSuffix(c.name, "captions true") { // hundreds of dimensions
				steps = 2
			}
			for i := range steps {
				want := try.Get(plain.Run(c.batch(i), c.lr, i == 0))(t)
				got, err := looked.Run(c.batch(i), c.lr, i == 0)
				if err != nil {
					t.Fatalf("step %d: %v", i+1, err)
				}
				if got != want {
					t.Fatalf("step %d: %+v, without verification %+v", i+1, got, want)
				}
				if at := differ(allNumbers(looked), allNumbers(plain)); at >= 0 {
					t.Fatalf("step %d: number %d differs", i+1, at)
				}
			}
			if err := Unchanged(looked); err != nil {
				t.Error(err)
			}
		})
	}
}

// flip changes one bit of a value of float32, and returns what takes it back.
func flip(dev device.Device, v device.View, at int, bit uint) (back func()) {
	var x [1]float32
	one := v.Slice(at, at+1)
	dev.DownloadFloats(x[:], one)
	dev.UploadFloats(one, []float32{math.Float32frombits(math.Float32bits(x[0]) ^ 1<<bit)})
	return func() { dev.UploadFloats(one, x[:]) }
}

var (
	flips    = flag.Int("flips", 1000, "bits that TestFlippedBits flips")
	flipSeed = flag.Uint64("flip-seed", 7, "seed that draws them")
)

// Every bit that flips in the parameters and moments between two updates is named by the second of them, and before
// the state is saved, whatever it does to the loss.
func TestFlippedBits(t *testing.T) {
	var cases []recordedCase
	for _, c := range recordedCases(t) {
		if !strings.HasPrefix(c.name, "bert") && !strings.HasSuffix(c.name, "captions true") { // large, or slow
			cases = append(cases, c)
		}
	}
	tried := 0
	for k, c := range cases {
		r := rand.New(rand.NewPCG(*flipSeed, uint64(k)))
		dev := newDevice(t, "fp32")
		s := verified(t, c.step(dev), 0)
		for i := range 2 {
			try.Get(s.Run(c.batch(i), c.lr, false))(t)
		}
		p := s.model.Instance.Params
		arrays := []device.View{p.Values(), s.opt.m, s.opt.v}
		kept := []device.View{p.Values(), p.State(), s.opt.m, s.opt.v}
		var saved [][]float64
		for _, v := range kept {
			saved = append(saved, doubles(dev, v))
		}
		steps, expected, batch := s.opt.steps, s.verifier.expected, c.batch(2)
		for range *flips/len(cases) + 1 {
			spec := p.Specs[r.IntN(len(p.Specs))]
			if spec.State {
				continue
			}
			lo, hi := p.Range(spec.Name)
			array, at, bit := r.IntN(3), lo+r.IntN(hi-lo), uint(r.IntN(32))
			tried++
			what := fmt.Sprintf("%s: bit %d of value %d of array %d", c.name, bit, at, array)
			back := flip(dev, arrays[array], at, bit)
			checkFlip(t, what+", before saving", Unchanged(s), array, bit)
			used := slices.ContainsFunc(s.last.updates, func(u update) bool { return u.lo <= at && at < u.hi })
			if used && (*flips <= 1000 || r.IntN(10) == 0) {
				_, err := s.Run(batch, c.lr, false)
				checkFlip(t, what+", by the update", err, array, bit)
				for i, v := range kept {
					dev.UploadDoubles(v, saved[i])
				}
				s.opt.steps, s.verifier.expected = steps, expected
			}
			back()
			if t.Failed() {
				t.Fatalf("campaign: flipped bits of parameters and moments: %d found, %d tried, 1 failed", *flips,
					tried)
			}
		}
		try.Do(t, Unchanged(s))
	}
	t.Logf("campaign: flipped bits of parameters and moments: %d found, %[1]d tried, 0 failed", tried)
}

func checkFlip(t *testing.T, what string, err error, array int, bit uint) {
	t.Helper()
	var f *FlippedBits
	name := []string{"parameters", "first moments", "second moments"}[array]
	if !errors.As(err, &f) || !strings.Contains(f.Array, fmt.Sprintf("bit %d of one of the %s", bit, name)) {
		t.Errorf("%s: %v", what, err)
	}
}

// A flip that makes the loss NaN, so that nothing is updated, is named as one.
func TestFlipThatMakesNaN(t *testing.T) {
	for name, dev := range map[string]device.Device{"cpu": newDevice(t, "fp32"), "gpu": emulatedGPU(t, false)} {
		s := tinyStep(t, dev, "lmh", math.MaxInt)
		p := s.model.Instance.Params.Value("img.fc.bias").Slice(2, 3)
		dev.UploadFloats(p, []float32{1.5}) // with another bit 30 a NaN
		verified(t, s, 0)
		b := tinyBatch(1, 6, 7)
		for range 3 {
			try.Get(s.Run(b, 1e-4, false))(t)
		}
		flip(dev, p, 0, 30)
		r, err := s.Run(b, 1e-4, false)
		checkFlip(t, name, err, 0, 30)
		if finite(r.Loss) {
			t.Errorf("%s: the loss is %v", name, r.Loss)
		}
	}
}

// Several flips are found too, those that one sum of all arrays would not see among them.
func TestSeveralFlippedBits(t *testing.T) {
	dev := newDevice(t, "fp32")
	s := verified(t, tinyStep(t, dev, "lmh", math.MaxInt), 0)
	run(t, s, tinyBatch(1, 6, 7))
	var x, y [1]float32
	dev.DownloadFloats(x[:], s.opt.m.Slice(3, 4))
	dev.DownloadFloats(y[:], s.opt.v.Slice(3, 4))
	dev.UploadFloats(s.opt.m.Slice(3, 4), y[:])
	dev.UploadFloats(s.opt.v.Slice(3, 4), x[:])
	var f *FlippedBits
	if err := Unchanged(s); !errors.As(err, &f) || !strings.Contains(f.Array, "several bits") {
		t.Errorf("two moments changed places: %v", err)
	}
}

// wrong is a device that computes something else once: the bits of a value that a kernel wrote.
type wrong struct {
	device.Device
	norms int // of gradients that are computed until then
}

func (w *wrong) Unwrap() device.Device { return w.Device }

func (w *wrong) Do(k device.Kernel) bool {
	done := w.Device.Do(k)
	if c, ok := k.(*device.ClipCoefficient); ok {
		if w.norms--; w.norms == 0 {
			flip(w.Device, c.Coefficient, 0, 0)
		}
	}
	return done
}

// A step that is done twice finds what an update computes in another way, which no sum of bits sees, and steps between
// are done once.
func TestRepeatedStepFindsWrongArithmetic(t *testing.T) {
	for norm, found := range map[int]bool{1: false, 2: false, 3: true, 4: true, 5: false, 7: true} {
		s := verified(t, tinyStep(t, &wrong{newDevice(t, "fp32"), norm}, "lmh", math.MaxInt), 3)
		var err error
		step := 0
		for step = 1; step <= 6 && err == nil; step++ { // step 3 has the third and fourth norm
			_, err = s.Run(tinyBatch(uint64(step), 6, 7), 1e-2, false)
		}
		var f *FlippedBits
		if errors.As(err, &f) != found || found && (!strings.Contains(f.Array, "done twice") || (step-1)%3 != 0) {
			t.Errorf("norm %d is wrong: step %d: %v", norm, step-1, err)
		}
	}
}

// What is resident on a GPU is added once within an epoch: each of a few flipped bits is named there.
func TestFlippedResidentBits(t *testing.T) {
	dev := emulatedGPU(t, false)
	d, _ := device.As[device.Resident](dev)
	batch := tinyBatch(1, 6, 7)
	const epoch = 4
	for _, half := range []bool{false, true} {
		s := verified(t, tinyStep(t, dev, "lmh", 0), 2)
		values := batch.Features
		table := try.Get(d.NewTable(len(values), half))(t)
		d.Store(table, 0, values)
		ids := slices.Concat(batch.Words...)
		words := try.Get(dev.Alloc(device.Int32, len(ids)))(t)
		dev.UploadInts(device.Of(words), ids)
		starts := make([]int32, 1, 1+batch.N)
		for _, l := range batch.Lengths {
			starts = append(starts, starts[len(starts)-1]+l)
		}
		begins := try.Get(dev.Alloc(device.Int32, len(starts)))(t)
		dev.UploadInts(device.Of(begins), starts)
		s.ReadFrom(&models.Resident{Device: d, Features: table, Words: device.Of(words), Starts: device.Of(begins)})
		batch.Rows, batch.Numbers = []int32{0, 1, 2, 3, 4, 5}, []int32{0, 1, 2, 3, 4, 5}
		r := rand.New(rand.NewPCG(3, 4))
		for range epoch + 1 {
			run(t, s, batch)
		}
		for range 6 {
			at := r.IntN(len(values))
			old := values[at]
			bit := uint(22)
			if !half {
				bit = uint(r.IntN(23)) // of the fraction: the loss stays finite
			}
			d.Store(table, at, []float32{math.Float32frombits(math.Float32bits(old) ^ 1<<bit)})
			var err error
			steps := 0
			for ; steps < epoch && err == nil; steps++ {
				_, err = s.Run(batch, 1e-2, false)
			}
			var f *FlippedBits
			if !errors.As(err, &f) || !strings.Contains(f.Array, "features (bytes ") {
				t.Fatalf("half %v, bit %d of value %d: after %d steps %v", half, bit, at, steps, err)
			}
			d.Store(table, at, []float32{old})
		}
		if recorded, replayed := s.Recordings(); recorded == 0 || replayed < epoch {
			t.Errorf("%d recordings, %d replayed", recorded, replayed)
		}
		d.FreeTable(table)
	}
}

// On a GPU the sums of recorded steps are the same, and a step that is done twice compares a recorded with an
// unrecorded one.
func TestVerifyOnGPU(t *testing.T) {
	dev := emulatedGPU(t, false)
	plain := tinyStep(t, dev, "lmh", 0)
	s := verified(t, tinyStep(t, dev, "lmh", 0), 2)
	for i := range 6 {
		b := tinyBatch(uint64(i), 6, 7)
		run(t, s, b)
		run(t, plain, b)
	}
	if at := differ(allNumbers(s), allNumbers(plain)); at >= 0 {
		t.Errorf("number %d differs", at)
	}
	_, most := plain.Recordings() // of two times the first is made call by call
	if _, replayed := s.Recordings(); replayed == 0 || replayed > most {
		t.Errorf("%d steps were replayed, %d without verification", replayed, most)
	}
	for array, v := range []device.View{s.model.Instance.Params.Values(), s.opt.m, s.opt.v} {
		back := flip(dev, v, 5, 9)
		checkFlip(t, "before saving", Unchanged(s), array, 9)
		_, err := s.Run(tinyBatch(1, 6, 7), 1e-2, false)
		checkFlip(t, "by the update", err, array, 9)
		back()
		s.verifier.expect(s.verifier.counted)
	}
}
