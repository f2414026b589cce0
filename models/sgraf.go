package models

// SGRAF consists of two networks, SAF and SGR (Diao, Zhang, Ma, Lu: "Similarity Reasoning and Filtration for Image-Text
// Matching", AAAI 2021; Paranioar/SGRAF, model.py):
//
//	image     v_k = l2(W x_k + b)                             v̄ = VisualSA(v_1 … v_R, mean v)
//	caption   c_j = l2((→GRU_j + ←GRU_j)/2) over drop(embed)  c̄ = TextSA(c_1 … c_L, mean c)
//	pair      s_0 = l2(W_g (v̄ - c̄)² + b_g)   s_j = l2(W_l (u_j - c_j)² + b_l)   u_j = l2(Σ_k α_jk v_k)
//	          α_j = softmax_k(9 a_jk), a_·k = l2 over the words of leaky(v_k · c_j)
//	SGR       X ← ReLU(W_o softmax(Q Kᵀ) X + b_o), steps times; x = X_0
//	SAF       x = l2(Σ_j a_j s_j), a = l1(σ(BN(w s_j + b)))
//	score     σ(w x + b)
//
// with l2(x) = x/(‖x‖ + 1e-8), and for the rows l of an item and their mean m
//
//	VisualSA, TextSA:  l2(Σ_r softmax_r(w·(p_r ∘ q) + b) l_r)
//	                   p = drop(tanh(BN(W l + b)))    q = drop(tanh(BN(W m + b)))
//
// TextSA has no BN. For p, the channels of the BN of VisualSA are the regions. Dropout is 0.4. The ensemble SGRAF is
// the mean of both scores.

import (
	"strings"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/models/nn"
)

// Names of the two networks of SGRAF.
const (
	SAF = "saf" // similarity attention filtration
	SGR = "sgr" // similarity graph reasoning
)

func init() {
	for order, name := range []string{SAF, SGR} {
		registry[name] = entry{build: newSGRAF, defaults: func(o *Options) {
			o.SGRAF = SGRAFOptions{SimDim: 256, Steps: 3, Dropout: 0.4}
		}, traits: func(*Options) Traits {
			return Traits{Title: "SGRAF-" + strings.ToUpper(name), Order: 3 + order, Section: "sgraf",
				TextEncoders: []string{"bigru"}, WordAttention: true, Span: 1}
		}}
	}
}

// SGRAFOptions are the sizes of the similarity networks SAF and SGR.
type SGRAFOptions struct {
	SimDim int `yaml:"sim_dim" min:"1" max:"65536" doc:"size of a similarity vector"`
	Steps  int `yaml:"steps" min:"1" max:"64" doc:"graph reasoning steps (sgr)"`
	// Dropout applies to the word vectors and to the branches of the global vectors. It is not an option of the
	// reference.
	Dropout float64 `yaml:"dropout" min:"0" below:"1" doc:"dropout of word vectors and global vectors in training; 0 turns it off"`
}

// Constants of the reference.
const (
	sgrafSmooth = 9
	sgrafEps    = 1e-8
)

type sgraf struct {
	collected
	name  string
	opt   SGRAFOptions
	dims  Dims
	embed int
	Image struct {
		FC nn.Linear `param:"fc"`
	} `param:"img"`
	Text struct {
		Embed nn.Embedding `param:"embed"`
		RNN   nn.BiGRU     `param:"cap_rnn"`
	} `param:"txt"`
	Sim struct {
		Visual  visualSA    `param:"v_global_w"`
		Text    textSA      `param:"t_global_w"`
		Local   nn.Linear   `param:"sim_tranloc_w"`
		Global  nn.Linear   `param:"sim_tranglo_w"`
		Eval    nn.Linear   `param:"sim_eval_w"`
		Reason  []graphStep `param:"SGR_module"`
		Filters *filtrate   `param:"SAF_module"`
	} `param:"sim"`
}

// visualSA is the self-attention of regions.
type visualSA struct {
	Local  normed       `param:"embedding_local"`
	Global normed       `param:"embedding_global"`
	Common [1]nn.Linear `param:"embedding_common"`
}

