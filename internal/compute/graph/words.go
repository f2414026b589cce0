package graph

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// LinearCrossEntropy is the cross-entropy of the next words, predicted by the states [B·S, H] of a decoder, packed by
// steps [B]. With the logits z = W h + b, W [V, H], b [V],
//
//	1/B Σ_b Σ_t mask[b, t+1] · (log Σ_v exp z_v - z_labels[b, t+1])    a scalar
//
// labels and mask are int32 [B, L], with L greater than every number of steps. Only the rows of words are computed. For
// a part of a global batch (Graph.Shard), B in the factor is the size of the global batch.
func (g *Graph) LinearCrossEntropy(states, w, bias, labels, mask, steps *Node) *Node {
	rows, h, v, b, l := Dim(states, 0), Dim(states, 1), Dim(w, 0), Dim(labels, 0), Dim(labels, 1)
	wantShape("weight of a word loss", w, v, h)
	wantShape("bias of a word loss", bias, v)
	wantShape("mask of a word loss", mask, b, l)
	wantShape("steps of a word loss", steps, b)
	op := &Op{Name: fmt.Sprintf("word loss %d→%d", h, v)}
	hidden, weight, offset := op.arg(states, true), op.arg(w, true), op.arg(bias, true)
	ids, counted, counts := op.arg(labels, false), op.arg(mask, false), op.arg(steps, false)
	loss, logits, norm := op.result(), op.save(rows*v), op.save(rows)
	args := func(c *Call) device.CrossEntropy {
		return device.CrossEntropy{L: l, V: v, Labels: c.Ints(ids), Mask: c.Ints(counted), Lengths: c.Ints(counts),
			Scale: 1 / float64(g.Shard.itemsOf(b)), Logits: c.Saved[logits], Norm: c.Saved[norm]}
	}
	op.Make = func(c *Call) {
		a := args(c)
		Do(c, device.Gemm{TransB: true, M: device.Total(a.Lengths.Host), N: v, K: h, Alpha: 1, A: c.In[hidden],
			B: c.In[weight], C: a.Logits, Bias: c.In[offset]})
		a.Loss = c.Out[loss]
		Do(c, a)
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(in...)
		dy, dHidden, dWeight, dOffset := bw.arg(dyNode, false), bw.gradient(hidden), bw.gradient(weight),
			bw.gradient(offset)
		bw.Make = func(c *Call) {
			a := args(c)
			a.DLoss, a.DLogits = c.In[dy], a.Logits
			DoGrad(c, a)
			n := device.Total(a.Lengths.Host)
			c.columnSums(c.Out[dOffset], a.DLogits, n, v)
			c.product(c.Out[dHidden], device.Gemm{M: n, N: h, K: v, A: a.DLogits, B: c.In[weight]})
			c.product(c.Out[dWeight], device.Gemm{TransA: true, M: v, N: h, K: n, A: a.DLogits, B: c.In[hidden]})
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}
