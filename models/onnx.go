package models

import (
	"fmt"
	"strings"

	"vsetrain/internal/files/onnx"
	"vsetrain/internal/system/build"
)

// onnxNetwork is an Embedder whose two encoders, in evaluation mode, can be written as ONNX models. Their inputs are
// regions float32 [B, R, D], and words int64 [B, L] with lengths int64 [B]. Their outputs are embeddings [B, E].
type onnxNetwork interface {
	Embedder
	onnxImages(g *onnx.Graph, regions onnx.Value) onnx.Value
	onnxCaptions(g *onnx.Graph, words, lengths onnx.Value) onnx.Value
	// normalised reports whether the embeddings of images and captions have length 1.
	normalised() (images, captions bool)
}

// ONNX holds the two encoders of an Embedder, and what a program needs to know to run them.
type ONNX struct {
	Images, Captions                     *onnx.Graph
	AnyRegions                           bool // images may have any number of regions
	NormalisedImages, NormalisedCaptions bool
	Score                                string // of a pair: "dot", or "order" for -‖max(0, c - i)‖
}

// Names of the inputs and outputs of the encoders.
const (
	ONNXRegions   = "regions"   // float32 [batch, regions, values]
	ONNXWords     = "ids"       // int64 [batch, length]
	ONNXLengths   = "lengths"   // int64 [batch]
	ONNXEmbedding = "embedding" // float32 [batch, size]
)

// HasONNX reports whether the network can be written as ONNX models.
func (m *Model) HasONNX() bool {
	_, ok := m.Network.(onnxNetwork)
	return ok
}

// ONNX returns the encoders of a model. It returns an error for a PairScorer.
func (m *Model) ONNX() (*ONNX, error) {
	n, ok := m.Network.(onnxNetwork)
	switch {
	case !ok && m.Options.Traits().Embeds:
		return nil, fmt.Errorf("network %s cannot be written as ONNX models: it needs the methods onnxImages, "+
			"onnxCaptions and normalised, as vsepp has in models/onnx.go; 'vsetrain export --out FILE' writes its "+
			"weights for PyTorch", m.Options.Network)
	case !ok:
		return nil, fmt.Errorf("network %s scores pairs of an image and a caption, so it has no encoders of one "+
			"embedding each; expected one of %s", m.Options.Network,
			strings.Join(NamesWhere(func(t Traits) bool { return t.Embeds }), ", "))
	}
	values := func(name string) []float32 {
		v := m.Instance.Params.Value(name)
		out := make([]float32, v.N)
		m.Instance.Dev.DownloadFloats(out, v)
		return out
	}
	e := &ONNX{AnyRegions: m.Options.Traits().AnyRegions, Score: "dot"}
	if !n.DotProduct() {
		e.Score = "order"
	}
	e.NormalisedImages, e.NormalisedCaptions = n.normalised()
	out, version := onnx.Dims("batch", m.Options.EmbedDim), build.Current().String()

	e.Images = onnx.New(m.Options.Network+" images", version, values)
	shape := onnx.Dims("batch", m.Dims.Regions, m.Dims.Feature)
	if e.AnyRegions {
		shape = onnx.Dims("batch", "regions", m.Dims.Feature)
	}
	regions := e.Images.Input(ONNXRegions, onnx.Float, shape)
	e.Images.Output(ONNXEmbedding, onnx.Float, out, n.onnxImages(e.Images, regions))

	e.Captions = onnx.New(m.Options.Network+" captions", version, values)
	words := e.Captions.Input(ONNXWords, onnx.Int64, onnx.Dims("batch", "length"))
	lengths := e.Captions.Input(ONNXLengths, onnx.Int64, onnx.Dims("batch"))
	e.Captions.Output(ONNXEmbedding, onnx.Float, out, n.onnxCaptions(e.Captions, words, lengths))
	return e, nil
}

func (t *lastState) onnx(g *onnx.Graph, words, lengths onnx.Value) onnx.Value {
	return g.L2Norm(t.RNN.FinalONNX(g, t.Embed.ONNX(g, words), lengths), 1, 0)
}

