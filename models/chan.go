package models

// CHAN, cross-modal hard aligning network (Pan, Wu, Zhang: "Fine-Grained Image-Text Matching by Cross-Modal Hard
// Aligning Network", CVPR 2023; ppanzx/CHAN, lib/encoders.py, lib/similarity.py):
//
//	image    f_r = W x_r + b     v_r = l2(f_r + attention(LN(f))_r), or without attention, or a transformer layer
//	caption  c_w = l2((→GRU_w + ←GRU_w)/2) over embed(w_1 … w_L), or l2(W h_w + b), h the last hidden states of BERT
//	coding   vha u_w = max_r v_r·c_w     tha u_r = max_w v_r·c_w
//	         vsa u_r = v_r·a_r/(‖a_r‖ + 1e-8), a_r = Σ_w softmax_w(v_r·c_w/α) c_w
//	score    ln Σ e^(u/β), or mean, sum, maximum or Σ softmax(u/β) u, over the words (vha) or the regions (tha, vsa)
//
// with l2(x) = x/(‖x‖ + 1e-8). Padding (regions that an image lacks, or that size augmentation drops) counts in no
// coding and no pooling. As released, training attends to padding, with zero features, up to the largest number of
// regions in the batch (mask_padding).

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/system/options"
	"vsetrain/models/nn"
)

// CHAN is the cross-modal hard aligning network.
const CHAN = "chan"

func init() {
	registry[CHAN] = entry{build: newCHAN, check: checkCHAN, defaults: func(o *Options) {
		o.CHAN = CHANOptions{ImageEncoder: "selfattention", Axis: "regions", Heads: 8, Coding: "vha", Pooling: "lse",
			Alpha: 0.1, Beta: 0.1, SizeAugment: true}
	}, traits: func(o *Options) Traits {
		t := Traits{Title: "CHAN", Variant: encoderTitle(o), Order: 8, Section: "chan",
			TextEncoders: []string{"bigru", TextBert}, AnyRegions: true, Counts: true, SizeAugment: o.CHAN.SizeAugment,
			MaskWord: true, WarmupReference: "vse_mean_warmup_epochs"}
		if !o.CHAN.NoImgNorm {
			t.Span = pooledSpan(o.CHAN.Pooling, 1/o.CHAN.Beta, false)
		}
		if o.CHAN.ImageEncoder == "transformer" && o.CHAN.Axis == "batch" {
			t.Together, t.Counts = "chan.transformer_axis: batch", false
		}
		return t
	}}
}

// CHANOptions are the options of CHAN.
type CHANOptions struct {
	ImageEncoder string  `yaml:"image_encoder" enum:"selfattention|basic|transformer" doc:"encoder of the regions; basic with bert"`
	Axis         string  `yaml:"transformer_axis" enum:"regions|batch" doc:"attend within an image, or across the batch" reference:"+transformer_axis"`
	Heads        int     `yaml:"heads" min:"1" max:"65536" doc:"attention heads of the image encoder" reference:"+region_attention_heads"`
	Coding       string  `yaml:"coding" enum:"vha|tha|vsa" doc:"vha, tha: hard, per word or region; vsa: soft, per region" reference:"coding_type=VHACoding:vha,THACoding:tha,VSACoding:vsa"`
	Pooling      string  `yaml:"pooling" enum:"lse|mean|max|sum|softmax" doc:"how similarities become a score; mean with bert" reference:"pooling_type=LSEPooling:lse,MeanPooling:mean,MaxPooling:max,SumPooling:sum,SoftmaxPooling:softmax"`
	Alpha        float64 `yaml:"alpha" min:"0.0125" max:"1000" doc:"temperature of coding vsa" reference:"alpha"`
	Beta         float64 `yaml:"beta" min:"0.0125" max:"1000" doc:"temperature of pooling lse and softmax" reference:"belta"`

	SizeAugment bool `yaml:"size_augment" doc:"drop 20 % of regions and mask or drop 20 % of words in training" reference:"+drop"`
	MaskPadding bool `yaml:"mask_padding" doc:"mask dropped regions in training; false as published"`
	NoImgNorm   bool `yaml:"no_imgnorm" doc:"do not L2-normalise the regions" reference:"no_imgnorm"`
}

const chanEps = 1e-8

type chanNet struct {
	collected
	opt   CHANOptions
	dims  Dims
	embed int
	Image struct {
		FC          nn.Linear            `param:"fc"`
		Attended    *nn.PreNormAttention `param:"feedforward"`
		Transformer *nn.Transformer      `param:"feedforward"`
	} `param:"img"`
	Text struct {
		Words  wordEncoder `param:""`   // the last word is <mask>
		Unused nn.Linear   `param:"fc"` // stored beside a BiGRU
	} `param:"txt"`
	padded paddedRegions
}

func newCHAN(o Options, d Dims) (Network, error) {
	n, e := &chanNet{opt: o.CHAN, dims: d, embed: o.EmbedDim}, o.EmbedDim
	n.Image.FC = nn.NewXavierLinear(d.Feature, e)
	switch n.opt.ImageEncoder {
	case "selfattention":
		n.Image.Attended = nn.NewPreNormAttention(e, n.opt.Heads)
	case "transformer":
		n.Image.Transformer = nn.NewTransformer(e, n.opt.Heads)
	}
	n.Text.Words = newWordEncoder(o, d, 1)
	if o.TextEncoder != TextBert {
		n.Text.Words.Embed.Weight.Init = nn.Xavier(d.Vocab+1, o.WordDim)
		if o.WordInit != "" { // torch.nn.Embedding draws the words without a vector
			n.Text.Words.Embed.Weight.Init = nn.Normal(1)
		}
		n.Text.Unused = nn.NewLinear(e, e)
	}
	n.collect(n, "img", "txt", "sim", "crit") // two have no tensors
	return n, nil
}

