package models

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"vsetrain/batch"
	"vsetrain/internal/compute/graph"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
)

type chanCase struct {
	Name   string
	Config struct {
		Text    string `json:"text_enc_type"`
		Image   string `json:"precomp_enc_type"`
		Coding  string `json:"coding_type"`
		Pooling string `json:"pooling_type"`
		Alpha   float64
		Beta    float64 `json:"belta"`
		Heads   int
		Mask    bool   `json:"mask_padding"`
		Axis    string `json:"attention_axis"`
	}
	Counts   []int32 `json:"image_lengths"`
	Lengths  []int32
	Inputs   chanEmbeddings
	Weights  golden.Tensor `json:"loss_weights"`
	Expected struct {
		partedResults
		Table []chanRow
	}
}

type chanEmbeddings struct {
	Images golden.Tensor `json:"image_emb"`
	Words  golden.Tensor `json:"text_emb"`
}

type chanRow struct {
	Coding     string `json:"coding_type"`
	Pooling    string `json:"pooling_type"`
	Scores     golden.Tensor
	Loss       float64
	GradImages golden.Tensor `json:"grad_image_emb"`
	GradWords  golden.Tensor `json:"grad_text_emb"`
}

type chanFile struct {
	Shared struct {
		Inputs struct {
			Images  golden.Tensor
			Dropped golden.Tensor `json:"images_dropped"`
		}
		Weights     golden.Tensor                       `json:"loss_weights"`
		ParamsImage map[string]map[string]golden.Tensor `json:"params_image"`
		BiGRU, Bert partedInputs
	}
	Cases []json.RawMessage
}

// chanCases are the cases of the whole network, or the cases of codings and poolings alone; the case of InfoNCELoss is
// neither.
func chanCases(t *testing.T, whole bool) (file chanFile, cases []*chanCase) {
	golden.Load(t, "chan.json", &file)
	for _, raw := range file.Cases {
		c := new(chanCase)
		try.Do(t, json.Unmarshal(raw, c))
		if whole && c.Config.Text != "" || !whole && len(c.Expected.Table) > 0 {
			cases = append(cases, c)
		}
	}
	return file, cases
}

// CHAN whole: scores, loss, and the gradients of every parameter and of the features, with all regions and with dropped
// ones.
func TestGoldenCHAN(t *testing.T) {
	file, cases := chanCases(t, true)
	if len(cases) != 10 {
		t.Errorf("%d cases, expected 10", len(cases))
	}
	for _, c := range cases {
		for _, p := range everywhere {
			t.Run(c.Name+" "+p.name, func(t *testing.T) { c.run(t, &file, p) })
		}
	}
}

func (c *chanCase) run(t *testing.T, file *chanFile, p precision) {
	in, shared, vocab, o := file.Shared.BiGRU, &file.Shared, 0, DefaultOptions()
	if c.Config.Text == TextBert {
		in = shared.Bert
		words := in.ParamsText["bert."+bertWords].Shape
		o.Bert.Layers, o.Bert.Hidden, o.Bert.Heads, o.Bert.Dropout = 1, words[1], c.Config.Heads, 0
		o.Bert.Positions = in.ParamsText["bert.embeddings.position_embeddings.weight"].Shape[0]
		o.Bert.Intermediate = in.ParamsText["bert.encoder.layer.0.intermediate.dense.bias"].Shape[0]
		vocab = words[0]
	} else {
		embed := in.ParamsText["embed.weight"].Shape
		vocab, o.WordDim = embed[0]-1, embed[1]
	}
	in.ParamsImage, in.LossWeights = shared.ParamsImage[c.Config.Image], shared.Weights
	in.Inputs = &struct{ Images golden.Tensor }{shared.Inputs.Images}
	n, r := in.network(&c.Expected.partedResults, vocab), shared.Inputs.Images.Shape[1]
	if slices.ContainsFunc(c.Counts, func(n int32) bool { return int(n) < r }) {
		n.Inputs.Images, n.counts = shared.Inputs.Dropped, c.Counts
	}
	o.Network, o.TextEncoder, o.EmbedDim = CHAN, c.Config.Text, in.ParamsImage["fc.bias"].Shape[0]
	o.CHAN = CHANOptions{ImageEncoder: c.Config.Image, Axis: cmp.Or(c.Config.Axis, "regions"), Heads: c.Config.Heads,
		Coding:  valuesOf(CHAN, "coding_type")[c.Config.Coding],
		Pooling: valuesOf(CHAN, "pooling_type")[c.Config.Pooling],
		Alpha:   c.Config.Alpha, Beta: c.Config.Beta, SizeAugment: n.counts != nil,
		MaskPadding: c.Config.Mask}
	try.Do(t, o.Validate())
	n.run(t, o, p)
}

