package nn

import (
	"math"

	"vsetrain/internal/compute/graph"
	"vsetrain/internal/files/onnx"
)

// This file writes the layers in evaluation mode as operators of ONNX. Sequences are padded: words are [B, L], their
// vectors [B, L, D], or [L, B, D] before a GRU. Padding does not affect the results.

// masked stands for minus infinity: its exponential is 0.
const masked = -1e30

// ONNX applies the layer to x [..., I].
func (l *Linear) ONNX(g *onnx.Graph, x onnx.Value) onnx.Value {
	return onnxLinear(g, x, &l.Weight, &l.Bias)
}

// ONNX applies the layer to x [B, N, I].
func (l *Conv) ONNX(g *onnx.Graph, x onnx.Value) onnx.Value {
	return onnxLinear(g, x, &l.Weight, &l.Bias)
}

// onnxLinear multiplies by the transpose of a weight [O, I] or [O, I, 1], which it stores transposed, and adds a bias.
func onnxLinear(g *onnx.Graph, x onnx.Value, weight, bias *Param) onnx.Value {
	o, i, name := weight.Shape[0], weight.Shape[1], weight.Name
	w := g.Tensor(name+".T", []int{i, o}, func() []float32 {
		v := g.Values(name)
		t := make([]float32, len(v))
		for r := range o {
			for c, x := range v[r*i : (r+1)*i] {
				t[c*o+r] = x
			}
		}
		return t
	})
	y := g.Op("MatMul", []onnx.Value{x, w})
	if bias.Shape != nil {
		y = g.Op("Add", []onnx.Value{y, bias.ONNX(g)})
	}
	return y
}

// ONNX returns the parameter as a constant.
func (p *Param) ONNX(g *onnx.Graph) onnx.Value { return g.Param(p.Name, p.Shape) }

// ONNX normalises the last axis of x with the running statistics: x·s + t.
func (l *BatchNorm) ONNX(g *onnx.Graph, x onnx.Value) onnx.Value {
	part := func(name string, f func(weight, bias, mean, scale float64) float64) onnx.Value {
		return g.Tensor(l.Weight.Name+"."+name, l.Weight.Shape, func() []float32 {
			w, b, m, v := g.Values(l.Weight.Name), g.Values(l.Bias.Name), g.Values(l.Mean.Name), g.Values(l.Var.Name)
			for i := range w {
				s := float64(w[i]) / math.Sqrt(float64(v[i])+graph.BatchNormEps)
				w[i] = float32(f(float64(w[i]), float64(b[i]), float64(m[i]), s))
			}
			return w
		})
	}
	scale := part("scale", func(_, _, _, s float64) float64 { return s })
	shift := part("shift", func(_, b, m, s float64) float64 { return b - m*s })
	return g.Op("Add", []onnx.Value{g.Op("Mul", []onnx.Value{x, scale}), shift})
}

// ONNX looks up words [B, L] for a GRU: [L, B, W].
func (e *Embedding) ONNX(g *onnx.Graph, words onnx.Value) onnx.Value {
	return g.Op("Gather", []onnx.Value{e.Weight.ONNX(g), g.Transpose(words, 1, 0)})
}

// onnxGates reorders the gates of a parameter from PyTorch's (reset, update, new) to ONNX's (update, reset, new).
func onnxGates(v []float32) []float32 {
	n := len(v) / 3
	out := make([]float32, 0, len(v))
	for _, gate := range []int{1, 0, 2} {
		out = append(out, v[gate*n:(gate+1)*n]...)
	}
	return out
}

