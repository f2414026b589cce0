package models

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/graph"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
	"vsetrain/models/nn"
)

// The image encoder of VSRN: both modes in training and evaluation, embeddings, region features, running statistics and
// every gradient.
func TestGoldenVSRNImage(t *testing.T) {
	var file struct{ Cases []json.RawMessage }
	golden.Load(t, "vsrn_image.json", &file)
	for _, raw := range file.Cases {
		var c struct {
			Name   string
			Config struct {
				Mode           string `json:"dataset_mode"`
				Training       bool
				Regions, Embed int
				ImgDim         int `json:"img_dim"`
			}
			Inputs       struct{ Images golden.Tensor }
			Params       map[string]golden.Tensor
			RunningStats map[string]golden.Tensor `json:"running_stats"`
			WeightsEmb   golden.Tensor            `json:"loss_weights_emb"`
			WeightsGCN   golden.Tensor            `json:"loss_weights_gcn"`
			Expected     struct {
				Embedding   golden.Tensor
				GCNFeatures golden.Tensor            `json:"gcn_features"`
				Stats       map[string]golden.Tensor `json:"new_running_stats"`
				Loss        float64
				Grads       map[string]golden.Tensor
				GradImages  golden.Tensor `json:"grad_images"`
			}
		}
		try.Do(t, json.Unmarshal(raw, &c))
		for _, p := range offGPU {
			t.Run(c.Name+"/"+p.name, func(t *testing.T) {
				o := DefaultOptions()
				o.Network, o.EmbedDim, o.WordDim = VSRN, c.Config.Embed, 2
				o.VSRN.Mode, o.VSRN.Caption = c.Config.Mode, false
				m := try.Get(NewModel(newDevice(t, p.name), o, Dims{Regions: c.Config.Regions, Feature: c.Config.ImgDim,
					Vocab: 5}))(t)
				setParams(t, m, "img", c.Params)
				setParams(t, m, "img", c.RunningStats)
				n := c.Inputs.Images.Shape[0]
				g := m.Instance.Graph()
				g.Training = c.Config.Training
				regions := m.ImageInputs(g, n).Regions
				im, features, _ := m.Network.(*vsrn).reason(g, regions)
				loss := g.Add(g.WeightedSum(im, g.Input("we", im.Shape()...)),
					g.WeightedSum(features, g.Input("wg", features.Shape()...)))
				wrt := []*graph.Node{regions}
				var params []*nn.Param
				for _, p := range m.Network.Params() {
					if g.Lookup(p.Name) != nil && !p.State {
						wrt, params = append(wrt, p.Node(g)), append(params, p)
					}
				}
				if len(params) != len(c.Expected.Grads) || len(params) != len(c.Params) {
					t.Errorf("the image encoder has %d parameters with gradients, the case %d and %d gradients",
						len(params), len(c.Params), len(c.Expected.Grads))
				}
				grads := try.Get(g.Gradients(loss, wrt...))(t)
				prog, err := graph.Compile(m.Instance, g, append([]*graph.Node{im, features, loss}, grads...), nil)
				try.Do(t, err)
				try.Do(t, m.Instance.FeedDoubles(InputRegions, c.Inputs.Images.Data))
				try.Do(t, m.Instance.FeedDoubles("we", c.WeightsEmb.Data))
				try.Do(t, m.Instance.FeedDoubles("wg", c.WeightsGCN.Data))
				try.Do(t, prog.RunAll())
				for name, want := range c.Expected.Stats {
					golden.Close(t, name, m.doubles("img."+name), want.Data, p.out)
				}
				try.Do(t, prog.RunAll()) // the batch's own statistics are used, so nothing else changes
				golden.Close(t, "embeddings", prog.Doubles(im), c.Expected.Embedding.Data, p.out)
				golden.Close(t, "region features", prog.Doubles(features), c.Expected.GCNFeatures.Data, p.out)
				golden.Close(t, "loss", prog.Doubles(loss), []float64{c.Expected.Loss}, p.out)
				golden.Close(t, "images gradient", prog.Doubles(grads[0]), c.Expected.GradImages.Data, p.grad)
				for i, param := range params {
					name, tol := param.Name[len("img."):], p.grad
					if layer, ok := strings.CutSuffix(name, ".W.0.bias"); ok && c.Config.Training &&
						p.name == cpu.FP32 {
						// A bias in front of a batch norm has no effect: its gradient is a sum that cancels to 0, of
						// terms like those that make up the gradient of the weight, and in float32 their rounding
						// remains.
						for _, w := range c.Expected.Grads[layer+".W.0.weight"].Data {
							tol.Abs = max(tol.Abs, p.grad.Rel*math.Abs(w))
						}
					}
					golden.Close(t, param.Name+" gradient", prog.Doubles(grads[i+1]), c.Expected.Grads[name].Data, tol)
				}
			})
		}
	}
}

// goldenCaption is vsrn_caption.json.
type goldenCaption struct {
	Config map[string]int
	Inputs struct {
		Features golden.Tensor `json:"gcn_features"`
	}
	Labels, Masks golden.Tensor
	Params        map[string]golden.Tensor
	Expected      struct {
		LogProbs golden.Tensor `json:"log_probs"`
		Loss     float64
		Grads    map[string]golden.Tensor
		GradGCN  golden.Tensor `json:"grad_gcn_features"`
	}
}