// All codings and poolings on given embeddings, whose rows after the lengths hold other numbers: scores, loss and
// gradients.
func TestGoldenCHANPairs(t *testing.T) {
	_, cases := chanCases(t, false)
	ran := 0
	for _, c := range cases {
		for _, w := range c.Expected.Table {
			ran++
			for _, p := range everywhere {
				t.Run(fmt.Sprint(c.Name, " ", w.Coding, " ", w.Pooling, " ", p.name),
					func(t *testing.T) { c.pairs(t, &w, p) })
			}
		}
	}
	if ran != 15+4 {
		t.Errorf("%d cases, expected 19", ran)
	}
}

func (c *chanCase) pairs(t *testing.T, w *chanRow, p precision) {
	images, texts := c.Inputs.Images, c.Inputs.Words
	b, r, e, captions := images.Shape[0], images.Shape[1], images.Shape[2], len(c.Lengths)
	words := present(texts.Data, c.Lengths, texts.Shape[1])
	capacity := len(words) / e
	mask := make([]float64, b*r)
	for i, n := range c.Counts {
		for k := range n {
			mask[i*r+int(k)] = 1
		}
	}
	s := try.Get(graph.NewInstance(newDevice(t, p.name), nil))(t)
	g := s.Graph()
	n := &chanNet{dims: Dims{Regions: r}, embed: e, opt: CHANOptions{Coding: valuesOf(CHAN, "coding_type")[w.Coding],
		Pooling: valuesOf(CHAN, "pooling_type")[w.Pooling],
		Alpha:   c.Config.Alpha, Beta: c.Config.Beta}}
	in := []*graph.Node{g.Input("v", b, r*e), g.Input("words", capacity, e)}
	scores := n.Pairs(g, EncodedImages{Values: []*graph.Node{in[0], g.Input("mask", b, r)}},
		EncodedCaptions{Lengths: g.InputInts("lengths", captions), Words: in[1:]})
	for name, v := range map[string][]float64{"v": images.Data, "words": words, "mask": mask,
		"weights": c.Weights.Data} {
		try.Do(t, s.FeedDoubles(name, v))
	}
	try.Do(t, s.FeedInts("lengths", c.Lengths))
	_, values := p.check(t, s, g, g.WeightedSum(scores, g.Input("weights", b, captions)),
		[]compared{{"scores", scores, w.Scores.Data, false}}, []compared{{"images", in[0], w.GradImages.Data, false},
			{"words", in[1], present(w.GradWords.Data, c.Lengths, texts.Shape[1]), false}}, nil)
	for i, m := range mask {
		if got := values[1][i*e : (i+1)*e]; m == 0 && slices.ContainsFunc(got, func(x float64) bool { return x != 0 }) {
			t.Fatalf("region %d, which is not there, has the gradient %v", i, got)
		}
	}
}

// As released, the vectors of an image depend on the most regions that an image of the batch has, since padding up to
// there is attended to. With mask_padding they do not.
func TestCHANAttendsToPadding(t *testing.T) {
	for _, mask := range []bool{false, true} {
		m := tinyModel(t, "fp64", func(o *Options, d *Dims) {
			o.Network, o.TextEncoder, o.CHAN.Heads, o.CHAN.MaskPadding, d.Regions = CHAN, "bigru", 2, mask, 4
		})
		encode := func(counts ...int32) []float64 {
			g := m.Instance.Graph()
			g.Training = true
			net, _ := m.PairScorer()
			v := net.Images(g, m.ImageInputs(g, 2)).Values[0]
			prog := try.Get(graph.Compile(m.Instance, g, []*graph.Node{v}, nil))(t)
			x := make([]float32, int(counts[0]+counts[1])*m.Dims.Feature)
			for i := range x {
				x[i] = float32(i*i%7) - 3
			}
			try.Do(t, NewFeeder(m, nil, false).Images(batch.Images{N: 2, Features: x, Counts: counts}))
			try.Do(t, prog.RunAll())
			return prog.Doubles(v)[:2*m.Options.EmbedDim] // the two regions of the first image
		}
		two, three := encode(2, 2), encode(2, 3)
		if same := slices.Equal(two, three); same != mask {
			t.Errorf("mask_padding %v: a third region of another image changes nothing is %v", mask, same)
		}
		again := encode(2, 2) // after a step with more regions
		if !slices.Equal(two, again) {
			t.Errorf("mask_padding %v: the same batch gives %v, then %v", mask, two, again)
		}
	}
}
