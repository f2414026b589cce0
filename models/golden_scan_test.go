package models

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"vsetrain/internal/compute/graph"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
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
	Expected partedResults
}

type scanInputs struct {
	partedInputs
	ImageEmb golden.Tensor `json:"image_emb"`
	TextEmb  golden.Tensor `json:"text_emb"`
}

// SCAN whole, every option: scores, loss, and the gradients of every parameter and of the features.
func TestGoldenSCAN(t *testing.T) {
	cases := scanCases(t)
	if len(cases) == 0 {
		t.Fatal("no cases")
	}
	for _, c := range cases {
		if c.Expected.Loss == nil && !strings.HasPrefix(c.Name, "zero_region") {
			t.Errorf("case %s has no gradients", c.Name)
		}
		for _, p := range everywhere {
			t.Run(c.Name+" "+p.name, func(t *testing.T) { c.network().run(t, c.options(t), p) })
		}
	}
}

// scanCases reads the cases of the whole network; the cases of scores_all belong to TestGoldenSCANScores.
func scanCases(t *testing.T) (cases []*scanCase) {
	var file struct {
		Shared scanInputs
		Cases  []*scanCase
	}
	golden.Load(t, "scan.json", &file)
	for _, c := range file.Cases {
		if c.Config.Attention != "" {
			c.fill(&file.Shared)
			cases = append(cases, c)
		}
	}
	return cases
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

func (c *scanCase) options(t *testing.T) Options {
	cfg, o := c.Config, DefaultOptions()
	o.Network, o.TextEncoder = SCAN, "gru"
	o.EmbedDim, o.WordDim = c.ParamsImage["fc.bias"].Shape[0], c.ParamsText["embed.weight"].Shape[1]
	if cfg.Both {
		o.TextEncoder = "bigru"
	}
	o.SCAN = SCANOptions{Attention: cfg.Attention, Aggregate: valuesOf(SCAN, "agg_func")[cfg.Aggregate], Norm: cfg.Norm,
		Lambda: cfg.Lambda.(float64), LambdaLSE: cfg.LambdaLSE.(float64), WeightNorm: cfg.ImageLayer == "weight_norm",
		NoImgNorm: cfg.NoImgNorm, NoTxtNorm: cfg.NoTxtNorm}
	try.Do(t, o.Validate())
	return o
}

// network is the case in the form that all networks share.
func (c *scanCase) network() *networkCase {
	return c.partedInputs.network(&c.Expected, c.ParamsText["embed.weight"].Shape[0])
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
		try.Do(t, json.Unmarshal(c.Config, &config))
		try.Do(t, json.Unmarshal(c.Expected, &expected))
		if len(expected.Table) == 0 {
			continue
		}
		var lambda, lambdaLSE map[string]float64
		try.Do(t, json.Unmarshal(config.Lambda, &lambda))
		try.Do(t, json.Unmarshal(config.LambdaLSE, &lambdaLSE))
		for _, w := range expected.Table {
			ran++
			opt := SCANOptions{Attention: w.Attention, Norm: w.Norm, Aggregate: valuesOf(SCAN, "agg_func")[w.Aggregate],
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
	s := try.Get(graph.NewInstance(newDevice(t, precision), nil))(t)
	var words []float64
	for i, n := range in.Lengths {
		words = append(words, in.TextEmb.Data[i*l*e:][:int(n)*e]...)
	}
	g := s.Graph()
	n := &scan{opt: o, dims: Dims{Regions: r}, embed: e}
	capacity := len(words) / e
	scores := n.Pairs(g, EncodedImages{Values: []*graph.Node{g.Input("v", b, r*e)}},
		EncodedCaptions{Lengths: g.InputInts("lengths", c), Words: []*graph.Node{g.Input("words", capacity, e)}})
	prog := try.Get(graph.Compile(s, g, []*graph.Node{scores}, nil))(t)
	try.Do(t, s.FeedDoubles("v", in.ImageEmb.Data))
	try.Do(t, s.FeedDoubles("words", words))
	try.Do(t, s.FeedInts("lengths", in.Lengths))
	try.Do(t, prog.RunAll())
	return prog.Doubles(scores)
}
