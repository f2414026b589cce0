package train

import (
	"encoding/json"
	"math"
	"testing"

	"vsetrain/batch"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/graph"
	"vsetrain/lab/definitions"
	"vsetrain/lab/golden"
	"vsetrain/lab/reference"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
)

type precision struct {
	name      string
	out, grad golden.Tolerance
}

var precisions = []precision{{cpu.FP64, golden.FP64, golden.FP64}, {cpu.FP32, golden.FP32, golden.FP32Grad}}

// variants are the precisions with the gradients of linear weights stored, and as products.
func variants() (out []variant) {
	for _, p := range precisions {
		out = append(out, variant{p.name, "", p.out, p.grad, math.MaxInt}, variant{p.name, "/factored", p.out, p.grad,
			0})
	}
	return out
}

type variant struct {
	name, suffix string
	out, grad    golden.Tolerance
	factorFrom   int
}

// definition names the device that defines what the kernels of all others compute.
const definition = "definition"

// newDevice opens a CPU device of two threads until the test ends, or the definition.
func newDevice(t testing.TB, precision string) device.Device {
	t.Helper()
	if precision == definition {
		return definitions.Over(reference.New())
	}
	return openCPU(t, cpu.Options{Threads: 2, Precision: precision})
}

// openCPU opens a device until the test ends.
func openCPU(t testing.TB, o cpu.Options) device.Device {
	t.Helper()
	dev := try.Get(cpu.New(o))(t)
	t.Cleanup(func() { dev.Close() })
	return dev
}

func toInts(x []float64) []int32 {
	out := make([]int32, len(x))
	for i, v := range x {
		out[i] = int32(v)
	}
	return out
}

// Whole training steps: forward, loss, backward, clipping and Adam, through the code that training runs.
func TestGoldenTrainStep(t *testing.T) {
	var file struct{ Cases []json.RawMessage }
	golden.Load(t, "train_step.json", &file)
	for _, raw := range file.Cases {
		var c struct {
			Name   string
			Config struct {
				Regions, Embed, Vocab int
				ImgDim                int     `json:"img_dim"`
				WordDim               int     `json:"word_dim"`
				LR                    float64 `json:"lr"`
				Clip                  float64 `json:"grad_clip"`
				Loss                  string
				Max                   bool `json:"max_violation"`
				Margin, Lam           float64
			}
			Lengths    []int32
			Captions   golden.Tensor
			Inputs     struct{ Images golden.Tensor }
			Params     map[string]golden.Tensor `json:"initial_params"`
			Semantics  json.RawMessage          `json:"semantic_vectors"`
			CaptionIDs []int32                  `json:"caption_ids"`
			ImageIDs   []int32                  `json:"image_ids"`
			Expected   struct {
				Steps []struct {
					Scores   golden.Tensor
					Loss     float64
					GradNorm float64 `json:"grad_norm"`
				}
				Params map[string]golden.Tensor `json:"params_after_3_steps"`
			}
		}
		try.Do(t, json.Unmarshal(raw, &c))
		for _, p := range variants() {
			t.Run(c.Name+"/"+p.name+p.suffix, func(t *testing.T) {
				o := models.DefaultOptions()
				o.EmbedDim, o.WordDim = c.Config.Embed, c.Config.WordDim
				m := try.Get(models.NewModel(newDevice(t, p.name), o,
					models.Dims{Regions: c.Config.Regions, Feature: c.Config.ImgDim, Vocab: c.Config.Vocab}))(t)
				for name, v := range c.Params {
					m.Instance.Dev.UploadDoubles(m.Instance.Params.Value(name), v.Data)
				}
				l := loss.DefaultOptions()
				l.Name = map[string]string{"LMH": loss.LMH, "LSEH": loss.LSEH, "LSH": loss.LSH}[c.Config.Loss]
				l.Margin, l.LSEH.Lambda = c.Config.Margin, c.Config.Lam
				opt := DefaultOptimOptions()
				opt.LR, opt.Clip = c.Config.LR, c.Config.Clip
				s := try.Get(NewStep(m, l, opt))(t)
				s.factorFrom = p.factorFrom
				n, order := len(c.Lengths), golden.ByLength(c.Lengths)
				sh := shape{sum: !c.Config.Max}
				sh.N, sh.All, sh.Bucket = n, n, models.Bucket(c.Captions.Shape[1])
				check := func(err error) {
					t.Helper()
					try.Do(t, err)
				}
				if l.NeedsSemantics() {
					sem := matrix(t, c.Semantics, n)
					sh.semantic = len(sem) / n
					check(m.Instance.FeedDoubles(inputSemantics, golden.Rows(sem, sh.semantic, order)))
					images := c.ImageIDs
					if images == nil {
						for _, id := range c.CaptionIDs {
							images = append(images, id/5)
						}
					}
					check(m.Instance.FeedInts(inputImages, golden.Rows(images, 1, order)))
				}
				steps := c.Captions.Shape[1]
				check(m.Instance.FeedDoubles(models.InputRegions,
					golden.Rows(c.Inputs.Images.Data, len(c.Inputs.Images.Data)/n, order)))
				words, lengths := golden.Rows(toInts(c.Captions.Data), steps, order), golden.Rows(c.Lengths, 1, order)
				var captions batch.Captions
				for i, l := range lengths {
					captions.Add(words[i*steps:][:l])
				}
				check(s.feeder.Captions(captions))
				prog, err := s.program(sh)
				check(err)
				for i, want := range c.Expected.Steps {
					check(s.begin(prog, callKey{shape: sh}, opt.LR))
					r, err := s.Finish()
					check(err)
					golden.Close(t, "loss", []float64{r.Loss}, []float64{want.Loss}, p.out)
					golden.Close(t, "gradient norm", []float64{r.GradNorm}, []float64{want.GradNorm}, p.grad)
					golden.Close(t, "scores", prog.vm.Doubles(prog.scores),
						golden.Columns(golden.Rows(want.Scores.Data, n, order), n, order), p.out)
					if t.Failed() {
						t.Fatalf("after step %d", i+1)
					}
				}
				for name, want := range c.Expected.Params {
					v := m.Instance.Params.Value(name)
					got := make([]float64, v.N)
					m.Instance.Dev.DownloadDoubles(got, v)
					golden.Close(t, name, got, want.Data, p.out)
				}
			})
		}
	}
}