// checkCHAN returns the first option of CHAN that cannot be used.
func checkCHAN(o *Options) *options.Error {
	c := o.CHAN
	switch {
	case c.ImageEncoder == "basic":
		return nil
	case c.MaskPadding && c.ImageEncoder == "transformer" && c.Axis == "batch":
		return &options.Error{Key: "chan.mask_padding", Found: "true", Expected: "false with transformer_axis batch"}
	}
	return divisor("chan.heads", c.Heads, "embed_dim", o.EmbedDim)
}

// Images encodes regions: v [B, R·E], and if images have different numbers of regions the mask [B, R].
func (n *chanNet) Images(g *graph.Graph, in ImageInputs) EncodedImages {
	b, r, e := graph.Dim(in.Regions, 0), n.dims.Regions, n.embed
	all := regionCounts(g, b, r)
	var f, mask, attended *graph.Node
	if n.dims.counted(g, n.opt.SizeAugment) {
		f, mask, attended = n.padded.linear(g, in.Regions, &n.Image.FC, r)
	} else {
		f = n.Image.FC.Forward(g, g.Reshape(in.Regions, b*r, n.dims.Feature))
	}
	switch {
	case n.opt.ImageEncoder == "selfattention":
		f = n.Image.Attended.Forward(g, f, attended, all)
	case n.opt.ImageEncoder == "transformer" && n.opt.Axis == "batch":
		f = g.Reshape(g.SwapAxes(g.Reshape(f, b, r, e)), r*b, e)
		f = n.Image.Transformer.Forward(g, f, nil, regionCounts(g, r, b))
		f = g.Reshape(g.SwapAxes(g.Reshape(f, r, b, e)), b*r, e)
	case n.opt.ImageEncoder == "transformer":
		f = n.Image.Transformer.Forward(g, f, attended, all)
	}
	if !n.opt.NoImgNorm {
		f = g.L2Norm(f, 1, chanEps)
	}
	v := EncodedImages{Values: []*graph.Node{g.Reshape(f, b, r*e)}}
	if mask != nil {
		v.Values = append(v.Values, mask)
	}
	return v
}

// feedCounts implements countReader.
func (n *chanNet) feedCounts(s *graph.Instance, counts []int32, most int32) error {
	return n.padded.feed(s, counts, most, n.dims.Regions, n.opt.MaskPadding || most == 0)
}

// Words encodes captions: the words [capacity, E].
func (n *chanNet) Words(g *graph.Graph, c Captions) EncodedCaptions {
	x := g.L2Norm(n.Text.Words.rows(g, c), 1, chanEps)
	return EncodedCaptions{Lengths: c.Lengths, Words: []*graph.Node{x}}
}

// Pairs scores all pairs. Hard codings are one kernel.
func (n *chanNet) Pairs(g *graph.Graph, images EncodedImages, captions EncodedCaptions) *graph.Node {
	pool, known := crossPools[n.opt.Pooling]
	return g.CrossScores(device.CrossScores{R: n.dims.Regions, OverWords: n.opt.Coding == "tha", Max: true, Pool: pool,
		Factor: 1 / n.opt.Beta}, known && n.opt.Coding != "vsa", images.Values,
		captions.Words[0], captions.Lengths, n.pairs)
}

// pairs scores images (v [B, R·E] and perhaps the mask [B, R]) with captions (words [capacity, E] and lengths [C]):
// [B, C]. Products of words and regions have a row per word with R values for each image.
func (n *chanNet) pairs(g *graph.Graph, images, captions []*graph.Node) *graph.Node {
	words, lengths := captions[0], captions[1]
	b, r, capacity, c := graph.Dim(images[0], 0), n.dims.Regions, graph.Dim(words, 0), graph.Dim(lengths, 0)
	ofWords, ofRegions := graph.AlongSegments(lengths), graph.AlongRows(r)
	similarity := graph.LinearTerm{X: words, W: g.Reshape(images[0], b*r, n.embed)}
	if n.opt.Coding == "vha" {
		similarity.B = leastRegions(g, images[1:])
		u := g.Reshape(g.Max(g.LinearRows(lengths, similarity), ofRegions), capacity, b)
		return g.SwapAxes(aggregate(g, n.opt.Pooling, 1/n.opt.Beta, u, ofWords))
	}
	a := g.LinearRows(lengths, similarity)
	u := a
	if n.opt.Coding == "tha" {
		u = g.Max(a, ofWords)
	} else {
		w := g.Softmax(a, 1/n.opt.Alpha, ofWords)
		square := g.Sum(g.Multiply(w, g.SegmentMix(g.SegmentGrams(words, lengths, capacity), w, lengths)), ofWords)
		// the norms of a_r, which is not formed; rounding may make the square negative
		norms := g.Map(device.Sqrt, 0, g.Activate(device.ReLU, square))
		u = g.Multiply(g.Sum(g.Multiply(w, a), ofWords), g.Map(device.Reciprocal, chanEps, norms))
	}
	score := aggregateRegions(g, n.opt.Pooling, 1/n.opt.Beta, u, images[1:], r)
	return g.SwapAxes(g.Reshape(score, c, b))
}