// textSA is the self-attention of words.
type textSA struct {
	Local  [1]nn.Linear `param:"embedding_local"`
	Global [1]nn.Linear `param:"embedding_global"`
	Common [1]nn.Linear `param:"embedding_common"`
}

// normed is a linear layer with a batch norm.
type normed struct {
	Linear nn.Linear    `param:"0"`
	Norm   nn.BatchNorm `param:"1"`
}

type graphStep struct {
	Query nn.Linear `param:"graph_query_w"`
	Key   nn.Linear `param:"graph_key_w"`
	Out   nn.Linear `param:"sim_graph_w"`
}

type filtrate struct {
	Attend nn.Linear    `param:"attn_sim_w"`
	Norm   nn.BatchNorm `param:"bn"`
}

// evenLinear returns a linear layer with even products (device.Gemm): vectors have length 1, and regions are averages
// over positions.
func evenLinear(in, out int) nn.Linear {
	l := nn.NewXavierLinear(in, out)
	l.Even = true
	return l
}

func newSGRAF(o Options, d Dims) (Network, error) {
	n := &sgraf{name: o.Network, opt: o.SGRAF, dims: d, embed: o.EmbedDim}
	e, s := o.EmbedDim, o.SGRAF.SimDim
	n.Image.FC = evenLinear(d.Feature, e)
	n.Text.Embed = nn.NewEmbedding(d.Vocab, o.WordDim)
	n.Text.RNN = nn.NewBiGRU(o.WordDim, e)
	square := func() nn.Linear { return evenLinear(e, e) }
	v, t := &n.Sim.Visual, &n.Sim.Text
	v.Local = normed{square(), nn.NewBatchNorm(d.Regions)}
	v.Global = normed{square(), nn.NewBatchNorm(e)}
	v.Common[0] = evenLinear(e, 1)
	t.Local[0], t.Global[0], t.Common[0] = square(), square(), evenLinear(e, 1)
	n.Sim.Local, n.Sim.Global = evenLinear(e, s), evenLinear(e, s)
	n.Sim.Eval = evenLinear(s, 1)
	if n.name == SGR {
		for range o.SGRAF.Steps {
			n.Sim.Reason = append(n.Sim.Reason, graphStep{evenLinear(s, s), evenLinear(s, s), evenLinear(s, s)})
		}
	} else {
		n.Sim.Filters = &filtrate{evenLinear(s, 1), nn.NewBatchNorm(1)}
	}
	n.collect(n, "img", "txt", "sim")
	return n, nil
}

// Images encodes regions: v [B, R·E] and v̄ [B, E].
func (n *sgraf) Images(g *graph.Graph, in ImageInputs) EncodedImages {
	b, r, e := graph.Dim(in.Regions, 0), n.dims.Regions, n.embed
	v := g.L2Norm(n.Image.FC.Forward(g, g.Reshape(in.Regions, b*r, n.dims.Feature)), 1, sgrafEps)
	counts := regionCounts(g, b, r)
	sa := &n.Sim.Visual
	local := g.BatchNorm(g.Reshape(sa.Local.Linear.Forward(g, v), b, r, e), 1, sa.Local.Norm.Weights(g))
	local = g.Dropout(g.Activate(device.Tanh, g.Reshape(local, b*r, e)),
		g.RowIndices(b*r, graph.Concatenated, counts, nil), n.opt.Dropout, "sim.v_global_w.embedding_local")
	gate := g.BatchNorm(sa.Global.Linear.Forward(g, g.SegmentMeans(v, counts)), 1, sa.Global.Norm.Weights(g))
	gate = g.Dropout(g.Activate(device.Tanh, gate), g.ItemIndices(b), n.opt.Dropout,
		"sim.v_global_w.embedding_global")
	return EncodedImages{Values: []*graph.Node{g.Reshape(v, b, r*e), n.pool(g, &sa.Common[0], local, gate, v, counts)}}
}

