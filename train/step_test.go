package train

import (
	"errors"
	"math"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/philox"
	"vsetrain/lab/try"
	"vsetrain/loss"
)

// everyKind runs a test for each precision, with stored and with factored gradients.
func everyKind(t *testing.T, f func(t *testing.T, precision string, factorFrom int)) {
	for _, precision := range []string{cpu.FP32, cpu.BF16, cpu.FP64} {
		for suffix, from := range map[string]int{"stored": math.MaxInt, "factored": 0} {
			t.Run(precision+"/"+suffix, func(t *testing.T) { f(t, precision, from) })
		}
	}
}

// numbers is everything that the next step depends on: weights, moments, updates.
func numbers(s *Step) []float64 {
	dev, p := s.model.Instance.Dev, s.model.Instance.Params
	out := append(doubles(dev, p.Values()), doubles(dev, s.opt.m)...)
	return append(append(out, doubles(dev, s.opt.v)...), float64(s.opt.steps))
}

// allNumbers adds the running statistics, which a step changes too.
func allNumbers(s *Step) []float64 {
	out := numbers(s)
	for _, p := range s.model.Instance.Params.Specs {
		if p.State {
			out = append(out, doubles(s.model.Instance.Dev, s.model.Instance.Params.Value(p.Name))...)
		}
	}
	return out
}

// differ returns the first index at which two states differ in any bit, -1 without one.
func differ(a, b []float64) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || math.Float64bits(a[i]) != math.Float64bits(b[i]) {
			return i
		}
	}
	return -1
}

func run(t *testing.T, s *Step, b *data.Batch) StepResult {
	t.Helper()
	return try.Get(s.Run(b, 1e-2, false))(t)
}

// A step of a known shape allocates nothing, also when the shapes alternate.
func TestStepAllocatesNothing(t *testing.T) {
	everyKind(t, func(t *testing.T, precision string, factorFrom int) {
		for _, name := range []string{loss.LMH, loss.LSEH, loss.LSH, loss.LUWM} {
			s := tinyStep(t, newDevice(t, precision), name, factorFrom)
			long, short := tinyBatch(1, 6, 12), tinyBatch(2, 4, 5)
			both := func() { run(t, s, long); run(t, s, short) }
			both()
			both()
			if n := testing.AllocsPerRun(20, both); n != 0 {
				t.Errorf("%s: %v allocations in two steps", name, n)
			}
		}
	})
}

// NaN in the features, or an overflow, ends the step with an error that says so; weights and moments are untouched,
// also on a GPU, where the host sees the loss after the update.
func TestStepRefusesWhatIsNotFiniteError(t *testing.T) {
	refuses := func(t *testing.T, s *Step) {
		good := tinyBatch(1, 6, 7)
		for range 3 {
			run(t, s, good)
		}
		refused := func(what string, bad *data.Batch, words string) {
			t.Helper()
			before := numbers(s)
			_, err := s.Run(bad, 1e-2, false)
			var nf *NotFiniteError
			if !errors.As(err, &nf) || !strings.HasPrefix(err.Error(), words) {
				t.Errorf("%s: got %v, want %s", what, err, words)
			}
			if i := differ(before, numbers(s)); i >= 0 {
				t.Errorf("%s: the step changed element %d of the state", what, i)
			}
		}
		for what, v := range map[string]float64{"NaN": math.NaN(), "Inf": math.Inf(1)} {
			bad := tinyBatch(1, 6, 7)
			bad.Features[5] = float32(v)
			refused(what, bad, "the loss is NaN")
		}
		before := numbers(s)
		run(t, s, good) // and training can continue
		for i, x := range numbers(s) {
			if !finite(x) {
				t.Fatalf("element %d of the state is %v after the next step", i, x)
			}
		}
		weights := s.model.Instance.Params.Values().N
		if steps := before[len(before)-1]; float64(s.opt.steps) != steps+1 ||
			differ(before[:weights], numbers(s)[:weights]) < 0 {
			t.Error("the next step did nothing")
		}
		if s.recorder != nil && s.recorder.Replayed < 3 {
			t.Errorf("%d steps were replayed", s.recorder.Replayed)
		}
	}
	everyKind(t, func(t *testing.T, precision string, factorFrom int) {
		refuses(t, tinyStep(t, newDevice(t, precision), loss.LMH, factorFrom))
	})
	t.Run("GPU", func(t *testing.T) { refuses(t, tinyStep(t, emulatedGPU(t, false), loss.LMH, math.MaxInt)) })
}

