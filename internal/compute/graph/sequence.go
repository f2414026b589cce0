package graph

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// Sequences are packed: captions sorted by length, words time-major without padding (device.Packing). A packed value
// has capacity for B·L rows; only the first Σ lengths hold words, and every op that reads it takes the lengths too.

// Embedding reads the word vectors of a batch in packed order: words [B, L] int32, lengths [B] int32, table [V, D] →
// [B·L, D].
func (g *Graph) Embedding(words, lengths, table *Node) *Node {
	b, l, v, dim := Dim(words, 0), Dim(words, 1), Dim(table, 0), Dim(table, 1)
	wantShape("lengths", lengths, b)
	a := &device.GatherWords{L: l, V: v, D: dim}
	k := kernelOf(g, fmt.Sprintf("words %d×%d", b, l), a)
	k.ints(words, &a.Words)
	k.ints(lengths, &a.Lengths)
	k.argOnce(table, &a.Table, &a.Table)
	return k.result(&a.Out, &a.Out, false, b*l, dim)
}

// GRUWeights are the parameters of one direction of a GRU: gates stacked r, z, n.
type GRUWeights struct {
	WIH, WHH, BIH, BHH *Node // [3H, I], [3H, H], [3H], [3H]
}

// gru declares the parameters of a direction.
func (k *kernelOp) gru(w GRUWeights, d *device.GRUDirection, in, h int) {
	wantShape("weight_ih of a GRU", w.WIH, 3*h, in)
	wantShape("weight_hh of a GRU", w.WHH, 3*h, h)
	wantShape("bias_ih of a GRU", w.BIH, 3*h)
	wantShape("bias_hh of a GRU", w.BHH, 3*h)
	k.arg(w.WIH, &d.WIH, &d.DWIH)
	k.arg(w.WHH, &d.WHH, &d.DWHH)
	k.arg(w.BIH, &d.BIH, &d.DBIH)
	k.arg(w.BHH, &d.BHH, &d.DBHH)
}

// GRU runs one direction of a GRU over packed x [B·L, I] with lengths [B]. final selects the result: the state after
// the last word [B, H], or the states of all words [B·L, H], packed.
func (g *Graph) GRU(x, lengths *Node, w GRUWeights, reverse, final bool) *Node {
	rows, in, h, b := Dim(x, 0), Dim(x, 1), Dim(w.WHH, 1), Dim(lengths, 0)
	a := &device.GRU{I: in, H: h, Reverse: reverse}
	k := kernelOf(g, fmt.Sprintf("gru %d→%d", in, h), a)
	k.arg(x, &a.X, &a.DX)
	k.ints(lengths, &a.Lengths)
	k.gru(w, &a.GRUDirection, in, h)
	k.keep(rows*4*h, &a.Gates)
	k.keep(rows*h, &a.Prev)
	if final {
		k.scratch(&a.Y, rows*h, 0)
		return k.result(&a.Final, &a.DFinal, false, b, h)
	}
	k.scratch(&a.Final, b*h, 0)
	return k.result(&a.Y, &a.DY, false, rows, h)
}

// OrderScores computes -‖max(0, c_j - i_i)‖₂ for images [B, D] and captions [C, D]: [B, C] (order embeddings).
func (g *Graph) OrderScores(images, captions *Node) *Node {
	b, dim, n := Dim(images, 0), Dim(images, 1), Dim(captions, 0)
	wantShape("caption embeddings", captions, n, dim)
	a := &device.OrderScores{B: b, C: n, D: dim}
	k := kernelOf(g, "order scores", a)
	k.arg(images, &a.Images, &a.DImages)
	k.arg(captions, &a.Captions, &a.DCaptions)
	return k.result(&a.Scores, &a.DScores, true, b, n)
}
