package graph

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// The layers of a BERT encoder (Devlin et al., NAACL 2019) over captions whose rows are concatenated: values [B·L, D],
// of which the first Σ lengths rows are there (see LinearRows). Each half of a layer is one op, so that its gradient
// adds to the gradient of the residual in place and little is stored: queries, keys, values, contexts and sums, and of
// the perceptron what goes into GELU.

// LayerNormWeights are the parameters [D] of a layer norm, with its ε.
type LayerNormWeights struct {
	Weight, Bias *Node
	Eps          float64
}

func (w *LayerNormWeights) check(d int) {
	wantShape("weight of a layer norm", w.Weight, d)
	wantShape("bias of a layer norm", w.Bias, d)
}

// LinearWeights are the parameters of a linear layer.
type LinearWeights struct{ W, B *Node }

// AttentionWeights are the weights of the attention half of a layer.
type AttentionWeights struct {
	Query, Key, Value, Output LinearWeights // [D, D], [D]
	Norm                      LayerNormWeights
	Heads                     int
}

// PerceptronWeights are the weights of the other half.
type PerceptronWeights struct {
	Inner, Outer LinearWeights // [F, D], [F]; [D, F], [D]
	Norm         LayerNormWeights
}

// BertEmbeddings reads word + position + type vectors: words [B, L] int32, lengths [B], tables [V, D], [P, D], [K, D] →
// [B·L, D]. All words are of type 0.
func (g *Graph) BertEmbeddings(words, lengths, word, position, kind *Node) *Node {
	b, l, v, d := Dim(words, 0), Dim(words, 1), Dim(word, 0), Dim(word, 1)
	wantShape("lengths", lengths, b)
	wantShape("position vectors", position, -1, d)
	wantShape("type vectors", kind, -1, d)
	a := &device.Embed{L: l, V: v, P: Dim(position, 0), K: Dim(kind, 0), D: d}
	k := kernelOf(g, fmt.Sprintf("embed %d×%d", b, l), a)
	k.ints(words, &a.Words)
	k.ints(lengths, &a.Lengths)
	k.argOnce(word, &a.Word, &a.Word)
	k.argOnce(position, &a.Position, &a.Position)
	k.argOnce(kind, &a.Type, &a.Type)
	return k.result(&a.Out, &a.Out, false, b*l, d)
}

// norm is the end of a half: layer norm of x + dropout(branch). Its fields are indices of its parameters, of its saved
// tensors, and the arguments of its dropout.
type norm struct {
	d              int
	eps            float64
	drop           device.DropoutParams
	weight, bias   int
	dropped        dropArgs
	sum, mean, inv int
}

// norm declares the operands of a norm.
func (g *Graph) norm(op *Op, capacity, d int, w LayerNormWeights, rate float64, rows *Node, purpose string) *norm {
	w.check(d)
	n := &norm{d: d, eps: w.Eps, drop: g.dropper(rate, purpose), weight: op.arg(w.Weight, true),
		bias: op.arg(w.Bias, true), dropped: op.dropped(g, rate, rows)}
	n.sum, n.mean, n.inv = op.save(capacity*d), op.save(capacity), op.save(capacity)
	return n
}

func (n *norm) args(c *Call, rows int) device.LayerNorm {
	a := device.LayerNorm{N: rows, D: n.d, Eps: n.eps, Drop: n.drop, Weight: c.In[n.weight], Bias: c.In[n.bias],
		Sum: c.Saved[n.sum], Mean: c.Saved[n.mean], InvStd: c.Saved[n.inv]}
	n.dropped.set(c, &a.Drop, rows)
	return a
}

// LayerNormRows normalises the rows that are there: x [capacity, D] → [capacity, D].
func (g *Graph) LayerNormRows(x, counts *Node, w LayerNormWeights) *Node {
	capacity, d := Dim(x, 0), Dim(x, 1)
	w.check(d)
	a, lengths := &device.LayerNorm{D: d, Eps: w.Eps}, device.Ints{}
	k := kernelOf(g, "layer norm of rows", a)
	k.always = true
	k.arg(x, &a.X, &a.DX)
	k.ints(counts, &lengths)
	k.arg(w.Weight, &a.Weight, &a.DWeight)
	k.arg(w.Bias, &a.Bias, &a.DBias)
	k.keep(capacity, &a.Mean, &a.InvStd)
	k.last = func() { a.N = device.Total(lengths.Host) }
	return k.result(&a.Y, &a.DY, false, capacity, d)
}

// FirstRows returns the first row of every caption: x [capacity, D] with lengths [B] → [B, D].
func (g *Graph) FirstRows(x, lengths *Node) *Node {
	d, b := Dim(x, 1), Dim(lengths, 0)
	op := &Op{Name: "first rows"}
	rows, counts, first := op.arg(x, true), op.arg(lengths, false), op.result(b, d)
	op.Make = func(c *Call) {
		at := 0
		for i, n := range c.Ints(counts).Host {
			Do(c, device.Copy{Dst: c.Out[first].Slice(i*d, (i+1)*d), Src: c.In[rows].Slice(at*d, (at+1)*d)})
			at += int(n)
		}
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward()
		counts, dy, dx := bw.arg(in[counts], false), bw.arg(dyNode, false), bw.gradient(rows)
		bw.Make = func(c *Call) {
			Do(c, device.Fill{Dst: c.Out[dx].Slice(0, c.rows(counts)*d)})
			at := 0
			for i, n := range c.Ints(counts).Host {
				Do(c, device.Copy{Dst: c.Out[dx].Slice(at*d, (at+1)*d), Src: c.In[dy].Slice(i*d, (i+1)*d)})
				at += int(n)
			}
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}
