package models

import (
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/graph"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
	"vsetrain/models/nn"
)

type vseinfCase struct {
	Name   string
	Config struct {
		Encode   int `json:"d_pe"`
		Hidden   int `json:"d_hidden"`
		ImgDim   int `json:"img_dim"`
		MLP      int `json:"mlp_hidden"`
		WordDim  int `json:"word_dim"`
		Embed    int
		Vocab    int
		Length   int
		Training bool
	}
	Lengths  []int32
	Captions golden.Tensor
	Inputs   struct{ Features, Images golden.Tensor }
	Params   map[string]golden.Tensor
	Running  map[string]golden.Tensor `json:"running_stats"`
	Weights  golden.Tensor            `json:"loss_weights"`
	Expected struct {
		Pooled       golden.Tensor
		PoolWeights  golden.Tensor `json:"pool_weights"`
		Positions    golden.Tensor `json:"positional_encoding"`
		Embedding    golden.Tensor
		NewRunning   map[string]golden.Tensor `json:"new_running_stats"`
		Loss         float64
		Grads        map[string]golden.Tensor
		GradFeatures golden.Tensor `json:"grad_features"`
		GradImages   golden.Tensor `json:"grad_images"`
	}
}

// VSE-infinity: pooling operator, image encoder in training and evaluation, BiGRU text encoder; outputs, running
// statistics and every gradient.
func TestGoldenVSEInf(t *testing.T) {
	var file struct{ Cases []*vseinfCase }
	golden.Load(t, "vse_infinity.json", &file)
	ran := map[string]int{}
	for _, c := range file.Cases {
		kind, _, _ := strings.Cut(c.Name, "_")
		test := map[string]func(*testing.T, *vseinfCase, precision){"gpo": goldenGPO, "image": goldenImages,
			"bigru": goldenCaptions}[kind]
		ran[kind]++
		if kind == "positional" {
			checkPositions(t, c, c.Config.Length)
			continue
		}
		if test == nil {
			t.Errorf("case %s is of no known kind", c.Name)
			continue
		}
		for _, p := range everywhere {
			t.Run(c.Name+"/"+p.name, func(t *testing.T) { test(t, c, p) })
		}
	}
	for _, kind := range []string{"gpo", "image", "bigru", "positional"} {
		if ran[kind] == 0 {
			t.Errorf("vse_infinity.json has no case of %s", kind)
		}
	}
}

func checkPositions(t *testing.T, c *vseinfCase, n int) {
	t.Helper()
	var got []float64
	for p := range n {
		got = append(got, nn.PositionalEncoding(p, c.Config.Encode)...)
	}
	golden.Close(t, c.Name+": positional encoding", got, c.Expected.Positions.Data, golden.FP64)
}

// concatenated returns the rows of each item without its padding, followed by as many empty rows.
func (c *vseinfCase) concatenated(x golden.Tensor) []float64 {
	out := present(x.Data, c.Lengths, x.Shape[1])
	return append(out, make([]float64, len(x.Data)-len(out))...)
}

// check compares results, the loss, and the gradients of inputs and of all parameters of the case. The graph has one
// output, which is summed with the weights of the case.
func (c *vseinfCase) check(t *testing.T, p precision, m *Model, g *graph.Graph, part string, out *graph.Node, results,
	gradients []compared) *graph.Program {
	try.Do(t, m.Instance.FeedDoubles("weights", c.Weights.Data))
	loss := g.WeightedSum(out, g.Input("weights", c.Weights.Shape...))
	prefix := part
	if part != "" {
		prefix += "."
	}
	for name, v := range c.Expected.Grads {
		spec, ok := m.Instance.Params.Spec(prefix + name)
		if !ok {
			t.Fatalf("the network has no parameter %s", name)
		}
		gradients = append(gradients, compared{name, g.Param(spec.Name, spec.Shape...), v.Data, false})
	}
	results = append(results, compared{"loss", loss, []float64{c.Expected.Loss}, false})
	prog, _ := p.check(t, m.Instance, g, loss, results, gradients, func() { setParams(t, m, part, c.Running) })
	return prog
}

// poolNetwork is the operator alone, as a network for the instance.
type poolNetwork struct {
	Embedder
	Pool   nn.GPO `param:""`
	params []*nn.Param
}

func (n *poolNetwork) Params() []*nn.Param { return n.params }

