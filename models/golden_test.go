package models

import (
	"slices"
	"testing"

	"vsetrain/internal/device"
	"vsetrain/internal/device/composed"
	"vsetrain/internal/device/cpu"
	"vsetrain/internal/device/toy"
	"vsetrain/internal/golden"
	"vsetrain/internal/graph"
)

type precision struct {
	name      string
	out, grad golden.Tolerance
}

// precisions are the arithmetics the golden cases are checked in.
var precisions = []precision{{cpu.FP64, golden.FP64, golden.FP64}, {cpu.FP32, golden.FP32, golden.FP32Grad}}

// toyDevice names the device that has the core alone, in float64.
const toyDevice = "toy"

// offGPU are these and the device whose kernels are composed; everywhere adds the GPU, on the emulated driver.
var (
	offGPU     = append(slices.Clone(precisions), precision{toyDevice, golden.FP64, golden.FP64})
	everywhere = append(slices.Clone(offGPU), precision{emulatedGPU, golden.FP32, golden.FP32Grad})
)

func newDevice(t testing.TB, precision string) device.Device {
	t.Helper()
	switch precision {
	case emulatedGPU:
		return newEmulatedGPU(t)
	case toyDevice:
		return composed.Over(toy.New())
	}
	dev, err := cpu.New(cpu.Options{Threads: 2, Precision: precision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

func ints(x []float64) []int32 {
	out := make([]int32, len(x))
	for i, v := range x {
		out[i] = int32(v)
	}
	return out
}

// setParams uploads the parameters of one part of a golden case.
func setParams(t *testing.T, m *Model, part string, params map[string]golden.Tensor) {
	t.Helper()
	if part != "" {
		part += "."
	}
	for name, v := range params {
		if _, ok := m.Instance.Params.Spec(part + name); !ok {
			t.Fatalf("the network has no parameter %s%s", part, name)
		}
		m.Instance.Dev.UploadDoubles(m.Instance.Params.Value(part+name), v.Data)
	}
}

// VSE++ whole: embeddings, scores, loss and every gradient, the one of the images included.
func TestGoldenVSEPP(t *testing.T) {
	var c struct {
		ConfigRaw   map[string]int `json:"config"`
		Lengths     []int32
		Captions    golden.Tensor
		Inputs      struct{ Images golden.Tensor }
		ParamsImage map[string]golden.Tensor `json:"params_image"`
		ParamsText  map[string]golden.Tensor `json:"params_text"`
		LossWeights golden.Tensor            `json:"loss_weights"`
		Expected    struct {
			ImageEmb   golden.Tensor `json:"image_emb"`
			TextEmb    golden.Tensor `json:"text_emb"`
			Scores     golden.Tensor
			Loss       float64
			GradsImage map[string]golden.Tensor `json:"grads_image"`
			GradsText  map[string]golden.Tensor `json:"grads_text"`
			GradImages golden.Tensor            `json:"grad_images"`
		}
	}
	golden.Load(t, "vsepp.json", &c)
	cfg := c.ConfigRaw
	n, l := len(c.Lengths), c.Captions.Shape[1]
	order := golden.ByLength(c.Lengths)
	words, lengths := golden.Rows(ints(c.Captions.Data), l, order), golden.Rows(c.Lengths, 1, order)
	for _, p := range everywhere {
		t.Run(p.name, func(t *testing.T) {
			o := DefaultOptions()
			o.EmbedDim, o.WordDim = cfg["embed"], cfg["word_dim"]
			m, err := NewModel(newDevice(t, p.name), o, Dims{Regions: cfg["regions"], Feature: cfg["img_dim"],
				Vocab: cfg["vocab"]})
			if err != nil {
				t.Fatal(err)
			}
			setParams(t, m, "img", c.ParamsImage)
			setParams(t, m, "txt", c.ParamsText)
			if err := m.Instance.Params.AllocGrads(); err != nil {
				t.Fatal(err)
			}
			g := m.Instance.Graph()
			regions := m.ImageInputs(g, n).Regions
			im := m.Embedder().Images(g, regions)
			txt := m.Embedder().Captions(g, m.CaptionInputs(g, n, Bucket(l), 0))
			scores := m.Embedder().Scores(g, im, txt)
			loss := g.WeightedSum(scores, g.Input("weights", n, n))
			wrt := []*graph.Node{regions}
			for _, p := range m.Network.Params() {
				wrt = append(wrt, p.Node(g))
			}
			grads, err := g.Gradients(loss, wrt...)
			if err != nil {
				t.Fatal(err)
			}
			prog, err := graph.Compile(m.Instance, g, append([]*graph.Node{im, txt, scores, loss}, grads...), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Instance.FeedDoubles(InputRegions, c.Inputs.Images.Data); err != nil {
				t.Fatal(err)
			}
			if err := m.Instance.FeedDoubles("weights", golden.Columns(c.LossWeights.Data, n, order)); err != nil {
				t.Fatal(err)
			}
			if err := NewFeeder(m, nil, false).Captions(captionBatch(words, lengths, l)); err != nil {
				t.Fatal(err)
			}
			for range 2 { // a second run must see nothing of the first
				if err := prog.RunAll(); err != nil {
					t.Fatal(err)
				}
			}
			golden.Close(t, "image embeddings", prog.Doubles(im), c.Expected.ImageEmb.Data, p.out)
			golden.Close(t, "caption embeddings", prog.Doubles(txt), golden.Rows(c.Expected.TextEmb.Data, cfg["embed"],
				order), p.out)
			golden.Close(t, "scores", prog.Doubles(scores), golden.Columns(c.Expected.Scores.Data, n, order), p.out)
			golden.Close(t, "loss", prog.Doubles(loss), []float64{c.Expected.Loss}, p.out)
			golden.Close(t, "images gradient", prog.Doubles(grads[0]), c.Expected.GradImages.Data, p.grad)
			want := map[string]golden.Tensor{}
			for name, v := range c.Expected.GradsImage {
				want["img."+name] = v
			}
			for name, v := range c.Expected.GradsText {
				want["txt."+name] = v
			}
			for i, param := range m.Network.Params() {
				golden.Close(t, param.Name+" gradient", prog.Doubles(grads[i+1]), want[param.Name].Data, p.grad)
			}
		})
	}
}