// onnxGRU runs one or two directions over x [L, B, I] with int32 lengths [B], "" for L. It returns the last states
// [directions, B, H] or all states [L, directions, B, H].
func onnxGRU(g *onnx.Graph, x, lengths onnx.Value, last bool, directions ...*GRU) onnx.Value {
	first, n := directions[0], len(directions)
	hidden, in := first.WHH.Shape[1], first.WIH.Shape[1]
	stack := func(suffix string, dims []int, params func(l *GRU) []*Param) onnx.Value {
		return g.Tensor(first.WIH.Name+suffix, dims, func() (out []float32) {
			for _, l := range directions {
				for _, p := range params(l) {
					out = append(out, onnxGates(g.Values(p.Name))...)
				}
			}
			return out
		})
	}
	w := stack(".gates", []int{n, 3 * hidden, in}, func(l *GRU) []*Param { return []*Param{&l.WIH} })
	r := stack(".recurrent", []int{n, 3 * hidden, hidden}, func(l *GRU) []*Param { return []*Param{&l.WHH} })
	b := stack(".bias", []int{n, 6 * hidden}, func(l *GRU) []*Param { return []*Param{&l.BIH, &l.BHH} })
	direction := "forward"
	if n == 2 {
		direction = "bidirectional"
	}
	arguments := []onnx.Value{x, w, r, b}
	if lengths != "" {
		arguments = append(arguments, lengths)
	}
	out := g.Ops("GRU", []bool{!last, last}, arguments, onnx.Attr{Name: "hidden_size", Value: hidden},
		onnx.Attr{Name: "direction", Value: direction}, onnx.Attr{Name: "linear_before_reset", Value: 1})
	if last {
		return out[1]
	}
	return out[0]
}

// FinalONNX is Final for x [L, B, I] and int64 lengths [B], "" for L.
func (l *GRU) FinalONNX(g *onnx.Graph, x, lengths onnx.Value) onnx.Value {
	return g.Squeeze(onnxGRU(g, x, narrow(g, lengths), true, l), 0)
}

// narrow converts lengths to int32, as the operator requires.
func narrow(g *onnx.Graph, lengths onnx.Value) onnx.Value {
	if lengths == "" {
		return ""
	}
	return g.Cast(lengths, onnx.Int32)
}

// MeanONNX is Mean for x [L, B, I] and int64 lengths [B], "" for L: [L, B, H].
func (l *BiGRU) MeanONNX(g *onnx.Graph, x, lengths onnx.Value) onnx.Value {
	y := onnxGRU(g, x, narrow(g, lengths), false, &l.Forward, (*GRU)(&l.Backward))
	return g.Op("ReduceMean", []onnx.Value{y}, onnx.Attr{Name: "axes", Value: []int{1}},
		onnx.Attr{Name: "keepdims", Value: 0})
}

// positions returns 0 … n-1 for the second axis of x, [n] int64.
func positions(g *onnx.Graph, x onnx.Value) onnx.Value {
	return g.Op("Range", []onnx.Value{g.Int(0), g.Axis(x, 1), g.Int(1)})
}

// within reports which positions of x [B, n, …] are before the end of their sequence, with lengths [B]: [B, n] bool.
func within(g *onnx.Graph, x, lengths onnx.Value) onnx.Value {
	return g.Op("Less", []onnx.Value{g.Unsqueeze(positions(g, x), 0), g.Unsqueeze(lengths, 1)})
}

// ONNX pools the rows of every item: x [B, n, D] with int64 lengths [B], "" for n → [B, D].
func (l *GPO) ONNX(g *onnx.Graph, x, lengths onnx.Value) onnx.Value {
	frequency, phase := make([]float64, l.encode), make([]float64, l.encode)
	for i := range frequency {
		frequency[i] = encodingFrequency(i, l.encode)
		phase[i] = float64(i%2) * math.Pi / 2 // a cosine
	}
	angle := g.Op("Mul", []onnx.Value{g.Unsqueeze(g.Cast(positions(g, x), onnx.Double), 1),
		g.Doubles(l.Linear.Weight.Name+".frequency", []int{l.encode}, frequency)})
	angle = g.Op("Add", []onnx.Value{angle, g.Doubles(l.Linear.Weight.Name+".phase", []int{l.encode}, phase)})
	p := g.Unsqueeze(g.Cast(g.Op("Sin", []onnx.Value{angle}), onnx.Float), 1) // [n, 1, d]
	if lengths != "" {
		sizes := g.Op("Concat", []onnx.Value{g.Unsqueeze(g.Axis(x, 1), 0), g.Unsqueeze(g.Axis(x, 0), 0),
			g.Ints(int64(l.encode))}, onnx.Attr{Name: "axis", Value: 0})
		p = g.Op("Expand", []onnx.Value{p, sizes})
	}
	s := g.Squeeze(l.Linear.ONNX(g, l.GRU.MeanONNX(g, p, lengths)), 2) // [n, B]
	s = g.Op("Div", []onnx.Value{g.Transpose(s, 1, 0), g.Scalar(poolTemperature)})
	if lengths != "" {
		inside := within(g, x, lengths)
		s = g.Op("Where", []onnx.Value{inside, s, g.Scalar(masked)})
		x = g.Op("Where", []onnx.Value{g.Unsqueeze(inside, 2), x, g.Scalar(masked)})
	}
	theta := g.Op("Softmax", []onnx.Value{s}, onnx.Attr{Name: "axis", Value: 1})
	sorted := g.Ops("TopK", []bool{true, true}, []onnx.Value{x, g.Unsqueeze(g.Axis(x, 1), 0)},
		onnx.Attr{Name: "axis", Value: 1})[0]
	return g.Squeeze(g.Op("MatMul", []onnx.Value{g.Unsqueeze(theta, 1), sorted}), 1)
}

