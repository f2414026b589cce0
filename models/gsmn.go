package models

// GSMN, graph structured matching (Liu, Mao, Zhang, Xie, Wang, Zhang: "Graph Structured Network for Image-Text
// Matching", CVPR 2020; CrossmodalGroup/GSMN, model.py and layers.py):
//
//	image       v_k = l2(W x_k + b)
//	caption     c_j = l2((→GRU_j + ←GRU_j)/2) over embed(w_1 … w_L)
//	node        m_k^b = cos(v_k^b, Σ_j α_kj c_j^b), b = 1 … 16 blocks
//	            α_k = softmax_j(λ a_kj), a_·j = l2 over the regions of leaky(v_k · c_j)
//	            n_j^b = cos(c_j^b, Σ_k β_jk v_k^b)
//	            β_j = softmax_k(λ a_kj), a_k· = l2 over the words of leaky(v_k · c_j)
//	i2t         h_k = (Σ_l w_kl^q) W_q m_k, 8 kernels q side by side
//	            w^q: Gaussians of the positions of regions k and l
//	t2i         h_j = W_q n_j + b_q, 8 kernels q side by side
//	score       mean_k f(h_k) + mean_j f'(h_j)          f(h) = w₂·tanh(W₁ h + b₁) + b₂, weight-normalised
//
// with l2(x) = x/(‖x‖ + 1e-8). A node takes its own vector instead of its neighbours' (quirk Q6). The weights of the
// text graph then sum to 1 and cancel, so sparse and dense are the same function. With neighbors true, as in the paper,
//
//	h_k = Σ_l w_kl^q W_q m_l
//	h_j = Σ_l u_jl (W_q n_l + b_q), u_j = softmax_l(λ c_j · c_l) over all words, or those joined to j by a dependency

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/system/options"
	"vsetrain/models/nn"
)

// GSMN is graph structured matching.
const GSMN = "gsmn"

func init() {
	registry[GSMN] = entry{build: newGSMN, defaults: func(o *Options) {
		o.GSMN = GSMNOptions{Mode: "sparse", Lambda: 20, Neighbors: "self"}
	}, traits: func(o *Options) Traits {
		t := Traits{Title: "GSMN", Order: 6, Apart: true, Section: "gsmn", TextEncoders: []string{"bigru"},
			AnyRegions: true, WordAttention: true, Boxes: true, DecayedBoxes: o.GSMN.BoxDecay, Dependencies: true,
			ReadsEdges: o.GSMN.Neighbors == "true", StoredWords: true}
		if o.GSMN.Mode == "dense" {
			t.Variant, t.Dependencies, t.ReadsEdges = "dense", false, false
		}
		return t
	}}
}

// GSMNOptions are the options of GSMN.
type GSMNOptions struct {
	Mode      string  `yaml:"mode" enum:"sparse|dense" doc:"text graph: dependency edges or all pairs" reference:"is_sparse=True:sparse,False:dense"`
	Lambda    float64 `yaml:"lambda" above:"0" max:"80" doc:"inverse temperature of cross attention; 20 for Flickr30K, 10 for COCO" reference:"lambda_softmax"`
	BoxDecay  bool    `yaml:"compat_box_decay" doc:"divide boxes again at every use of an image in training, as the released code does; not recommended"`
	Neighbors string  `yaml:"neighbors" enum:"self|true" doc:"graph convolution over the node's own vector (self, as published) or its neighbours' (true, as in the paper)"`
}

// gsmnSizes are the sizes that are not options.
type gsmnSizes struct{ blocks, kernels, hidden int }

var gsmnPublished = gsmnSizes{blocks: 16, kernels: 8, hidden: 32}

type gsmn struct {
	collected
	opt   GSMNOptions
	dims  Dims
	embed int
	size  gsmnSizes
	Image struct {
		FC nn.Linear `param:"fc"`
	} `param:"img"`
	Text wordEncoder `param:"txt"`
	I2T  struct {
		Conv polarConv      `param:"graph_convolution_1"`
		Out1 *nn.WeightNorm `param:"out_1"`
		Out2 *nn.WeightNorm `param:"out_2"`
	} `param:"i2t"`
	T2I struct {
		Conv wordConv       `param:"graph_convolution_3"`
		Out1 *nn.WeightNorm `param:"out_1"`
		Out2 *nn.WeightNorm `param:"out_2"`
	} `param:"t2i"`
}