// A step is refused for any of its losses that is not finite, such as the loss of captioning, and for its norm.
func TestGuardLooksAtEveryLoss(t *testing.T) {
	dev := newDevice(t, cpu.FP64)
	buf := try.Get(dev.Alloc(device.Float, 4))(t)
	v := device.ViewOf(buf)
	losses := []device.View{v.Slice(1, 2), v.Slice(2, 3), v.Slice(3, 4)}
	for bad := range 5 { // the norm, a loss, none
		x := []float64{1, 1, 1, 1, 1}
		x[bad] = math.NaN()
		dev.UploadDoubles(v, x[:4])
		if got, want := (&direct{dev: dev}).guard(v, v.Slice(0, 1), losses), bad == 4; got != want {
			t.Errorf("norm and losses %v: %v, want %v", x[:4], got, want)
		}
	}
}

// A finite loss whose gradient overflows: the derivative of the L2 norm of a tiny vector.
func TestStepRefusesGradientsThatOverflow(t *testing.T) {
	for _, factorFrom := range []int{0, math.MaxInt} {
		s := tinyStep(t, newDevice(t, cpu.FP32), loss.LMH, factorFrom)
		dev, w := s.model.Instance.Dev, s.model.Instance.Params.Value("img.fc.weight")
		x := doubles(dev, w)
		for i := range x {
			x[i] *= 1e-25
		}
		dev.UploadDoubles(w, x)
		before := numbers(s)
		r, err := s.Run(tinyBatch(1, 6, 7), 1e-2, false)
		if !finite(r.Loss) || err == nil || !strings.HasPrefix(err.Error(), "the gradient norm is ") {
			t.Errorf("loss %v, %v", r.Loss, err)
		}
		if i := differ(before, numbers(s)); i >= 0 {
			t.Errorf("the step changed element %d of the state", i)
		}
	}
}

func TestNotFiniteErrorIsExplained(t *testing.T) {
	s := &script{fail: &NotFiniteError{"the loss", math.NaN()}}
	err := s.loop().Run(t.Context())
	want := "step 1 (epoch 0, iteration 0): the loss is NaN; the parameters were not updated. " +
		"Lower optim.lr, keep optim.clip above 0, and look for bad features with 'vsetrain data check'; " +
		"a loss needs a finite gradient where all scores are equal, as they nearly are at first"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestStepNeedsSemantics(t *testing.T) {
	s := tinyStep(t, newDevice(t, cpu.FP32), loss.LSEH, 0)
	b := tinyBatch(1, 4, 5)
	b.SemanticDim, b.Semantics = 0, nil
	if _, err := s.Run(b, 1e-2, false); err == nil || err.Error() != "loss lseh needs semantic vectors; the batch "+
		"has none" {
		t.Errorf("got %v", err)
	}
}

func TestGapIsTheLossOfLMHWithoutItsMargins(t *testing.T) {
	const n = 9
	r := philox.NewKey(5, "gap").Stream(0)
	s := make([]float32, n*n)
	for i := range s {
		s[i] = float32(0.01 * r.Norm())
	}
	var want float64
	for i := range n {
		row, col := math.Inf(-1), math.Inf(-1)
		for j := range n {
			if j != i {
				row, col = math.Max(row, float64(s[i*n+j])), math.Max(col, float64(s[j*n+i]))
			}
		}
		want += row + col - 2*float64(s[i*n+i])
	}
	if got := gap(s, make([]float32, n), n); math.Abs(got-want) > 1e-12 {
		t.Errorf("gap %v, want %v", got, want)
	}
	step := tinyStep(t, newDevice(t, cpu.FP64), loss.LMH, 0)
	step.loss.Margin = 3 // every hinge is active
	res := run(t, step, tinyBatch(1, 6, 7))
	if margin := 2 * 6 * step.loss.Margin; math.Abs(res.Loss-margin-res.Gap) > 1e-6 {
		t.Errorf("loss %v, 2 B margin %v and gap %v", res.Loss, margin, res.Gap)
	}
}

// Weights of zero give every image and caption the same embedding: collapse, whatever the loss.
func TestStepSeesCollapse(t *testing.T) {
	for _, name := range []string{loss.LMH, loss.LSEH, loss.LSH, loss.LUWM} {
		s := tinyStep(t, newDevice(t, cpu.FP32), name, 0)
		device.Do(s.model.Instance.Dev, device.Fill{Dst: s.model.Instance.Params.Values()})
		if r := run(t, s, tinyBatch(1, 6, 7)); r.Gap != 0 {
			t.Errorf("%s: gap %v", name, r.Gap)
		}
	}
}
