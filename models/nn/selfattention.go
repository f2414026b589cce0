package nn

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

// SelfAttention is torch.nn.MultiheadAttention between the rows of every set, without dropout.
type SelfAttention struct {
	InW   Param  `param:"in_proj_weight"` // [3D, D]: queries, keys, values
	InB   Param  `param:"in_proj_bias"`   // [3D]
	Out   Linear `param:"out_proj"`       // [D, D]
	heads int
}

// newSelfAttention returns a layer with PyTorch's initialisation. d must be a multiple of heads.
func newSelfAttention(d, heads int) SelfAttention {
	out := Linear{Weight: Param{Shape: []int{d, d}, Init: fanIn(d)}, Bias: Param{Shape: []int{d}, Init: Constant(0)}}
	in := NewXavierLinear(d, 3*d)
	return SelfAttention{InW: in.Weight, InB: in.Bias, Out: out, heads: heads}
}

// Forward attends within B sets of rows x [N, D], with counts [B]. attended, int32 [B, L], is 0 for the rows of each
// set that are not attended to; nil attends to all.
func (l *SelfAttention) Forward(g *graph.Graph, x, attended, counts *graph.Node) *graph.Node {
	qkv := g.Linear(graph.LinearTerm{X: x, W: l.InW.Node(g), B: l.InB.Node(g)})
	return l.Out.Forward(g, g.SelfAttention(qkv, attended, counts, l.heads))
}

// torchEps is the ε of torch.nn.LayerNorm.
const torchEps = 1e-5

// Forward normalises the rows of x [N, D], which are B sets with counts [B].
func (l *LayerNorm) Forward(g *graph.Graph, x, counts *graph.Node) *graph.Node {
	return g.LayerNormRows(x, counts, l.weights(g))
}

// PreNormAttention computes x + attention(LN(x)) (ppanzx/CHAN, lib/encoders.py).
type PreNormAttention struct {
	Norm      LayerNorm     `param:"ln"`
	Attention SelfAttention `param:"attn"`
}

// NewPreNormAttention returns a layer with PyTorch's initialisation.
func NewPreNormAttention(d, heads int) *PreNormAttention {
	return &PreNormAttention{newLayerNorm(d, torchEps), newSelfAttention(d, heads)}
}

// Forward takes the arguments of SelfAttention.Forward.
func (l *PreNormAttention) Forward(g *graph.Graph, x, attended, counts *graph.Node) *graph.Node {
	return g.Add(x, l.Attention.Forward(g, l.Norm.Forward(g, x, counts), attended, counts))
}

// Transformer is a pre-norm transformer layer with the parameter names of CLIP:
//
//	y = x + attention(LN₁(x))    y + W₂ (h∘σ(1.702 h)), h = W₁ LN₂(y)
type Transformer struct {
	Attention SelfAttention `param:"attn"`
	Norm1     LayerNorm     `param:"ln_1"`
	MLP       struct {
		Inner Linear `param:"c_fc"`   // [4D, D]
		Outer Linear `param:"c_proj"` // [D, 4D]
	} `param:"mlp"`
	Norm2 LayerNorm `param:"ln_2"`
}

// NewTransformer returns a layer with PyTorch's initialisation.
func NewTransformer(d, heads int) *Transformer {
	norm := newLayerNorm(d, torchEps)
	l := &Transformer{Attention: newSelfAttention(d, heads), Norm1: norm, Norm2: norm}
	l.MLP.Inner, l.MLP.Outer = NewLinear(d, 4*d), NewLinear(4*d, d)
	return l
}

// Forward takes the arguments of SelfAttention.Forward.
func (l *Transformer) Forward(g *graph.Graph, x, attended, counts *graph.Node) *graph.Node {
	x = g.Add(x, l.Attention.Forward(g, l.Norm1.Forward(g, x, counts), attended, counts))
	h := l.MLP.Inner.Forward(g, l.Norm2.Forward(g, x, counts))
	return g.Add(x, l.MLP.Outer.Forward(g, g.Multiply(h, g.Activate(device.Sigmoid, g.Scale(h, 1.702)))))
}
