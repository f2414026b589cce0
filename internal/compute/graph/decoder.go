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
	k := &decoder{b: Dim(regions, 0), r: Dim(regions, 1), e: Dim(regions, 2), w: Dim(x, 1), h: Dim(w.WHH, 1),
		a: Dim(w.Attend, 0)}
	rows := Dim(x, 0)
	wantShape("initial state of a decoder", initial, k.b, k.h)
	wantShape("steps of a decoder", steps, k.b)
	wantShape("attention weight of a decoder", w.Attend, k.a, k.e+k.h)
	wantShape("attention bias of a decoder", w.AttendBias, k.a)
	wantShape("attention score of a decoder", w.Score, 1, k.a)
	wantShape("weight_ih of a decoder", w.WIH, 3*k.h, k.w+k.e)
	wantShape("weight_hh of a decoder", w.WHH, 3*k.h, k.h)
	wantShape("bias_ih of a decoder", w.BIH, 3*k.h)
	wantShape("bias_hh of a decoder", w.BHH, 3*k.h)
	op := &Op{Name: fmt.Sprintf("attention gru %d+%d→%d", k.w, k.e, k.h)}
	k.declare(op, x, regions, initial, steps, w)
	k.drop, k.dropped = g.dropper(rate, purpose), op.dropped(g, rate, numbers)
	k.states = op.result(rows, k.h)
	k.keys, k.gates, k.prev = op.save(k.b*k.r*k.a), op.save(rows*4*k.h), op.save(rows*k.h)
	k.context, k.weights, k.query = op.save(rows*k.e), op.save(rows*k.r), op.save(rows*k.a)
	op.Make = k.forward
	op.Grad = func(n []*Node, _, dy *Node) []*Node {
		b := newDecoderGradient(k, op.backward(n...), rows, dy)
		b.op.Make = b.run
		return g.gradients(b.op)
	}
	return g.apply(op)
}

// decoder executes AttentionGRU. Rows of packed values are the values of one step after the other.
type decoder struct {
	b, r, e, w, h, a int
	drop             device.DropoutParams
	dropped          dropArgs

	x, regions, initial, steps                    int // arguments
	attend, attendBias, score, wih, whh, bih, bhh int
	states                                        int // result
	keys, gates, prev, context, weights, query    int // saved tensors
}

// declare declares the arguments.
func (k *decoder) declare(op *Op, x, regions, initial, steps *Node, w DecoderWeights) {
	k.x, k.regions, k.initial, k.steps = op.arg(x, true), op.arg(regions, true), op.arg(initial, true), op.arg(steps,
		false)
	k.attend, k.attendBias, k.score = op.arg(w.Attend, true), op.arg(w.AttendBias, true), op.arg(w.Score, true)
	k.wih, k.whh, k.bih, k.bhh = op.arg(w.WIH, true), op.arg(w.WHH, true), op.arg(w.BIH, true), op.arg(w.BHH, true)
}

// operands are the views both directions use.
type operands struct {
	x, regions, initial                           device.View
	attend, attendBias, score, wih, whh, bih, bhh device.View
	attendState, wihContext                       device.View // columns of the state in attend, of the context in wih
	keys, gates, prev, context, weights, query    device.View
}

func (k *decoder) operands(c *Call) operands {
	o := operands{x: c.In[k.x], regions: c.In[k.regions], initial: c.In[k.initial], attend: c.In[k.attend],
		attendBias: c.In[k.attendBias], score: c.In[k.score], wih: c.In[k.wih], whh: c.In[k.whh], bih: c.In[k.bih],
		bhh: c.In[k.bhh], keys: c.Saved[k.keys], gates: c.Saved[k.gates], prev: c.Saved[k.prev],
		context: c.Saved[k.context], weights: c.Saved[k.weights], query: c.Saved[k.query]}
	o.attendState, o.wihContext = from(o.attend, k.e), from(o.wih, k.w)
	return o
}

// from is v without its first n elements.
func from(v device.View, n int) device.View { return v.Slice(n, v.N) }

// allSteps are the arguments of all steps that both ways have.
func (k *decoder) allSteps(c *Call, o *operands) device.Decoder {
	a := device.Decoder{R: k.r, H: k.h, A: k.a, E: k.e, Lengths: c.Ints(k.steps), Keys: o.keys, Regions: o.regions,
		Score: o.score, Attend: o.attendState, WHH: o.whh, WIH: o.wihContext, LDAttend: k.e + k.h, LDWIH: k.w + k.e,
		Drop: k.drop, Gates: o.gates, Prev: o.prev, Weights: o.weights,
		Query: o.query, Context: o.context}
	k.dropped.set(c, &a.Drop, a.Lengths.Packing().Rows())
	return a
}

func (k *decoder) forward(c *Call) {
	o, rows, h := k.operands(c), c.Ints(k.steps).Packing().Rows(), k.h
	Do(c, device.Gemm{TransB: true, M: k.b * k.r, N: k.a, K: k.e, Alpha: 1, A: o.regions, B: o.attend, LDB: k.e + h,
		C: o.keys, Bias: o.attendBias})
	Do(c, device.Gemm{TransB: true, M: rows, N: 3 * h, K: k.w, Alpha: 1, A: o.x, B: o.wih, LDB: k.w + k.e, C: o.gates,
		LDC: 4 * h, Bias: o.bih})
	a := k.allSteps(c, &o)
	a.Initial, a.BHH, a.States = o.initial, o.bhh, c.Out[k.states]
	Do(c, a)
}
