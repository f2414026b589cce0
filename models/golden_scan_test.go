package models

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"vsetrain/internal/golden"
	"vsetrain/internal/graph"
)

type scanCase struct {
	Name   string
	Config struct {
		Attention  string `json:"cross_attn"`
		Aggregate  string `json:"agg_func"`
		Norm       string `json:"raw_feature_norm"`
		Lambda     any    `json:"lambda_softmax"`
		LambdaLSE  any    `json:"lambda_lse"`
		Both       bool   `json:"bi_gru"`
		ImageLayer string `json:"precomp_enc_type"`
		NoImgNorm  bool   `json:"no_imgnorm"`
		NoTxtNorm  bool   `json:"no_txtnorm"`
	}
	scanInputs
	Expected struct {
		Scores     golden.Tensor
		Loss       *float64
		GradImages golden.Tensor            `json:"grad_images"`
		GradsImage map[string]golden.Tensor `json:"grads_image"`
		GradsText  map[string]golden.Tensor `json:"grads_text"`
	}
}

type scanInputs struct {
	Lengths     []int32
	Captions    golden.Tensor
	Inputs      *struct{ Images golden.Tensor }
	ParamsImage map[string]golden.Tensor `json:"params_image"`
	ParamsText  map[string]golden.Tensor `json:"params_text"`
	LossWeights golden.Tensor            `json:"loss_weights"`
	ImageEmb    golden.Tensor            `json:"image_emb"`
	TextEmb     golden.Tensor            `json:"text_emb"`
}

// SCAN whole, every option: scores, loss, and the gradients of every parameter and of the features.
func TestGoldenSCAN(t *testing.T) {
	var file struct {
		Shared scanInputs
		Cases  []scanCase
	}
	golden.Load(t, "scan.json", &file)
	ran := 0
	for _, c := range file.Cases {
		if c.Config.Attention == "" { // scores_all: TestGoldenSCANScores
			continue
		}
		c.fill(&file.Shared)
		for _, p := range everywhere {
			ran++
			t.Run(c.Name+" "+p.name, func(t *testing.T) { c.run(t, p) })
		}
	}
	if ran == 0 {
		t.Fatal("no cases")
	}
}

// fill takes what a case does not say from what they share.
func (c *scanCase) fill(shared *scanInputs) {
	in := &c.scanInputs
	if in.Inputs == nil {
		in.Inputs = shared.Inputs
	}
	if in.ParamsImage == nil {
		in.ParamsImage = shared.ParamsImage
	}
	if in.ParamsText == nil {
		in.ParamsText = shared.ParamsText
	}
	in.Lengths, in.Captions, in.LossWeights = shared.Lengths, shared.Captions, shared.LossWeights
}

func (c *scanCase) run(t *testing.T, p precision) {
	cfg, n, l := c.Config, len(c.Lengths), c.Captions.Shape[1]
	images := c.Inputs.Images
	order := golden.ByLength(c.Lengths)
	words, lengths := golden.Rows(ints(c.Captions.Data), l, order), golden.Rows(c.Lengths, 1, order)
	o := DefaultOptions()
	embed := c.ParamsText["embed.weight"].Shape
	o.Network, o.TextEncoder, o.EmbedDim, o.WordDim = SCAN, "gru", c.ParamsImage["fc.bias"].Shape[0], embed[1]
	if cfg.Both {
		o.TextEncoder = "bigru"
	}
	o.SCAN = SCANOptions{Attention: cfg.Attention, Aggregate: scanAggregates[cfg.Aggregate], Norm: cfg.Norm,
		Lambda:    cfg.Lambda.(float64),
		LambdaLSE: cfg.LambdaLSE.(float64), WeightNorm: cfg.ImageLayer == "weight_norm", NoImgNorm: cfg.NoImgNorm,
		NoTxtNorm: cfg.NoTxtNorm}
	fatal(t, o.Validate())
	m, err := NewModel(newDevice(t, p.name), o, Dims{Regions: images.Shape[1], Feature: images.Shape[2],
		Vocab: embed[0]})
	fatal(t, err)
	setParams(t, m, "img", c.ParamsImage)
	setParams(t, m, "txt", c.ParamsText)
	fatal(t, m.Instance.Params.AllocGrads())
	net, _ := m.PairScorer()
	g := m.Instance.Graph()
	g.Training = true
	feeder := NewFeeder(m, nil, false)
	captions := m.CaptionInputs(g, n, Bucket(l), feeder.PairCapacity(lengths, l))
	in := m.ImageInputs(g, n)
	scores := net.Pairs(g, net.Images(g, in), net.Words(g, captions))
	loss := g.WeightedSum(scores, g.Input("weights", n, n))
	want := map[string]golden.Tensor{}
	for part, grads := range map[string]map[string]golden.Tensor{"img.": c.Expected.GradsImage,
		"txt.": c.Expected.GradsText} {
		for name, v := range grads {
			want[part+name] = v
		}
	}
	wrt, names := []*graph.Node{in.Regions}, []string{"features"}
	want["features"] = c.Expected.GradImages
	for _, p := range m.Network.Params() {
		wrt, names = append(wrt, p.Node(g)), append(names, p.Name)
	}
	retain := []*graph.Node{scores, loss}
	forwardOnly := c.Expected.GradsImage == nil
	var grads []*graph.Node
	if !forwardOnly {
		grads, err = g.Gradients(loss, wrt...)
		fatal(t, err)
	} else if !strings.HasPrefix(c.Name, "zero_region") {
		t.Fatal("a case without gradients")
	}
	prog, err := graph.Compile(m.Instance, g, append(retain, grads...), nil)
	fatal(t, err)
	fatal(t, m.Instance.FeedDoubles(InputRegions, images.Data))
	fatal(t, m.Instance.FeedDoubles("weights", golden.Columns(c.LossWeights.Data, n, order)))
	fatal(t, feeder.Captions(captionBatch(words, lengths, l)))
	for range 2 { // a second run must see nothing of the first
		fatal(t, prog.RunAll())
	}
	golden.Close(t, "scores", prog.Doubles(scores), golden.Columns(c.Expected.Scores.Data, n, order), p.out)
	if forwardOnly {
		return
	}
	golden.Close(t, "loss", prog.Doubles(loss), []float64{*c.Expected.Loss}, p.out)
	for i, name := range names {
		if _, ok := want[name]; !ok {
			t.Fatalf("the case has no gradient of %s", name)
		}
		golden.Close(t, name+" gradient", prog.Doubles(grads[i]), want[name].Data, p.grad)
	}
	if len(want) != len(names) {
		t.Errorf("the case has %d gradients, the network %d", len(want), len(names))
	}
}