// matrix decodes a tensor or nested lists of n rows.
func matrix(t *testing.T, raw json.RawMessage, n int) []float64 {
	var ten golden.Tensor
	if json.Unmarshal(raw, &ten) == nil && len(ten.Data) > 0 {
		return ten.Data
	}
	var rows [][]float64
	if err := json.Unmarshal(raw, &rows); err != nil || len(rows) != n {
		t.Fatalf("semantic vectors: %v, %d rows, want %d", err, len(rows), n)
	}
	var out []float64
	for _, r := range rows {
		out = append(out, r...)
	}
	return out
}

// The optimiser and the schedules of optim.json, through the optimiser that training runs.
func TestGoldenOptim(t *testing.T) {
	var file struct{ Cases []json.RawMessage }
	golden.Load(t, "optim.json", &file)
	for _, raw := range file.Cases {
		var c struct {
			Name        string
			LR          float64 `json:"lr"`
			Betas       []float64
			Eps         float64
			WeightDecay float64 `json:"weight_decay"`
			Decoupled   bool
			Initial     []float64
			Grads       [][]float64
			MaxNorm     float64 `json:"max_norm"`
			Order       []int   `json:"parameter_list_order"`
			LRUpdate    int     `json:"lr_update"`
			Epochs      int
			Milestones  []int
			Expected    json.RawMessage
		}
		try.Do(t, json.Unmarshal(raw, &c))
		if c.Epochs > 0 {
			t.Run(c.Name, func(t *testing.T) {
				o := OptimOptions{LR: c.LR, Decay: 0.1, Schedule: Repeat, LRUpdate: c.LRUpdate}
				if len(c.Milestones) > 0 {
					o.Schedule, o.LRUpdate = Once, c.Milestones[0]
					if len(c.Milestones) > 1 {
						o.LRUpdate2 = c.Milestones[1]
					}
				}
				var want []float64
				try.Do(t, json.Unmarshal(c.Expected, &want))
				got := make([]float64, c.Epochs)
				for e := range got {
					got[e] = o.LearningRate(int64(7*e+e%7), 7)
				}
				for e := range want {
					if math.Abs(got[e]-want[e]) > 1e-12*want[e] {
						t.Errorf("epoch %d: %v, want %v", e, got[e], want[e])
					}
				}
			})
			continue
		}
		for _, p := range append(precisions, precision{definition, golden.FP64, golden.FP64}) {
			t.Run(c.Name+"/"+p.name, func(t *testing.T) {
				dev := newDevice(t, p.name)
				o := DefaultOptimOptions()
				o.LR, o.Clip = c.LR, 0
				if len(c.Betas) == 2 {
					o.Betas, o.Eps, o.WeightDecay = [2]float64(c.Betas), c.Eps, c.WeightDecay
				}
				o.LegacyEps = c.Name == "adam_legacy_epsilon"
				if c.MaxNorm > 0 {
					checkClip(t, dev, c.Grads, c.Order, c.MaxNorm, c.Expected, p.out)
					return
				}
				var want struct {
					Params [][]float64 `json:"params_after_each_step"`
					M      []float64   `json:"exp_avg"`
					V      []float64   `json:"exp_avg_sq"`
				}
				try.Do(t, json.Unmarshal(c.Expected, &want))
				opt := optimiserOf(t, dev, [][]float64{c.Initial}, o)
				times := 1
				if c.Name == "adam_duplicated_parameter" {
					times = 2
				}
				all := updatesOf(times, span{0, opt.params.OptimisedSize(), 1, false})
				all = opt.cut(all)
				hypers := try.Get(opt.hypersOf(all))(t)
				for i, g := range c.Grads {
					dev.UploadDoubles(opt.params.Grad("p0"), g)
					opt.norms(all)
					opt.count(all, hypers, c.LR)
					opt.apply(all, hypers)
					golden.Close(t, "parameters", doubles(dev, opt.params.Value("p0")), want.Params[i], p.out)
				}
				if want.M != nil {
					golden.Close(t, "first moment", doubles(dev, opt.m)[:len(want.M)], want.M, p.out)
					golden.Close(t, "second moment", doubles(dev, opt.v)[:len(want.V)], want.V, p.out)
				}
			})
		}
	}
}