// The captioning branch of VSRN: the log-probabilities of all steps, as the reference runs them, and then, packed as
// training runs them, with every sequence as long as its mask, the loss and every gradient.
func TestGoldenVSRNCaption(t *testing.T) {
	var c goldenCaption
	golden.Load(t, "vsrn_caption.json", &c)
	for _, p := range everywhere {
		t.Run(p.name+"/all steps", func(t *testing.T) {
			b, steps := c.Config["batch"], make([]int32, c.Config["batch"])
			for i := range steps {
				steps[i] = int32(c.Config["steps"])
			}
			logits := c.run(t, p, sequence(b), steps)
			want, v := c.Expected.LogProbs.Data, c.Config["vocab"]
			for i := range b {
				for s := range c.Config["steps"] {
					row := logits[(s*b+i)*v:][:v]
					var sum float64
					for _, x := range row {
						sum += math.Exp(x)
					}
					for k := range row {
						row[k] -= math.Log(sum)
					}
					golden.Close(t, "log-probabilities", row, want[(i*c.Config["steps"]+s)*v:][:v], p.out)
				}
			}
		})
		t.Run(p.name+"/packed", func(t *testing.T) {
			order := sequence(c.Config["batch"])
			l := c.Labels.Shape[1]
			predicted := func(i int) (n int32) {
				for s := 1; s <= c.Config["steps"]; s++ {
					if c.Masks.Data[i*l+s] != 0 {
						n = int32(s)
					}
				}
				return n
			}
			slices.SortStableFunc(order, func(i, j int) int { return int(predicted(j) - predicted(i)) })
			var steps []int32
			for _, i := range order {
				steps = append(steps, predicted(i))
			}
			c.run(t, p, order, steps)
		})
	}
}

func sequence(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// run checks loss and gradients with the images in the given order, and returns the logits of all packed rows.
func (c *goldenCaption) run(t *testing.T, p precision, order []int, steps []int32) []float64 {
	t.Helper()
	cfg := c.Config
	var root struct {
		Branch captionBranch `param:"cap"`
	}
	root.Branch = newCaptionBranch(cfg["feat_dim"], cfg["hidden"], cfg["word_dim"], cfg["vocab"], cfg["max_len"],
		DefaultOptions().VSRN.Dropout)
	params := nn.Collect(&root)
	s := try.Get(graph.NewInstance(newDevice(t, p.name), specs(params)))(t)
	m := &Model{Instance: s}
	setParams(t, m, "cap", c.Params)
	if len(params) != len(c.Params) {
		t.Fatalf("the branch has %d parameters, the case %d", len(params), len(c.Params))
	}
	b, columns, size := cfg["batch"], c.Labels.Shape[1], cfg["regions"]*cfg["feat_dim"]
	g := s.Graph()
	features := g.Input("features", b, cfg["regions"], cfg["feat_dim"])
	l := m.LabelInputs(g, b, columns-1)
	sequences := timeMajor(g, features)
	loss := root.Branch.Loss(g, sequences, l)
	o := &root.Branch.Decoder.Out
	logits := g.Linear(graph.LinearTerm{X: root.Branch.states(g, sequences, l), W: o.Weight.Node(g), B: o.Bias.Node(g)})
	var x, want []float64
	var labels, mask []int32
	for _, i := range order {
		x, want = append(x, c.Inputs.Features.Data[i*size:(i+1)*size]...),
			append(want, c.Expected.GradGCN.Data[i*size:(i+1)*size]...)
		labels = append(labels, ints(c.Labels.Data[i*columns:(i+1)*columns])...)
		mask = append(mask, ints(c.Masks.Data[i*columns:(i+1)*columns])...)
	}
	try.Do(t, s.FeedDoubles("features", x))
	try.Do(t, s.FeedInts(InputLabels, labels))
	try.Do(t, s.FeedInts(InputLabelMask, mask))
	try.Do(t, s.FeedInts(InputLabelSteps, steps))
	gradients := []compared{{"features", features, want, false}}
	for _, q := range params {
		gradients = append(gradients, compared{q.Name, q.Node(g), c.Expected.Grads[q.Name[len("cap."):]].Data, false})
	}
	prog, _ := p.check(t, s, g, loss, []compared{{"loss", loss, []float64{c.Expected.Loss}, false},
		{what: "logits", node: logits, part: true}}, gradients, nil)
	var pack device.Packing
	pack.Pack(steps)
	return prog.Doubles(logits)[:pack.Rows()*cfg["vocab"]]
}

// Quirk Q2: the region features are normalised over the regions, or, as an option, every region over its features.
func TestVSRNL2Axis(t *testing.T) {
	for axis, width := range map[string]int{"region": 3, "feature": 7} {
		o := DefaultOptions()
		o.Network, o.EmbedDim, o.WordDim, o.VSRN.L2Axis, o.VSRN.Caption = VSRN, 7, 2, axis, false
		m := try.Get(NewModel(newDevice(t, cpu.FP64), o, Dims{Regions: 3, Feature: 5, Vocab: 5}))(t)
		m.Init(1, nil)
		g := m.Instance.Graph()
		_, features, _ := m.Network.(*vsrn).reason(g, m.ImageInputs(g, 2).Regions)
		prog := try.Get(graph.Compile(m.Instance, g, []*graph.Node{features}, nil))(t)
		x := make([]float64, 2*3*5)
		for i := range x {
			x[i] = math.Sin(float64(i))
		}
		try.Do(t, m.Instance.FeedDoubles(InputRegions, x))
		try.Do(t, prog.RunAll())
		out := prog.Doubles(features)
		for k := range len(out) / width { // every vector has length 1
			var sum float64
			for i := range width {
				at := k*width + i
				if axis == "region" {
					at = k/7*21 + i*7 + k%7
				}
				sum += out[at] * out[at]
			}
			if math.Abs(sum-1) > 1e-12 {
				t.Errorf("l2_axis %s: vector %d has squared length %v", axis, k, sum)
			}
		}
	}
}
