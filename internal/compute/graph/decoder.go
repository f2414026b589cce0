package graph

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// DecoderWeights are the parameters of a GRU that attends to regions before every step: of features E, of words W, its
// states H, its attention A.
type DecoderWeights struct {
	Attend, AttendBias *Node // [A, E+H], [A]: of a region beside the state
	Score              *Node // [1, A]
	WIH, WHH           *Node // [3H, W+E], [3H, H], gates stacked r, z, n: of a word beside the context
	BIH, BHH           *Node // [3H]
}

// AttentionGRU is the decoder of VSRN's captioning branch (Venugopalan et al.: "Sequence to Sequence - Video to Text",
// ICCV 2015, with attention; VSRN, misc/DecoderRNN.py, misc/Attention.py): from the state h_0 = initial_b [B, H], for
// the words x_t of every sequence,
//
//	e_r = Score tanh(Attend [regions_r ; h_t-1] + AttendBias)    c = Σ_r softmax(e)_r regions_r
//	h_t = GRU([x_t ; drop(c)], h_t-1)
//
// x [B·S, W] and the result, the states h_1 h_2 … [B·S, H], are packed by steps [B], which is in descending order;
// regions are [B, R, E]. The part of Attend that sees the regions is applied once, not at each step, and the part of
// WIH that sees the words to all of them at once: no operand is ever concatenated. numbers [B·S] are the numbers of the
// rows of x, for dropout (RowIndices).
func (g *Graph) AttentionGRU(x, regions, initial, steps, numbers *Node, w DecoderWeights, rate float64,
	purpose string) *Node {
	b, r, e, rows, words := Dim(regions, 0), Dim(regions, 1), Dim(regions, 2), Dim(x, 0), Dim(x, 1)
	h, a := Dim(w.WHH, 1), Dim(w.Attend, 0)
	wantShape("initial state of a decoder", initial, b, h)
	wantShape("steps of a decoder", steps, b)
	wantShape("attention weight of a decoder", w.Attend, a, e+h)
	wantShape("attention bias of a decoder", w.AttendBias, a)
	wantShape("attention score of a decoder", w.Score, 1, a)
	wantShape("weight_ih of a decoder", w.WIH, 3*h, words+e)
	wantShape("weight_hh of a decoder", w.WHH, 3*h, h)
	wantShape("bias_ih of a decoder", w.BIH, 3*h)
	wantShape("bias_hh of a decoder", w.BHH, 3*h)
	op := &Op{Name: fmt.Sprintf("attention gru %d+%d→%d", words, e, h)}
	vectors, features, start, counts := op.arg(x, true), op.arg(regions, true), op.arg(initial, true),
		op.arg(steps, false)
	attend, attendBias, score := op.arg(w.Attend, true), op.arg(w.AttendBias, true), op.arg(w.Score, true)
	wih, whh, bih, bhh := op.arg(w.WIH, true), op.arg(w.WHH, true), op.arg(w.BIH, true), op.arg(w.BHH, true)
	drop, dropped := g.dropper(rate, purpose), op.dropped(g, rate, numbers)
	states := op.result(rows, h)
	keys, gates, prev := op.save(b*r*a), op.save(rows*4*h), op.save(rows*h)
	context, weights, query := op.save(rows*e), op.save(rows*r), op.save(rows*a)
	args := func(c *Call) (k device.Decoder, n int) {
		k = device.Decoder{R: r, H: h, A: a, E: e, Lengths: c.Ints(counts), Keys: c.Saved[keys],
			Regions: c.In[features], Score: c.In[score], Attend: from(c.In[attend], e), WHH: c.In[whh],
			WIH: from(c.In[wih], words), LDAttend: e + h, LDWIH: words + e, Drop: drop, Gates: c.Saved[gates],
			Prev: c.Saved[prev], Context: c.Saved[context], Weights: c.Saved[weights], Query: c.Saved[query]}
		n = k.Lengths.Packing().Rows()
		dropped.set(c, &k.Drop, n)
		return k, n
	}
	op.Make = func(c *Call) {
		k, n := args(c)
		Do(c, device.Gemm{TransB: true, M: b * r, N: a, K: e, Alpha: 1, A: k.Regions, B: c.In[attend], LDB: e + h,
			C: k.Keys, Bias: c.In[attendBias]})
		Do(c, device.Gemm{TransB: true, M: n, N: 3 * h, K: words, Alpha: 1, A: c.In[vectors], B: c.In[wih],
			LDB: words + e, C: k.Gates, LDC: 4 * h, Bias: c.In[bih]})
		k.Initial, k.BHH, k.States = c.In[start], c.In[bhh], c.Out[states]
		Do(c, k)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := op.backward(in...)
		dStates, dX, dRegions, dInitial := bw.arg(dy, false), bw.gradient(vectors), bw.gradient(features),
			bw.gradient(start)
		dAttend, dAttendBias, dScore := bw.gradient(attend), bw.gradient(attendBias), bw.gradient(score)
		dWIH, dWHH, dBIH, dBHH := bw.gradient(wih), bw.gradient(whh), bw.gradient(bih), bw.gradient(bhh)
		dQuery, dKeys, dVector, biases := bw.scratch(rows*a), bw.scratch(b*r*a), bw.scratch(b*a), bw.scratch(4*h)
		// Back through the steps, then the gradients of the weights, which are products over all rows.
		bw.Make = func(c *Call) {
			k, n := args(c)
			k.DStates, k.DInitial, k.DQuery = c.In[dStates], c.Out[dInitial], c.Temp[dQuery]
			k.DKeys, k.DRegions, k.DVector = c.Temp[dKeys], c.Out[dRegions], c.Temp[dVector]
			DoGrad(c, k)

			// The gradients of the gates are [n, r, z, hn] in a row: the last three parts belong to the rows of WHH,
			// the second and third, and the first, to the rows of WIH.
			rz, newer := from(k.Gates, h), 2*h*(words+e) // newer: where the rows of n begin in WIH
			wih, bias, dWIH, dBIH := c.In[wih], c.Temp[biases], c.Out[dWIH], c.Out[dBIH]
			c.columnSums(bias, k.Gates, n, 4*h)
			Do(c, device.Copy{Dst: c.Out[dBHH], Src: from(bias, h)})
			Do(c, device.Copy{Dst: dBIH.Slice(0, 2*h), Src: bias.Slice(h, 3*h)})
			Do(c, device.Copy{Dst: from(dBIH, 2*h), Src: bias.Slice(0, h)})
			c.product(c.Out[dX], device.Gemm{M: n, N: words, K: 2 * h, A: rz, LDA: 4 * h, B: wih, LDB: words + e})
			c.product(c.Out[dX], device.Gemm{M: n, N: words, K: h, Beta: 1, A: k.Gates, LDA: 4 * h,
				B: from(wih, newer), LDB: words + e})
			for _, p := range []struct {
				x        device.View
				at, size int
			}{{c.In[vectors], 0, words}, {k.Context, words, e}} {
				c.product(from(dWIH, p.at), device.Gemm{TransA: true, M: 2 * h, N: p.size, K: n, A: rz, LDA: 4 * h,
					B: p.x, LDC: words + e})
				c.product(from(dWIH, newer+p.at), device.Gemm{TransA: true, M: h, N: p.size, K: n, A: k.Gates,
					LDA: 4 * h, B: p.x, LDC: words + e})
			}
			c.product(c.Out[dWHH], device.Gemm{TransA: true, M: 3 * h, N: h, K: n, A: rz, LDA: 4 * h, B: k.Prev})

			dAttend := c.Out[dAttend]
			c.columnSums(c.Out[dAttendBias], k.DKeys, b*r, a)
			c.product(dAttend, device.Gemm{TransA: true, M: a, N: e, K: b * r, A: k.DKeys, B: k.Regions, LDC: e + h})
			c.product(from(dAttend, e), device.Gemm{TransA: true, M: a, N: h, K: n, A: k.DQuery, B: k.Prev, LDC: e + h})
			c.columnSums(c.Out[dScore], k.DVector, b, a)
			c.product(k.DRegions, device.Gemm{M: b * r, N: e, K: a, Beta: 1, A: k.DKeys, B: c.In[attend], LDB: e + h})
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// from is v without its first n elements.
func from(v device.View, n int) device.View { return v.Slice(n, v.N) }