func doubles(dev device.Device, v device.View) []float64 {
	out := make([]float64, v.N)
	dev.DownloadDoubles(out, v)
	return out
}

func optimiserOf(t *testing.T, dev device.Device, initial [][]float64, o OptimOptions) *optimiser {
	t.Helper()
	var specs []graph.ParamSpec
	for i, v := range initial {
		specs = append(specs, graph.ParamSpec{Name: "p" + string(rune('0'+i)), Shape: []int{len(v)}})
	}
	params := try.Get(graph.NewParams(dev, specs))(t)
	opt := try.Get(newOptimiser(dev, params, o))(t)
	for i, v := range initial {
		dev.UploadDoubles(params.Value(specs[i].Name), v)
	}
	return opt
}

// checkClip clips gradients through Adam's own clip coefficient: with β1 = 0 the first moment is the clipped gradient.
// A parameter listed twice counts twice in the norm and is scaled twice (quirk Q3).
func checkClip(t *testing.T, dev device.Device, grads [][]float64, order []int, maxNorm float64,
	expected json.RawMessage, tol golden.Tolerance) {
	var want struct {
		Norm  float64 `json:"total_norm"`
		Coef  float64 `json:"coefficient"`
		Grads [][]float64
	}
	try.Do(t, json.Unmarshal(expected, &want))
	listed := make([]int, len(grads))
	for _, i := range order {
		listed[i]++
	}
	o := DefaultOptimOptions()
	o.Clip, o.Betas = maxNorm, [2]float64{0, 0.999}
	opt := optimiserOf(t, dev, grads, o)
	var all []update
	for i, n := range listed {
		name := "p" + string(rune('0'+i))
		dev.UploadDoubles(opt.params.Grad(name), grads[i])
		lo, hi := opt.params.Range(name)
		if n != 1 && n != 2 {
			t.Fatalf("parameter %d is listed %d times, expected once or twice", i, n)
		}
		all = append(all, updatesOf(n, span{lo, hi, 1, false})...)
	}
	all = opt.cut(all)
	hypers := try.Get(opt.hypersOf(all))(t)
	opt.norms(all)
	golden.Close(t, "total norm", doubles(dev, opt.norm), []float64{want.Norm}, tol)
	golden.Close(t, "coefficient", doubles(dev, opt.coef), []float64{want.Coef}, tol)
	opt.count(all, hypers, o.LR)
	opt.apply(all, hypers)
	moments := doubles(dev, opt.m)
	for i := range grads {
		lo, hi := opt.params.Range("p" + string(rune('0'+i)))
		golden.Close(t, "clipped gradient", moments[lo:hi], want.Grads[i], tol)
	}
}
