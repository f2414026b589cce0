package models

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

// PairScorer is a network that looks at every pair of an image and a caption. Images and Words compute what depends on
// one side alone, once per image and once per caption; Pairs computes the rest. Training puts the three into one graph
// with the loss. Evaluation keeps the results of Images and Words for a whole split and scores tiles of pairs.
//
// T is the number of words of all captions. Values with a row per word are concatenated captions: caption c of length
// L_c has the rows from o_c = Σ_{b<c} L_b to o_c + L_c. Their capacity may be larger (Captions.Capacity); the rows
// after T are arbitrary. Values of pairs are image by image: with w rows per pair and word, the rows of image i begin
// at i·T.
type PairScorer interface {
	Network
	// Images encodes images.
	Images(g *graph.Graph, in ImageInputs) EncodedImages
	// Words encodes captions.
	Words(g *graph.Graph, c Captions) EncodedCaptions
	// Pairs scores every image with every caption: [Bi, Bc].
	Pairs(g *graph.Graph, images EncodedImages, captions EncodedCaptions) *graph.Node
}

// WordAttender is a PairScorer whose words attend to regions, or regions to words.
type WordAttender interface {
	PairScorer
	// Attention computes the attention weights of Pairs: [capacity, B·R], for every word the weights of the regions of
	// every image, which sum to 1 over the regions of an image. If AttendsWords is true, regions attend to words, and
	// the weights of a region sum to 1 over the words of a caption.
	Attention(g *graph.Graph, images EncodedImages, captions EncodedCaptions) *graph.Node
	AttendsWords() bool
}

// ImageInputs are the inputs of an image encoder.
type ImageInputs struct {
	Regions *graph.Node // [B, R·D]
	Boxes   *graph.Node // [B, R·4], shares of width and height; nil unless Traits.Boxes
}

// EncodedImages are the values of images that Pairs reads, with a row per image: regions [B, R·E], a global vector [B,
// E], or the geometry of the boxes. Evaluation stores them all.
type EncodedImages struct {
	Values []*graph.Node // each [B, width]
}

// EncodedCaptions are the values of captions that Pairs reads.
type EncodedCaptions graph.Captions

// crossPools are the ways of aggregate that device.CrossScores supports.
var crossPools = map[string]device.CrossPool{"lse": device.CrossLogSumExp, "mean": device.CrossMean,
	"max": device.CrossMaximum, "sum": device.CrossSum}

// aggregate turns the similarities u of words or regions into scores along an axis. way is mean, max, sum, lse, which
// is ln(Σ e^(factor·u)), or softmax, which is Σ softmax(factor·u)·u.
func aggregate(g *graph.Graph, way string, factor float64, u *graph.Node, over graph.Axis) *graph.Node {
	switch way {
	case "mean":
		return g.Mean(u, over)
	case "max":
		return g.Max(u, over)
	case "sum":
		return g.Sum(u, over)
	case "softmax":
		return g.Sum(g.Multiply(g.Softmax(u, factor, over), u), over)
	}
	return g.LogSumExp(u, factor, over)
}