// All combinations of attention, norm and aggregation on given embeddings.
func TestGoldenSCANScores(t *testing.T) {
	type row struct {
		Attention string `json:"cross_attn"`
		Norm      string `json:"raw_feature_norm"`
		Aggregate string `json:"agg_func"`
		Scores    golden.Tensor
	}
	var file struct {
		Shared scanInputs
		Cases  []struct {
			Config   json.RawMessage
			Expected json.RawMessage
		}
	}
	golden.Load(t, "scan.json", &file)
	ran, in := 0, &file.Shared
	for _, c := range file.Cases {
		var config struct {
			Lambda    json.RawMessage `json:"lambda_softmax"`
			LambdaLSE json.RawMessage `json:"lambda_lse"`
		}
		var expected struct{ Table []row }
		fatal(t, json.Unmarshal(c.Config, &config))
		fatal(t, json.Unmarshal(c.Expected, &expected))
		if len(expected.Table) == 0 {
			continue
		}
		var lambda, lambdaLSE map[string]float64
		fatal(t, json.Unmarshal(config.Lambda, &lambda))
		fatal(t, json.Unmarshal(config.LambdaLSE, &lambdaLSE))
		for _, w := range expected.Table {
			ran++
			opt := SCANOptions{Attention: w.Attention, Norm: w.Norm, Aggregate: scanAggregates[w.Aggregate],
				Lambda: lambda[w.Attention], LambdaLSE: lambdaLSE[w.Attention]}
			for _, p := range offGPU {
				golden.Close(t, fmt.Sprintf("%v in %s", opt, p.name), in.score(t, opt, p.name), w.Scores.Data, p.out)
			}
		}
	}
	if ran != 2*7*4 {
		t.Errorf("%d combinations, expected 56", ran)
	}
}

// score scores the shared embeddings; captions lie one after the other, in any order of their lengths.
func (in *scanInputs) score(t *testing.T, o SCANOptions, precision string) []float64 {
	b, r, e, c, l := in.ImageEmb.Shape[0], in.ImageEmb.Shape[1], in.ImageEmb.Shape[2], len(in.Lengths),
		in.TextEmb.Shape[1]
	s, err := graph.NewInstance(newDevice(t, precision), nil)
	fatal(t, err)
	var words []float64
	for i, n := range in.Lengths {
		words = append(words, in.TextEmb.Data[i*l*e:][:int(n)*e]...)
	}
	g := s.Graph()
	n := &scan{opt: o, dims: Dims{Regions: r}, embed: e}
	capacity := len(words) / e
	scores := n.Pairs(g, EncodedImages{Values: []*graph.Node{g.Input("v", b, r*e)}},
		EncodedCaptions{Lengths: g.InputInts("lengths", c), Words: []*graph.Node{g.Input("words", capacity, e)}})
	prog, err := graph.Compile(s, g, []*graph.Node{scores}, nil)
	fatal(t, err)
	fatal(t, s.FeedDoubles("v", in.ImageEmb.Data))
	fatal(t, s.FeedDoubles("words", words))
	fatal(t, s.FeedInts("lengths", in.Lengths))
	fatal(t, prog.RunAll())
	return prog.Doubles(scores)
}
