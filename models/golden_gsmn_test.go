package models

import (
	"strings"
	"testing"

	"vsetrain/internal/compute/graph"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
)

type gsmnCase struct {
	Name   string
	Config struct {
		Regions, Embed int
		Blocks         int     `json:"num_block"`
		Kernels        int     `json:"n_kernels"`
		Hidden         int     `json:"hid_dim"`
		Lambda         float64 `json:"lambda_softmax"`
		Sparse         bool    `json:"is_sparse"`
	}
	Lengths      []int32
	Dependencies [][][2]int32
	Inputs       struct{ Images, Captions golden.Tensor }
	Boxes        golden.Tensor `json:"bboxes"`
	LossWeights  golden.Tensor `json:"loss_weights"`
	ParamsImage  any           `json:"params_image_graph"` // tensors by name, or "same as case NAME"
	ParamsText   any           `json:"params_text_graph"`
	Expected     struct {
		ScoresImage golden.Tensor `json:"scores_image_graph"`
		ScoresText  golden.Tensor `json:"scores_text_graph"`
		Scores      golden.Tensor
		Adjacency   []golden.Tensor
		Loss        float64
		Debug       *struct {
			Weights golden.Tensor `json:"kernel_weights"`
		}
		GradsImage  map[string]golden.Tensor `json:"grads_image_graph"`
		GradsText   map[string]golden.Tensor `json:"grads_text_graph"`
		GradsInputs map[string]golden.Tensor `json:"grads_inputs"`
	}
}

// The graphs of GSMN on encoded regions and words: scores of both graphs, kernels and every gradient.
func TestGoldenGSMN(t *testing.T) {
	var file struct{ Cases []gsmnCase }
	golden.Load(t, "gsmn.json", &file)
	params := map[string][2]map[string]golden.Tensor{}
	for _, c := range file.Cases {
		from := c.Name
		if s, ok := c.ParamsImage.(string); ok {
			from = strings.TrimPrefix(s, "same as case ")
		} else {
			params[c.Name] = [2]map[string]golden.Tensor{tensors(t, c.ParamsImage), tensors(t, c.ParamsText)}
		}
		for _, p := range everywhere {
			t.Run(c.Name+" "+p.name, func(t *testing.T) { c.run(t, p, params[from]) })
		}
	}
}

// tensors converts a decoded JSON object of tensors.
func tensors(t *testing.T, v any) map[string]golden.Tensor {
	t.Helper()
	out := map[string]golden.Tensor{}
	for name, x := range v.(map[string]any) {
		m := x.(map[string]any)
		var g golden.Tensor
		for _, n := range m["shape"].([]any) {
			g.Shape = append(g.Shape, int(n.(float64)))
		}
		for _, e := range m["data"].([]any) {
			g.Data = append(g.Data, e.(float64))
		}
		out[name] = g
	}
	return out
}