// polarConv is the graph convolution of images.
type polarConv struct {
	MeanRho        nn.Param    `param:"mean_rho"` // [K, 1] each
	MeanTheta      nn.Param    `param:"mean_theta"`
	PrecisionRho   nn.Param    `param:"precision_rho"`
	PrecisionTheta nn.Param    `param:"precision_theta"`
	Conv           []nn.Linear `param:"conv_weights"`
}

// wordConv is the graph convolution of captions. Params scales weights that are then normalised, so it is stored but
// has no effect (quirk Q7).
type wordConv struct {
	Params nn.Param    `param:"params"` // [K, 1]
	Conv   []nn.Linear `param:"conv_weights"`
}

func newGSMN(o Options, d Dims) (Network, error) { return newGSMNOf(o, d, gsmnPublished) }

func newGSMNOf(o Options, d Dims, s gsmnSizes) (*gsmn, error) {
	if o.EmbedDim%s.blocks != 0 {
		return nil, &options.Error{Key: "embed_dim", Found: fmt.Sprint(o.EmbedDim),
			Expected: fmt.Sprintf("a multiple of %d for network gsmn", s.blocks)}
	}
	n := &gsmn{opt: o.GSMN, dims: d, embed: o.EmbedDim, size: s}
	n.Image.FC = nn.NewXavierLinear(d.Feature, o.EmbedDim)
	n.Text = newWordEncoder(o, d, 0)
	column := func(init nn.Init) nn.Param { return nn.Param{Shape: []int{s.kernels, 1}, Init: init} }
	i, t := &n.I2T, &n.T2I
	i.Conv = polarConv{MeanRho: column(nn.UniformRange(0, 1)), MeanTheta: column(nn.Uniform(math.Pi)),
		PrecisionRho: column(nn.UniformRange(0, 1)), PrecisionTheta: column(nn.UniformRange(0, 1))}
	t.Conv.Params = column(nn.Uniform(1))
	for range s.kernels {
		image, text := nn.NewLinear(s.blocks, s.hidden/s.kernels), nn.NewLinear(s.blocks, s.hidden/s.kernels)
		image.Bias = nn.Param{} // the text's bias is a slip of the reference (quirk Q8)
		i.Conv.Conv, t.Conv.Conv = append(i.Conv.Conv, image), append(t.Conv.Conv, text)
	}
	i.Out1, i.Out2 = nn.NewWeightNorm(s.hidden, s.hidden), nn.NewWeightNorm(s.hidden, 1)
	t.Out1, t.Out2 = nn.NewWeightNorm(s.hidden, s.hidden), nn.NewWeightNorm(s.hidden, 1)
	n.collect(n, "img", "txt", "i2t", "t2i")
	return n, nil
}

func (n *gsmn) own() bool { return n.opt.Neighbors == "self" }

// Images encodes regions: v [B, R·E], and the Gaussians of its graph [B, R·R·K], or for own vectors their sums [B,
// R·K].
func (n *gsmn) Images(g *graph.Graph, in ImageInputs) EncodedImages {
	b, r := graph.Dim(in.Regions, 0), n.dims.Regions
	v := g.L2Norm(n.Image.FC.Forward(g, g.Reshape(in.Regions, b*r, n.dims.Feature)), 1, 1e-8)
	return EncodedImages{Values: []*graph.Node{g.Reshape(v, b, r*n.embed), n.polar(g, in.Boxes)}}
}

func (n *gsmn) polar(g *graph.Graph, boxes *graph.Node) *graph.Node {
	c := &n.I2T.Conv
	return g.PolarWeights(boxes, n.dims.Regions, n.own(), graph.PolarParams{MeanRho: c.MeanRho.Node(g),
		MeanTheta: c.MeanTheta.Node(g), PrecisionRho: c.PrecisionRho.Node(g), PrecisionTheta: c.PrecisionTheta.Node(g)})
}

