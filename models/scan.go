package models

// SCAN, stacked cross attention (Lee, Chen, Hua, Hu, He: "Stacked Cross Attention for Image-Text Matching", ECCV 2018;
// kuanghuei/SCAN, model.py):
//
//	image    v_k = l2(W x_k + b)
//	caption  c_j = l2((→GRU_j + ←GRU_j)/2) over embed(w_1 … w_L)
//	pair     the queries q attend to the sources s: t2i words to regions, i2t regions to words
//	         a_jk = q_j·s_k    w_j = softmax_k(λ n(a)_jk)    r_j = cos(q_j, Σ_k w_jk s_k)
//	score    ln(Σ_j e^(λ' r_j))/λ', or the mean, the sum or the maximum of the r_j
//
// with l2(x) = x/(‖x‖ + 1e-8). n normalises along the queries: leaky(a) with slope 0.1 divided by its norm, as
// published, or the form that SCANOptions.Norm names. The context Σ_k w_jk s_k is not formed: its product with q_j is
// Σ_k w_jk a_jk, and its squared norm is w_j G w_jᵀ with the Gram matrix G of the sources. Padding of regions is
// masked.

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/models/nn"
)

// SCAN is stacked cross attention.
const SCAN = "scan"

func init() {
	registry[SCAN] = entry{build: newSCAN, defaults: func(o *Options) {
		o.SCAN = SCANOptions{Attention: "t2i", Aggregate: "lse", Norm: "clipped_l2norm", Lambda: 9, LambdaLSE: 6}
	}, traits: func(o *Options) Traits {
		return Traits{Title: "SCAN", Order: 7, Section: "scan", TextEncoders: []string{"bigru", "gru"},
			AnyRegions: true, Counts: true, WordAttention: true,
			Span: pooledSpan(o.SCAN.Aggregate, o.SCAN.LambdaLSE, true)}
	}}
}

// SCANOptions are the options of SCAN.
type SCANOptions struct {
	Attention string  `yaml:"attention" enum:"t2i|i2t" doc:"t2i: words attend to regions; i2t: regions to words" reference:"cross_attn"`
	Aggregate string  `yaml:"aggregate" enum:"lse|mean|max|sum" doc:"how the similarities of words or regions become a score" reference:"agg_func=LogSumExp:lse,Mean:mean,Max:max,Sum:sum"`
	Norm      string  `yaml:"norm" enum:"clipped_l2norm|l2norm|clipped_l1norm|l1norm|clipped|no_norm|softmax" doc:"normalisation of the products along the queries" reference:"raw_feature_norm"`
	Lambda    float64 `yaml:"lambda" above:"0" max:"80" doc:"inverse temperature of the attention; 9 for t2i, 4 for i2t" reference:"lambda_softmax"`
	LambdaLSE float64 `yaml:"lambda_lse" above:"0" max:"80" doc:"factor of aggregate lse; 6, i2t 5 on Flickr30K and 20 on MS-COCO" reference:"lambda_lse"`

	WeightNorm bool `yaml:"weight_norm" doc:"image layer g·v/‖v‖ with one length for the whole matrix"`
	NoImgNorm  bool `yaml:"no_imgnorm" doc:"do not L2-normalise the regions" reference:"no_imgnorm"`
	NoTxtNorm  bool `yaml:"no_txtnorm" doc:"do not L2-normalise the words" reference:"no_txtnorm"`
}

const scanEps = 1e-8

type scan struct {
	collected
	opt   SCANOptions
	dims  Dims
	embed int
	Image struct {
		FC   *nn.Linear           `param:"fc"`
		Norm *nn.ScalarWeightNorm `param:"fc"`
	} `param:"img"`
	Text   wordEncoder `param:"txt"`
	padded paddedRegions
}

func newSCAN(o Options, d Dims) (Network, error) {
	n := &scan{opt: o.SCAN, dims: d, embed: o.EmbedDim, Text: newWordEncoder(o, d, 0)}
	if n.opt.WeightNorm {
		n.Image.Norm = nn.NewScalarWeightNorm(d.Feature, o.EmbedDim)
	} else {
		fc := nn.NewXavierLinear(d.Feature, o.EmbedDim)
		n.Image.FC = &fc
	}
	n.collect(n, "img", "txt")
	return n, nil
}

// Images encodes regions: v [B, R·E], and if images have different numbers of regions the mask [B, R].
func (n *scan) Images(g *graph.Graph, in ImageInputs) EncodedImages {
	b := graph.Dim(in.Regions, 0)
	x := g.Reshape(in.Regions, b*n.dims.Regions, n.dims.Feature)
	var masks []*graph.Node
	if n.dims.counted(g, false) {
		x, masks = n.padded.rows(g, x, b, n.dims.Regions)
	}
	if n.opt.WeightNorm {
		x = n.Image.Norm.Forward(g, x)
	} else {
		x = n.Image.FC.Forward(g, x)
	}
	if !n.opt.NoImgNorm {
		x = g.L2Norm(x, 1, scanEps)
	}
	return EncodedImages{Values: append([]*graph.Node{g.Reshape(x, b, n.dims.Regions*n.embed)}, masks...)}
}

// feedCounts implements countReader.
func (n *scan) feedCounts(s *graph.Instance, counts []int32, _ int32) error {
	return n.padded.feed(s, counts, 0, n.dims.Regions, true)
}

// Words encodes captions: the words [capacity, E].
func (n *scan) Words(g *graph.Graph, c Captions) EncodedCaptions {
	x := n.Text.rows(g, c)
	if !n.opt.NoTxtNorm {
		x = g.L2Norm(x, 1, scanEps)
	}
	return EncodedCaptions{Lengths: c.Lengths, Words: []*graph.Node{x}}
}