// ONNX normalises the last axis of x.
func (l *LayerNorm) ONNX(g *onnx.Graph, x onnx.Value) onnx.Value {
	return g.Op("LayerNormalization", []onnx.Value{x, l.Weight.ONNX(g), l.Bias.ONNX(g)},
		onnx.Attr{Name: "axis", Value: -1}, onnx.Attr{Name: "epsilon", Value: float32(l.eps)})
}

// ONNX encodes words int64 [B, L] with int64 lengths [B]: the last hidden states [B, L, D].
func (b *Bert) ONNX(g *onnx.Graph, words, lengths onnx.Value) onnx.Value {
	e, heads := &b.Embeddings, b.sizes.Heads
	size := b.sizes.Hidden / heads
	x := g.Op("Gather", []onnx.Value{e.Word.Weight.ONNX(g), words})
	for _, v := range []onnx.Value{g.Op("Gather", []onnx.Value{e.Position.Weight.ONNX(g), positions(g, words)}),
		g.Op("Gather", []onnx.Value{e.Type.Weight.ONNX(g), g.Int(0)})} {
		x = g.Op("Add", []onnx.Value{x, v})
	}
	x = e.Norm.ONNX(g, x)
	attended := g.Op("And", []onnx.Value{within(g, words, lengths),
		g.Op("Not", []onnx.Value{g.Op("Equal", []onnx.Value{words, g.Int(0)})})})
	attended = g.Unsqueeze(attended, 1, 2) // [B, 1, 1, L]
	for i := range b.Encoder.Layers {
		l := &b.Encoder.Layers[i]
		s, o := &l.Attention.Self, &l.Attention.Output
		part := func(w, b *Param, perm ...int) onnx.Value { // [B, heads, L, size]
			return g.Transpose(g.Reshape(onnxLinear(g, x, w, b), 0, 0, int64(heads), int64(size)), perm...)
		}
		a := g.Op("MatMul", []onnx.Value{part(&s.QueryW, &s.QueryB, 0, 2, 1, 3), part(&s.KeyW, &s.KeyB, 0, 2, 3, 1)})
		a = g.Op("Div", []onnx.Value{a, g.Scalar(float32(math.Sqrt(float64(size))))})
		a = g.Op("Where", []onnx.Value{attended, a, g.Scalar(masked)})
		a = g.Op("Softmax", []onnx.Value{a}, onnx.Attr{Name: "axis", Value: -1})
		a = g.Op("MatMul", []onnx.Value{a, part(&s.ValueW, &s.ValueB, 0, 2, 1, 3)})
		a = g.Reshape(g.Transpose(a, 0, 2, 1, 3), 0, 0, int64(b.sizes.Hidden))
		x = o.onnx(g, a, x)
		x = l.Output.onnx(g, onnxGELU(g, l.Intermediate.Dense.ONNX(g, x)), x)
	}
	return x
}

// onnx computes LN(x + W h + b).
func (o *bertOutput) onnx(g *onnx.Graph, h, x onnx.Value) onnx.Value {
	return o.Norm.ONNX(g, g.Op("Add", []onnx.Value{x, o.Dense.ONNX(g, h)}))
}

// onnxGELU computes x/2·(1 + erf(x/√2)).
func onnxGELU(g *onnx.Graph, x onnx.Value) onnx.Value {
	e := g.Op("Erf", []onnx.Value{g.Op("Div", []onnx.Value{x, g.Scalar(math.Sqrt2)})})
	e = g.Op("Mul", []onnx.Value{x, g.Op("Add", []onnx.Value{e, g.Scalar(1)})})
	return g.Op("Mul", []onnx.Value{e, g.Scalar(0.5)})
}