// Words encodes captions: the words [capacity, E].
func (n *gsmn) Words(g *graph.Graph, c Captions) EncodedCaptions {
	x := g.L2Norm(n.Text.rows(g, c), 1, 1e-8)
	return EncodedCaptions{Lengths: c.Lengths, Words: []*graph.Node{x}, Edges: c.Edges, EdgeStart: c.EdgeStart}
}

// Attention computes the attention weights of the words, which Pairs computes within graph.CrossMatch.
func (n *gsmn) Attention(g *graph.Graph, images EncodedImages, captions EncodedCaptions) *graph.Node {
	v := images.Values[0]
	return g.PairAttention(g.Reshape(v, graph.Dim(v, 0), n.dims.Regions, n.embed), captions.Words[0], captions.Lengths,
		graph.PairAttentionOptions{Lambda: n.opt.Lambda})
}

// AttendsWords reports that words attend to regions; regions attend to words as well.
func (n *gsmn) AttendsWords() bool { return false }

// Pairs scores all pairs.
func (n *gsmn) Pairs(g *graph.Graph, images EncodedImages, captions EncodedCaptions) *graph.Node {
	i2t, t2i := n.graphs(g, images, captions)
	return g.Add(i2t, t2i)
}

// graphs computes the scores of both graphs: [B, C] each.
func (n *gsmn) graphs(g *graph.Graph, images EncodedImages, captions EncodedCaptions) (i2t, t2i *graph.Node) {
	words, lengths := captions.Words[0], captions.Lengths
	b, c, r, k := graph.Dim(images.Values[0], 0), graph.Dim(lengths, 0), n.dims.Regions, n.size.kernels
	nodes := g.CrossMatch(g.Reshape(images.Values[0], b, r, n.embed), words, lengths, n.opt.Lambda, n.size.blocks)
	all := graph.Dim(nodes, 0)

	h := g.Linear(graph.LinearTerm{X: g.SliceRows(nodes, 0, b*c*r), W: stack(g, n.I2T.Conv.Conv, weightOf)})
	regions := regionCounts(g, c, r)
	if n.own() {
		h = g.ScaleBlocks(h, images.Values[1], b, c, r*k, n.size.hidden/k)
	} else {
		h = g.MixNodes(h, images.Values[1], regions, b, k, true)
	}
	i2t = n.judge(g, h, regions, b, n.I2T.Out1, n.I2T.Out2)

	h = g.LinearNodes(b, lengths, g.SliceRows(nodes, b*c*r, all), stack(g, n.T2I.Conv.Conv, weightOf),
		stack(g, n.T2I.Conv.Conv, biasOf))
	if !n.own() {
		h = g.MixNodes(h, g.WordGraph(words, lengths, captions.Edges, captions.EdgeStart, n.opt.Lambda), lengths, b, 1,
			false)
	}
	return i2t, n.judge(g, h, lengths, b, n.T2I.Out1, n.T2I.Out2)
}

// judge turns the nodes of all pairs into scores [B, C]. It takes the mean over the nodes before the last layer, which
// is linear.
func (n *gsmn) judge(g *graph.Graph, h, counts *graph.Node, b int, out1, out2 *nn.WeightNorm) *graph.Node {
	h = g.Activate(device.Tanh, g.LinearNodes(b, counts, h, out1.Weight(g), out1.Bias.Node(g)))
	h = g.Linear(graph.LinearTerm{X: g.MeanNodes(h, counts, b), W: out2.Weight(g), B: out2.Bias.Node(g)})
	return g.Reshape(h, b, graph.Dim(counts, 0))
}

func weightOf(l *nn.Linear) *nn.Param { return &l.Weight }
func biasOf(l *nn.Linear) *nn.Param   { return &l.Bias }

// stack concatenates one parameter of all layers.
func stack(g *graph.Graph, layers []nn.Linear, of func(*nn.Linear) *nn.Param) *graph.Node {
	var all []*graph.Node
	for k := range layers {
		all = append(all, of(&layers[k]).Node(g))
	}
	return g.Concat(all...)
}