func goldenGPO(t *testing.T, c *vseinfCase, p precision) {
	x := c.Inputs.Features
	b, k, d := x.Shape[0], x.Shape[1], x.Shape[2]
	checkPositions(t, c, k)
	n := &poolNetwork{Pool: nn.NewGPO(c.Config.Encode, c.Config.Hidden)}
	n.params = nn.Collect(n)
	m := try.Get(newModel(newDevice(t, p.name), n, Options{}, Dims{}))(t)
	setParams(t, m, "", c.Params)
	try.Do(t, m.Instance.FeedDoubles("x", c.concatenated(x)))
	try.Do(t, m.Instance.FeedInts("lengths", c.Lengths))
	g := m.Instance.Graph()
	in := g.Input("x", b*k, d)
	table := n.Pool.Table(g, k)
	out := g.SortPool(in, g.InputInts("lengths", b), table, false)
	prog := c.check(t, p, m, g, "", out, []compared{{"pooled", out, c.Expected.Pooled.Data, false},
		{what: "table", node: table, part: true}},
		[]compared{{"features", in, present(c.Expected.GradFeatures.Data, c.Lengths, k), true}})
	var weights []float64
	for _, l := range c.Lengths {
		weights = append(weights, prog.Doubles(table)[(k-int(l))*k:][:k]...)
	}
	golden.Close(t, "weights", weights, c.Expected.PoolWeights.Data, p.out)
}

// vseinfModel is the network at the sizes of a case; those it does not name are 1.
func (c *vseinfCase) model(t *testing.T, p precision, regions int) (*vseinf, *Model) {
	o := DefaultOptions()
	o.Network, o.TextEncoder, o.EmbedDim, o.WordDim = VSEInf, "bigru", max(1, c.Config.Embed), max(1, c.Config.WordDim)
	d := Dims{Regions: regions, Feature: max(1, c.Config.ImgDim), Vocab: max(1, c.Config.Vocab-1)}
	n := try.Get(newVSEInfOf(o, d, vseinfSizes{mlp: max(1, c.Config.MLP), encode: c.Config.Encode,
		hidden: c.Config.Hidden}))(t)
	m := try.Get(newModel(newDevice(t, p.name), n, o, d))(t)
	return n, m
}

func goldenImages(t *testing.T, c *vseinfCase, p precision) {
	x := c.Inputs.Images
	b, k := x.Shape[0], x.Shape[1]
	n, m := c.model(t, p, k)
	setParams(t, m, "img", c.Params)
	try.Do(t, m.Instance.FeedDoubles(InputRegions, c.concatenated(x)))
	try.Do(t, m.Instance.FeedInts(InputRegionCounts, c.Lengths))
	g := m.Instance.Graph()
	g.Training = c.Config.Training
	regions := m.ImageInputs(g, b).Regions
	out := n.images(g, regions, g.InputInts(InputRegionCounts, b))
	// The rows of zeros that pad the images of the case are not stored; what flows into them is in the gradient of
	// mlp.layers.0.bias.
	c.check(t, p, m, g, "img", out, []compared{{"embeddings", out, c.Expected.Embedding.Data, false}},
		[]compared{{"images", regions, present(c.Expected.GradImages.Data, c.Lengths, k), true}})
	for name, before := range c.Running {
		want, ok := c.Expected.NewRunning[name]
		if !ok {
			want = before // evaluation
		}
		golden.Close(t, name, m.doubles("img."+name), want.Data, p.out)
	}
}

func goldenCaptions(t *testing.T, c *vseinfCase, p precision) {
	n, l := c.Captions.Shape[0], c.Captions.Shape[1]
	_, m := c.model(t, p, 1)
	setParams(t, m, "txt", c.Params)
	if !slices.IsSortedFunc(c.Lengths, func(a, b int32) int { return int(b - a) }) {
		t.Fatal("captions of a batch are sorted by length")
	}
	try.Do(t, NewFeeder(m, nil, false).Captions(captionBatch(ints(c.Captions.Data), c.Lengths, l)))
	g := m.Instance.Graph()
	out := m.Embedder().Captions(g, m.CaptionInputs(g, n, Bucket(l), 0))
	c.check(t, p, m, g, "txt", out, []compared{{"embeddings", out, c.Expected.Embedding.Data, false}}, nil)
}