// Pairs scores all pairs. The published norms are one kernel, because their exponentials need no shift.
func (n *scan) Pairs(g *graph.Graph, images EncodedImages, captions EncodedCaptions) *graph.Node {
	o, leaky := &n.opt, n.opt.Norm == "clipped_l2norm"
	softmax := o.Norm == "softmax" && !o.NoImgNorm && !o.NoTxtNorm
	s := g.CrossScores(device.CrossScores{R: n.dims.Regions, OverWords: n.AttendsWords(), Leaky: leaky,
		Softmax: softmax, Lambda: o.Lambda, Pool: crossPools[o.Aggregate], Factor: o.LambdaLSE},
		softmax || leaky || o.Norm == "l2norm", images.Values, captions.Words[0], captions.Lengths, n.pairs)
	if o.Aggregate == "lse" { // LogSumExp is divided by its factor
		s = g.Scale(s, 1/o.LambdaLSE)
	}
	return s
}

// pairs scores images (v [B, R·E] and perhaps the mask [B, R]) with captions (words [capacity, E] and lengths [C]):
// [B, C]. Products of words and regions have a row per word with R values for each image.
func (n *scan) pairs(g *graph.Graph, images, captions []*graph.Node) *graph.Node {
	words, lengths := captions[0], captions[1]
	b, r, capacity, c := graph.Dim(images[0], 0), n.dims.Regions, graph.Dim(words, 0), graph.Dim(lengths, 0)
	v := g.Reshape(images[0], b*r, n.embed)
	a, w := n.weights(g, v, words, lengths, images[1:])
	norms := func(x *graph.Node) *graph.Node {
		return g.Map(device.Sqrt, 0, g.Sum(g.Multiply(x, x), graph.AlongRows(n.embed)))
	}
	if n.AttendsWords() {
		mixed := g.SegmentMix(g.SegmentGrams(words, lengths, capacity), w, lengths)
		s := n.local(g, a, w, mixed, g.Repeat(norms(v), c), graph.AlongSegments(lengths))
		s = g.Reshape(aggregateRegions(g, n.opt.Aggregate, n.opt.LambdaLSE, s, images[1:], r), c, b)
		return g.SwapAxes(s)
	}
	mixed := g.GroupProducts(w, g.Grams(g.Reshape(v, b, r, n.embed)), lengths)
	queries := g.Broadcast(norms(words), graph.AlongRows(b), capacity, b)
	s := g.Reshape(n.local(g, a, w, mixed, queries, graph.AlongRows(r)), capacity, b)
	return g.SwapAxes(aggregate(g, n.opt.Aggregate, n.opt.LambdaLSE, s, graph.AlongSegments(lengths)))
}

// weights computes the products of words [capacity, E] and regions [B·R, E] and the attention weights: [capacity, B·R]
// each. masks is empty, or the mask [B, R] alone.
func (n *scan) weights(g *graph.Graph, v, words, lengths *graph.Node, masks []*graph.Node) (a, w *graph.Node) {
	a = g.LinearRows(lengths, graph.LinearTerm{X: words, W: v})
	queries, sources := graph.AlongSegments(lengths), graph.AlongRows(n.dims.Regions)
	if n.AttendsWords() {
		queries, sources = sources, queries
	}
	return a, n.attend(g, a, masks, queries, sources)
}

// Attention computes the attention weights.
func (n *scan) Attention(g *graph.Graph, images EncodedImages, captions EncodedCaptions) *graph.Node {
	v := images.Values[0]
	v = g.Reshape(v, graph.Dim(v, 0)*n.dims.Regions, n.embed)
	_, w := n.weights(g, v, captions.Words[0], captions.Lengths, images.Values[1:])
	return w
}

// AttendsWords reports whether regions attend to words.
func (n *scan) AttendsWords() bool { return n.opt.Attention == "i2t" }

// attend turns the products a into attention weights of the sources.
func (n *scan) attend(g *graph.Graph, a *graph.Node, masks []*graph.Node, queries, sources graph.Axis) *graph.Node {
	if n.AttendsWords() {
		a, masks = maskRegions(g, a, masks, n.opt.Norm == "softmax"), nil
	}
	shape := a.Shape().Clone()
	over := func(x *graph.Node, f device.Function) *graph.Node { // a divided by a function of the sums of x
		return g.Multiply(a, g.Broadcast(g.Map(device.Reciprocal, scanEps, g.Map(f, 1, g.Sum(x, queries))), queries,
			shape...))
	}
	switch n.opt.Norm {
	case "clipped_l2norm", "clipped_l1norm", "clipped":
		a = g.Map(device.LeakyReLU, 0.1, a)
	}
	switch n.opt.Norm {
	case "clipped_l2norm", "l2norm":
		a = over(g.Multiply(a, a), device.Sqrt)
	case "clipped_l1norm", "l1norm":
		a = over(g.Activate(device.Abs, a), device.LeakyReLU) // a sum of absolute values stays as it is
	case "softmax":
		a = g.Softmax(a, 1, queries)
	}
	return g.Softmax(maskRegions(g, a, masks, true), n.opt.Lambda, sources)
}

// local computes the cosines of the queries with their contexts; mixed is w times the Gram matrix of the sources.
func (n *scan) local(g *graph.Graph, a, w, mixed, queries *graph.Node, sources graph.Axis) *graph.Node {
	square := g.Activate(device.ReLU, g.Sum(g.Multiply(w, mixed), sources)) // rounding may leave it below 0
	norms := g.Multiply(queries, g.Map(device.Sqrt, 0, square))
	return g.Multiply(g.Sum(g.Multiply(w, a), sources), g.Map(device.Inverse, scanEps, norms))
}