func (n *vsepp) normalised() (images, captions bool) { return !n.opt.NoImgNorm, true }

func (n *vsepp) onnxImages(g *onnx.Graph, regions onnx.Value) onnx.Value {
	x := n.Image.FC.ONNX(g, g.Reshape(regions, 0, int64(n.dims.Regions*n.dims.Feature)))
	if !n.opt.NoImgNorm {
		x = g.L2Norm(x, 1, 0)
	}
	return n.onnxAbs(g, x)
}

func (n *vsepp) onnxCaptions(g *onnx.Graph, words, lengths onnx.Value) onnx.Value {
	return n.onnxAbs(g, n.Text.onnx(g, words, lengths))
}

func (n *vsepp) onnxAbs(g *onnx.Graph, x onnx.Value) onnx.Value {
	if n.opt.UseAbs {
		return g.Op("Abs", []onnx.Value{x})
	}
	return x
}

func (n *vsrn) normalised() (images, captions bool) { return true, true }

func (n *vsrn) onnxImages(g *onnx.Graph, regions onnx.Value) onnx.Value {
	f := n.Image.FC.ONNX(g, regions)
	if n.opt.Mode == modeCOCO {
		f = g.L2Norm(f, n.axis(), 0)
	}
	for _, block := range n.relations() {
		f = block.onnx(g, f)
	}
	f = g.Transpose(g.L2Norm(f, n.axis(), 0), 1, 0, 2) // [R, B, E]
	h := n.Image.RNN.FinalONNX(g, f, "")
	if n.opt.Mode != modeCOCO {
		h = n.Image.Norm.ONNX(g, h)
	}
	return g.L2Norm(h, 1, 0)
}

func (n *vsrn) onnxCaptions(g *onnx.Graph, words, lengths onnx.Value) onnx.Value {
	return n.Text.onnx(g, words, lengths)
}

// onnx is Forward for f [B, R, E].
func (l *relation) onnx(g *onnx.Graph, f onnx.Value) onnx.Value {
	a := g.Op("MatMul", []onnx.Value{l.Theta.ONNX(g, f), g.Transpose(l.Phi.ONNX(g, f), 0, 2, 1)})
	a = g.Op("Div", []onnx.Value{a, g.Cast(g.Axis(f, 1), onnx.Float)})
	y := g.Op("MatMul", []onnx.Value{a, l.G.ONNX(g, f)})
	return g.Op("Add", []onnx.Value{l.W.Norm.ONNX(g, l.W.Conv.ONNX(g, y)), f})
}

func (n *vseinf) normalised() (images, captions bool) { return true, true }

func (n *vseinf) onnxImages(g *onnx.Graph, regions onnx.Value) onnx.Value {
	m := &n.Image.MLP
	h := g.Op("Relu", []onnx.Value{m.Norms[0].ONNX(g, m.Layers[0].ONNX(g, regions))})
	h = g.Op("Add", []onnx.Value{n.Image.FC.ONNX(g, regions), m.Layers[1].ONNX(g, h)})
	return g.L2Norm(n.Image.Pool.ONNX(g, h, ""), 1, 1e-8)
}

func (n *vseinf) onnxCaptions(g *onnx.Graph, words, lengths onnx.Value) onnx.Value {
	x := n.Text.Words.onnx(g, words, lengths)
	return g.L2Norm(n.Text.Pool.ONNX(g, x, lengths), 1, 1e-8)
}

// onnx are the vectors of all words with a BiGRU or BERT: [B, L, E].
func (w *wordEncoder) onnx(g *onnx.Graph, words, lengths onnx.Value) onnx.Value {
	if w.bert {
		return w.Linear.ONNX(g, w.Bert.ONNX(g, words, lengths))
	}
	return g.Transpose(w.Both.MeanONNX(g, w.Embed.ONNX(g, words), lengths), 1, 0, 2)
}
