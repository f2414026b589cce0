package graph

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// Sequences are packed: captions sorted by length, words time-major without padding (device.Packing). A packed value
// has capacity for B·L rows; only the first Σ lengths hold words, and every op that reads it takes the lengths too.

// Words reads the word vectors of a batch in packed order: words [B, L] int32, lengths [B] int32, table [V, D] →
// [B·L, D].
func (g *Graph) Words(words, lengths, table *Node) *Node {
	b, l, v, dim := Dim(words, 0), Dim(words, 1), Dim(table, 0), Dim(table, 1)
	wantShape("lengths", lengths, b)
	a := device.GatherWords{L: l, V: v, D: dim}
	op := &Op{Name: fmt.Sprintf("words %d×%d", b, l)}
	ids, counts, vectors, out := op.arg(words, false), op.arg(lengths, false), op.arg(table, true), op.result(b*l, dim)
	op.Make = func(c *Call) {
		a := a
		a.Words, a.Lengths, a.Table, a.Out = c.Ints(ids), c.Ints(counts), c.In[vectors], c.Out[out]
		Do(c, a)
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward() // needs no table
		ids, counts, dy := bw.arg(in[ids], false), bw.arg(in[counts], false), bw.arg(dyNode, false)
		dTable := bw.gradient(vectors)
		bw.Make = func(c *Call) {
			a := a
			a.Words, a.Lengths, a.Out, a.Table = c.Ints(ids), c.Ints(counts), c.In[dy], c.Out[dTable]
			DoGrad(c, a)
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// GRUWeights are the parameters of one direction of a GRU: gates stacked r, z, n.
type GRUWeights struct {
	WIH, WHH, BIH, BHH *Node // [3H, I], [3H, H], [3H], [3H]
}

// gruWeights are the parameters of a direction as arguments of an op, gruGradients their gradients as results.
type gruWeights struct{ wih, whh, bih, bhh int }
type gruGradients struct{ wih, whh, bih, bhh int }

// gru declares the parameters of a direction.
func (o *Op) gru(w GRUWeights, in, h int) gruWeights {
	wantShape("weight_ih of a GRU", w.WIH, 3*h, in)
	wantShape("weight_hh of a GRU", w.WHH, 3*h, h)
	wantShape("bias_ih of a GRU", w.BIH, 3*h)
	wantShape("bias_hh of a GRU", w.BHH, 3*h)
	return gruWeights{o.arg(w.WIH, true), o.arg(w.WHH, true), o.arg(w.BIH, true), o.arg(w.BHH, true)}
}

func (o *Op) gruGradients(w gruWeights) gruGradients {
	return gruGradients{o.gradient(w.wih), o.gradient(w.whh), o.gradient(w.bih), o.gradient(w.bhh)}
}

func (w gruWeights) views(c *Call) device.GRUDirection {
	return device.GRUDirection{WIH: c.In[w.wih], WHH: c.In[w.whh], BIH: c.In[w.bih], BHH: c.In[w.bhh]}
}

func (w gruGradients) set(c *Call, d *device.GRUDirection) {
	d.DWIH, d.DWHH, d.DBIH, d.DBHH = c.Out[w.wih], c.Out[w.whh], c.Out[w.bih], c.Out[w.bhh]
}

// GRU runs one direction of a GRU over packed x [B·L, I] with lengths [B]. final selects the result: the state after
// the last word [B, H], or the states of all words [B·L, H], packed.
func (g *Graph) GRU(x, lengths *Node, w GRUWeights, reverse, final bool) *Node {
	rows, in, h, b := Dim(x, 0), Dim(x, 1), Dim(w.WHH, 1), Dim(lengths, 0)
	op := &Op{Name: fmt.Sprintf("gru %d→%d", in, h)}
	words, counts, weights := op.arg(x, true), op.arg(lengths, false), op.gru(w, in, h)
	gates, prev := op.save(rows*4*h), op.save(rows*h)
	var y, other int // the result, and what nobody reads
	if final {
		y, other = op.result(b, h), op.scratch(rows*h)
	} else {
		y, other = op.result(rows, h), op.scratch(b*h)
	}
	args := func(c *Call) device.GRU {
		a := device.GRU{I: in, H: h, Reverse: reverse, X: c.In[words], Lengths: c.Ints(counts),
			GRUDirection: weights.views(c)}
		a.Gates, a.Prev = c.Saved[gates], c.Saved[prev]
		return a
	}
	op.Make = func(c *Call) {
		a := args(c)
		if a.Y, a.Final = c.Out[y], c.Temp[other]; final {
			a.Y, a.Final = a.Final, a.Y
		}
		Do(c, a)
	}
	op.Grad = func(n []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(n...)
		dy, dx, dWeights := bw.arg(dyNode, false), bw.gradient(words), bw.gruGradients(weights)
		bw.Make = func(c *Call) {
			a := args(c)
			if a.DY = c.In[dy]; final {
				a.DFinal, a.DY = a.DY, device.View{}
			}
			a.DX = c.Out[dx]
			dWeights.set(c, &a.GRUDirection)
			DoGrad(c, a)
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// OrderScores computes -‖max(0, c_j - i_i)‖₂ for images [B, D] and captions [C, D]: [B, C] (order embeddings).
func (g *Graph) OrderScores(images, captions *Node) *Node {
	b, dim, n := Dim(images, 0), Dim(images, 1), Dim(captions, 0)
	wantShape("caption embeddings", captions, n, dim)
	op := &Op{Name: "order scores"}
	v, t, scores := op.arg(images, true), op.arg(captions, true), op.result(b, n)
	args := func(c *Call) device.OrderScores {
		return device.OrderScores{B: b, C: n, D: dim, Images: c.In[v], Captions: c.In[t]}
	}
	op.Make = func(c *Call) {
		a := args(c)
		a.Scores = c.Out[scores]
		Do(c, a)
	}
	op.Grad = func(in []*Node, scoresNode, dyNode *Node) []*Node {
		bw := op.backward(in...)
		scores, dScores := bw.arg(scoresNode, false), bw.arg(dyNode, false)
		dImages, dCaptions := bw.gradient(v), bw.gradient(t)
		bw.Make = func(c *Call) {
			a := args(c)
			a.Scores, a.DScores, a.DImages, a.DCaptions = c.In[scores], c.In[dScores], c.Out[dImages], c.Out[dCaptions]
			DoGrad(c, a)
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}
