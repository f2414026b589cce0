package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/device"
)

// The layers of a BERT encoder (Devlin et al., NAACL 2019) over captions whose rows are concatenated: values [B·L, D], of which the
// first Σ lengths rows are there (see LinearRows). Each half of a layer is one op, so that its gradient adds to that of the
// residual in place and little is stored: queries, keys, values, contexts and sums, and of the perceptron what goes into GELU.

// LayerNormWeights are the parameters [D] of a layer norm, with its ε.
type LayerNormWeights struct {
	Weight, Bias *Node
	Eps          float64
}

// LinearWeights are the parameters of a linear layer.
type LinearWeights struct{ W, B *Node }

// AttentionWeights are those of the attention half of a layer.
type AttentionWeights struct {
	Query, Key, Value, Output LinearWeights // [D, D], [D]
	Norm                      LayerNormWeights
	Heads                     int
}

// PerceptronWeights are those of the other half.
type PerceptronWeights struct {
	Inner, Outer LinearWeights // [F, D], [F]; [D, F], [D]
	Norm         LayerNormWeights
}

// Embed reads word + position + type vectors: words [B, L] int32, lengths [B], tables [V, D], [P, D], [K, D] → [B·L, D]. All words
// are of type 0.
func (g *Graph) Embed(words, lengths, word, position, kind *Node) *Node {
	b, l, v, d := Dim(words, 0), Dim(words, 1), Dim(word, 0), Dim(word, 1)
	wantShape("lengths", lengths, b)
	wantShape("position vectors", position, -1, d)
	wantShape("type vectors", kind, -1, d)
	a := device.EmbedArgs{L: l, V: v, P: Dim(position, 0), K: Dim(kind, 0), D: d}
	op := &Op{Name: fmt.Sprintf("embed %d×%d", b, l), Outs: []tensor.Shape{{b * l, d}}, Wants: []bool{false, false, true, true, true}}
	op.Run = func(dev device.Device, c *Call) {
		a := a
		a.Words, a.Lengths, a.Word, a.Position, a.Type, a.Out = c.Ints(0), c.Ints(1), c.In[2], c.In[3], c.In[4], c.Out[0]
		dev.Embed(a)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{{v, d}, {a.P, d}, {a.K, d}}}
		bw.Run = func(dev device.Device, c *Call) {
			a := a
			a.Words, a.Lengths, a.Out, a.Word, a.Position, a.Type = c.Ints(0), c.Ints(1), c.In[2], c.Out[0], c.Out[1], c.Out[2]
			dev.EmbedGrad(a)
		}
		return append([]*Node{nil, nil}, g.ApplyMulti(bw, in[0], in[1], dy)...)
	}
	return g.Apply(op, words, lengths, word, position, kind)
}

// norm is the end of a half: layer norm of x + dropout(branch). Its three Keep slots begin at keep: sum, mean and 1/std.
type norm struct {
	d    int
	eps  float64
	drop device.Drops
	keep int
}

func (g *Graph) norm(d int, w LayerNormWeights, rate float64, purpose string, keep int) norm {
	wantShape("weight of a layer norm", w.Weight, d)
	wantShape("bias of a layer norm", w.Bias, d)
	return norm{d: d, eps: w.Eps, drop: g.drops(rate, purpose), keep: keep}
}

func (n *norm) slots(room int) []Slot {
	return []Slot{{DType: device.Float, N: room * n.d}, {DType: device.Float, N: room}, {DType: device.Float, N: room}}
}

func (n *norm) args(c *Call, rows int, weight device.View, step device.Ints) device.LayerNormArgs {
	a := device.LayerNormArgs{N: rows, D: n.d, Eps: n.eps, Drop: n.drop, Weight: weight, Sum: c.Keep[n.keep], Mean: c.Keep[n.keep+1], InvStd: c.Keep[n.keep+2]}
	a.Drop.Step = step
	return a
}