func (n *sgraf) pool(g *graph.Graph, common *nn.Linear, local, gate, x, counts *graph.Node) *graph.Node {
	return g.L2Norm(g.GatedPool(local, gate, common.Weight.Node(g), common.Bias.Node(g), x, counts), 1, sgrafEps)
}

// Words encodes captions: the words [capacity, E] and c̄ [C, E].
func (n *sgraf) Words(g *graph.Graph, c Captions) EncodedCaptions {
	x := n.Text.Embed.Forward(g, c.Words, c.Lengths)
	x = g.Dropout(x, g.RowIndices(graph.Dim(x, 0), graph.Packed, c.Lengths, nil), n.opt.Dropout, "txt.embed")
	x = g.CaptionRows(n.Text.RNN.Mean(g, x, c.Lengths), c.Lengths, c.capacity())
	x = g.L2Norm(x, 1, sgrafEps)
	sa := &n.Sim.Text
	local := g.LinearRows(c.Lengths, sa.Local[0].Term(g, x))
	numbers := g.RowIndices(graph.Dim(local, 0), graph.Concatenated, c.Lengths, nil)
	local = g.Dropout(g.Activate(device.Tanh, local), numbers, n.opt.Dropout, "sim.t_global_w.embedding_local")
	gate := g.Activate(device.Tanh, sa.Global[0].Forward(g, g.SegmentMeans(x, c.Lengths)))
	gate = g.Dropout(gate, g.ItemIndices(graph.Dim(gate, 0)), n.opt.Dropout, "sim.t_global_w.embedding_global")
	return EncodedCaptions{Lengths: c.Lengths, Words: []*graph.Node{x},
		Values: []*graph.Node{n.pool(g, &sa.Common[0], local, gate, x, c.Lengths)}}
}

// Attention computes the attention weights of the words.
func (n *sgraf) Attention(g *graph.Graph, images EncodedImages, captions EncodedCaptions) *graph.Node {
	v := images.Values[0]
	return g.PairAttention(g.Reshape(v, graph.Dim(v, 0), n.dims.Regions, n.embed), captions.Words[0], captions.Lengths,
		graph.PairAttentionOptions{Lambda: sgrafSmooth, Even: true})
}

// AttendsWords reports that words attend to regions.
func (n *sgraf) AttendsWords() bool { return false }

// Pairs scores all pairs.
func (n *sgraf) Pairs(g *graph.Graph, images EncodedImages, captions EncodedCaptions) *graph.Node {
	v, words, lengths := images.Values[0], captions.Words[0], captions.Lengths
	b, c := graph.Dim(v, 0), graph.Dim(lengths, 0)
	v = g.Reshape(v, b, n.dims.Regions, n.embed)
	sim := &n.Sim
	in := graph.SimilarityInputs{Regions: v, Words: words, Weights: n.Attention(g, images, captions),
		Images: images.Values[1], Captions: captions.Values[0], Lengths: lengths, LocalW: sim.Local.Weight.Node(g),
		LocalB: sim.Local.Bias.Node(g), GlobalW: sim.Global.Weight.Node(g), GlobalB: sim.Global.Bias.Node(g)}
	var x *graph.Node
	if f := sim.Filters; f != nil {
		x = g.Filtrate(in, graph.FilterWeights{Weight: f.Attend.Weight.Node(g), Bias: f.Attend.Bias.Node(g),
			Norm: f.Norm.Weights(g)})
	} else {
		x = g.Similarities(in)
	}
	for k := range sim.Reason {
		step := &sim.Reason[k]
		x = g.GraphReason(x, lengths, b, k == len(sim.Reason)-1, graph.ReasonWeights{Query: step.Query.Weight.Node(g),
			QueryBias: step.Query.Bias.Node(g), Key: step.Key.Weight.Node(g), KeyBias: step.Key.Bias.Node(g),
			Out: step.Out.Weight.Node(g), OutBias: step.Out.Bias.Node(g)})
	}
	return g.Reshape(g.Activate(device.Sigmoid, sim.Eval.Forward(g, x)), b, c)
}
