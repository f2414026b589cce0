package train

import (
	"math"
	"slices"
	"testing"

	"vsetrain/batch"
	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
)

// vsrnStep is VSRN with 8 dimensions.
func vsrnStep(t testing.TB, dev device.Device, o models.VSRNOptions) *Step {
	t.Helper()
	m := models.DefaultOptions()
	m.Network, m.EmbedDim, m.WordDim, m.VSRN = models.VSRN, 8, 4, o
	m.VSRN.Hidden = 8
	s := newStep(t, dev, m, tinyDims, loss.DefaultOptions().Name, DefaultOptimOptions())
	s.Seed = 3
	return s
}

// Both losses fall on a batch that is seen again and again, running statistics move, and nothing is allocated.
func TestVSRNTrains(t *testing.T) {
	for _, mode := range []string{"f30k", "coco"} {
		o := models.DefaultOptions().VSRN
		o.Mode = mode
		s := vsrnStep(t, newDevice(t, cpu.FP32), o)
		b := tinyBatch(1, 6, 9)
		first := run(t, s, b)
		var last StepResult
		for range 20 {
			last = run(t, s, b)
		}
		retrieval := func(r StepResult) float64 { return r.LossCaption + r.LossImage }
		if math.Abs(first.Loss-retrieval(first)-first.LossCaptioning) > 1e-4*first.Loss {
			t.Errorf("%s: loss %v, parts %v and %v", mode, first.Loss, retrieval(first), first.LossCaptioning)
		}
		// The untrained branch gives every one of V words about the same probability.
		steps := 0.0
		for _, n := range b.Lengths {
			steps += float64(n) / float64(b.N)
		}
		if untrained := steps * math.Log(tinyVocab); first.LossCaptioning < 0.7*untrained ||
			first.LossCaptioning > 1.5*untrained {
			t.Errorf("%s: captioning loss begins at %v, expected about %v", mode, first.LossCaptioning, untrained)
		}
		if !(last.LossCaptioning < 0.85*first.LossCaptioning) || !(retrieval(last) < retrieval(first)) {
			t.Errorf("%s: captioning loss %v became %v, retrieval loss %v became %v", mode, first.LossCaptioning,
				last.LossCaptioning, retrieval(first), retrieval(last))
		}
		variance := s.model.Instance.Params.Value("img.Rs_GCN_1.W.1.running_var")
		if v := doubles(s.model.Instance.Dev, variance); v[0] == 1 {
			t.Errorf("%s: the running variance did not move", mode)
		}
		if n := testing.AllocsPerRun(2, func() { run(t, s, b) }); n != 0 {
			t.Errorf("%s: %v allocations in a step", mode, n)
		}
	}
}

// Without the branch VSRN has no captioning loss and no parameters for it.
func TestVSRNWithoutCaptioning(t *testing.T) {
	o := models.DefaultOptions().VSRN
	o.Caption = false
	s := vsrnStep(t, newDevice(t, cpu.FP32), o)
	if r := run(t, s, tinyBatch(1, 6, 9)); r.LossCaptioning != 0 {
		t.Errorf("captioning loss %v", r.LossCaptioning)
	}
	if _, ok := s.model.Instance.Params.Spec("cap.decoder.out.weight"); ok {
		t.Error("the branch has parameters")
	}
}

// Quirk Q3: what is listed twice counts twice in the norm and is updated twice; everything else as without it.
func TestVSRNDuplicateParams(t *testing.T) {
	dev := newDevice(t, cpu.FP64)
	once := vsrnStep(t, dev, models.DefaultOptions().VSRN)
	o := models.DefaultOptions().VSRN
	o.DuplicateParams = true
	twice := vsrnStep(t, dev, o)
	b := tinyBatch(1, 6, 9)
	a, c := run(t, once, b), run(t, twice, b)
	var branch float64
	for _, p := range once.model.Instance.Params.Specs {
		if p.Name[:4] == "cap." {
			for _, g := range doubles(dev, once.model.Instance.Params.Grad(p.Name)) {
				branch += g * g
			}
		}
	}
	if want := math.Sqrt(a.GradNorm*a.GradNorm + branch); math.Abs(c.GradNorm-want) > 1e-9*want {
		t.Errorf("gradient norm %v, want %v: %v and once more the branch", c.GradNorm, want, a.GradNorm)
	}
	const name = "cap.decoder.out.bias"
	g := doubles(dev, twice.model.Instance.Params.Grad(name))
	lo, hi := twice.model.Instance.Params.Range(name)
	m := doubles(dev, twice.opt.m.Slice(lo, hi))
	coef := math.Min(1, twice.opt.opt.Clip/(c.GradNorm+1e-6))
	for i := range g { // two updates of the first moment with the gradient that was clipped twice
		if want := (0.1 + 0.9*0.1) * g[i] * coef * coef; math.Abs(m[i]-want) > 1e-12 {
			t.Fatalf("first moment of %s is %v, want %v", name, m[i], want)
		}
	}
}

// The labels equal the reference's (data.py: PrecompDataset), and a caption has as many steps as unmasked targets.
func TestLabelsOfABatch(t *testing.T) {
	const maxLength, n = 60, 14
	s := vsrnStep(t, newDevice(t, cpu.FP32), models.DefaultOptions().VSRN)
	b := &data.Batch{Images: batch.Images{N: n}, L: 64}
	for i := range n {
		words := make([]int32, b.L-i)
		for k := range words {
			words[k] = int32(4 + k)
		}
		words[0], words[len(words)-1] = text.Start, text.End
		b.Add(words)
	}
	try.Do(t, s.labels.feed(s.model, &b.Captions, models.Bucket(b.L)))
	columns := labelSteps(models.Bucket(b.L), maxLength) + 1
	if columns != maxLength {
		t.Fatalf("%d columns", columns)
	}
	for i, length := range b.Lengths {
		labels, mask := make([]int32, maxLength+1), make([]int32, maxLength+1)
		text.FillCaptionLabels(labels, mask, b.Words[i][1:length-1])
		got := s.labels
		if !slices.Equal(got.words[i*columns:(i+1)*columns], labels[:columns]) ||
			!slices.Equal(got.mask[i*columns:(i+1)*columns], mask[:columns]) {
			t.Errorf("caption of %d: %v %v, want %v %v", length, got.words[i*columns:(i+1)*columns],
				got.mask[i*columns:(i+1)*columns], labels, mask)
		}
		targets := int32(0)
		for step := range maxLength - 1 { // as the reference runs them
			targets += mask[step+1]
		}
		if got.steps[i] != targets || targets != min(length, maxLength-1) {
			t.Errorf("caption of %d: %d steps, %d targets", length, got.steps[i], targets)
		}
	}
}