// drops returns the draws of a dropout inside an op; the op then reads InputStep.
func (g *Graph) drops(rate float64, purpose string) device.Drops {
	if !g.Training {
		rate = 0
	}
	return device.Drops{Rate: rate, Key: g.dropper(purpose, rate).Key}
}

// LayerNormRows normalises the rows that are there: x [room, D] → [room, D].
func (g *Graph) LayerNormRows(x, counts *Node, w LayerNormWeights) *Node {
	room, d := Dim(x, 0), Dim(x, 1)
	n := g.norm(d, w, 0, "", 0)
	args := func(c *Call) device.LayerNormArgs {
		a := n.args(c, total(c.Host[1]), c.In[2], device.Ints{})
		a.X, a.Sum = c.In[0], device.View{}
		return a
	}
	op := &Op{Name: "layer norm of rows", Outs: []tensor.Shape{{room, d}}, Wants: []bool{true, false, true, true}, Keep: n.slots(room)}
	op.Keep[0].N = 0 // the sum is x
	op.Run = func(dev device.Device, c *Call) {
		a := args(c)
		a.Y, a.Bias = c.Out[0], c.In[3]
		dev.LayerNorm(a)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{{room, d}, {d}, {d}}, Temp: []int{room * d}, Forward: op}
		bw.Run = func(dev device.Device, c *Call) {
			a := args(c)
			a.DY, a.DX, a.DWeight, a.DBias = c.In[3], c.Out[0], c.Out[1], c.Out[2]
			if !a.DX.Present() {
				a.DX = c.Temp[0]
			}
			dev.LayerNormGrad(a)
		}
		out := g.ApplyMulti(bw, in[0], in[1], in[2], dy)
		return []*Node{out[0], nil, out[1], out[2]}
	}
	return g.Apply(op, x, counts, w.Weight, w.Bias)
}

// DropoutRows is Dropout of the rows that are there: x [room, D].
func (g *Graph) DropoutRows(x, counts *Node, rate float64, purpose string) *Node {
	if !g.Training || rate == 0 {
		return x
	}
	s, a := x.Shape().Clone(), g.dropper(purpose, rate)
	run := func(dev device.Device, c *Call) {
		a, n := a, total(c.Host[1])*s[1]
		a.X, a.Step, a.Y = c.In[0].Slice(0, n), c.Ints(2), c.Out[0].Slice(0, n)
		dev.Dropout(a)
	}
	op := &Op{Name: fmt.Sprintf("dropout of rows %v %s", rate, purpose), Outs: []tensor.Shape{s}, Wants: []bool{true, false, false}, Run: run}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{s}, Run: run}
		return []*Node{g.Apply(bw, dy, in[1], in[2]), nil, nil}
	}
	return g.Apply(op, x, counts, g.InputInts(InputStep, 2))
}

// FirstRows returns the first row of every caption: x [room, D] with lengths [B] → [B, D].
func (g *Graph) FirstRows(x, lengths *Node) *Node {
	room, d, b := Dim(x, 0), Dim(x, 1), Dim(lengths, 0)
	op := &Op{Name: "first rows", Outs: []tensor.Shape{{b, d}}, Wants: []bool{true, false}}
	op.Run = func(dev device.Device, c *Call) {
		at := 0
		for i, n := range c.Host[1] {
			dev.Copy(c.Out[0].Slice(i*d, (i+1)*d), c.In[0].Slice(at*d, (at+1)*d))
			at += int(n)
		}
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{{room, d}}}
		bw.Run = func(dev device.Device, c *Call) {
			dev.Fill(c.Out[0].Slice(0, total(c.Host[0])*d), 0)
			at := 0
			for i, n := range c.Host[0] {
				dev.Copy(c.Out[0].Slice(at*d, (at+1)*d), c.In[1].Slice(i*d, (i+1)*d))
				at += int(n)
			}
		}
		return []*Node{g.Apply(bw, in[1], dy), nil}
	}
	return g.Apply(op, x, lengths)
}