func (c *gsmnCase) run(t *testing.T, p precision, params [2]map[string]golden.Tensor) {
	cfg, n, l := c.Config, len(c.Lengths), c.Inputs.Captions.Shape[1]
	b, r, e := c.Inputs.Images.Shape[0], cfg.Regions, cfg.Embed
	o := DefaultOptions()
	o.Network, o.TextEncoder, o.EmbedDim, o.WordDim = GSMN, "bigru", e, 2
	o.GSMN.Lambda, o.GSMN.Mode = cfg.Lambda, "dense"
	if cfg.Sparse {
		o.GSMN.Mode = "sparse"
	}
	d := Dims{Regions: r, Feature: 3, Vocab: 5}
	net := try.Get(newGSMNOf(o, d, gsmnSizes{blocks: cfg.Blocks, kernels: cfg.Kernels, hidden: cfg.Hidden}))(t)
	m := try.Get(newModel(newDevice(t, p.name), net, o, d))(t)
	setParams(t, m, "i2t", params[0])
	setParams(t, m, "t2i", params[1])
	try.Do(t, m.Instance.Params.AllocGrads())
	c.adjacency(t, m)
	words := present(c.Inputs.Captions.Data, c.Lengths, l)
	capacity := len(words)/e + 3
	g := m.Instance.Graph()
	g.Training = true
	v, w, boxes := g.Input("v", b, r*e), g.Input("w", capacity, e), g.Input("boxes", b, r*4)
	polar := net.polar(g, boxes)
	i2t, t2i := net.graphs(g, EncodedImages{Values: []*graph.Node{v, polar}},
		EncodedCaptions{Lengths: g.InputInts(InputLengths, n), Words: []*graph.Node{w}})
	scores := g.Add(i2t, t2i)
	loss := g.WeightedSum(scores, g.Input("weights", b, n))
	want := &c.Expected
	results := []compared{{"scores of the image graph", i2t, want.ScoresImage.Data, false},
		{"scores of the text graph", t2i, want.ScoresText.Data, false}, {"scores", scores, want.Scores.Data, false},
		{"loss", loss, []float64{want.Loss}, false}}
	if want.Debug != nil {
		sums := make([]float64, b*r*cfg.Kernels)
		for i, x := range want.Debug.Weights.Data {
			sums[i/cfg.Kernels/r*cfg.Kernels+i%cfg.Kernels] += x
		}
		results = append(results, compared{"kernels", polar, sums, false})
	}
	var gradients []compared
	grads := map[string]golden.Tensor{}
	if want.GradsImage != nil {
		gradients = []compared{{"regions", v, want.GradsInputs["images"].Data, false},
			{"words", w, present(want.GradsInputs["captions"].Data, c.Lengths, l), true}}
		for name, x := range want.GradsImage {
			grads["i2t."+name] = x
		}
		for name, x := range want.GradsText {
			grads["t2i."+name] = x
		}
		for _, q := range net.Params() {
			if x, ok := grads[q.Name]; ok && g.Lookup(q.Name) != nil {
				gradients = append(gradients, compared{q.Name, q.Node(g), x.Data, false})
				delete(grads, q.Name)
			} else if g.Lookup(q.Name) != nil {
				t.Fatalf("the case has no gradient of %s", q.Name)
			}
		}
	}
	try.Do(t, m.Instance.FeedDoubles("v", c.Inputs.Images.Data))
	try.Do(t, m.Instance.FeedDoubles("w", append(words, make([]float64, 3*e)...)))
	try.Do(t, m.Instance.FeedDoubles("boxes", c.Boxes.Data))
	try.Do(t, m.Instance.FeedDoubles("weights", c.LossWeights.Data))
	try.Do(t, m.Instance.FeedInts(InputLengths, c.Lengths))
	p.check(t, m.Instance, g, loss, results, gradients, nil)
	for name, x := range grads { // of what the graph does not use (quirk Q7)
		golden.Close(t, name+" gradient", make([]float64, len(x.Data)), x.Data, golden.Tolerance{Abs: 1e-12})
	}
}

// adjacency compares the neighbours of the words of every caption, as they appear in the text graph with true
// neighbours.
func (c *gsmnCase) adjacency(t *testing.T, m *Model) {
	var edges []int32
	start := []int32{0}
	total := 0
	for i, pairs := range c.Dependencies {
		for k, p := range pairs {
			if k > 0 && p[0] < c.Lengths[i] && p[1] < c.Lengths[i] {
				edges = append(edges, p[0], p[1])
			}
		}
		start = append(start, int32(len(edges)/2))
		total += int(c.Lengths[i])
	}
	g := m.Instance.Graph()
	out := g.WordGraph(g.Input("zero", total, 1), g.InputInts(InputLengths, len(c.Lengths)),
		g.InputInts("edges", len(edges)), g.InputInts("start", len(start)), 1)
	prog := try.Get(graph.Compile(m.Instance, g, []*graph.Node{out}, nil))(t)
	try.Do(t, m.Instance.FeedDoubles("zero", make([]float64, total)))
	try.Do(t, m.Instance.FeedInts(InputLengths, c.Lengths))
	try.Do(t, m.Instance.FeedInts("edges", edges))
	try.Do(t, m.Instance.FeedInts("start", start))
	try.Do(t, prog.RunAll())
	got := prog.Doubles(out)
	for i, want := range c.Expected.Adjacency {
		n := int(c.Lengths[i])
		for j := range n {
			var neighbours float64
			for _, x := range want.Data[j*n : (j+1)*n] {
				neighbours += x
			}
			for k, x := range want.Data[j*n : (j+1)*n] { // equal words share the weight
				if d := got[j*n+k] - x/neighbours; d > 1e-6 || d < -1e-6 {
					t.Errorf("caption %d: weight of word %d for word %d is %v, adjacency %v of %v", i, k, j, got[j*n+k],
						x, neighbours)
				}
			}
		}
		got = got[n*n:]
	}
}
