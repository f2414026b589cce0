package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/device"
)

// DecoderWeights are the parameters of a GRU that attends to regions before every step: of features E, of words W, its states H,
// its attention A.
type DecoderWeights struct {
	Attend, AttendBias *Node // [A, E+H], [A]: of a region beside the state
	Score              *Node // [1, A]
	WIH, WHH           *Node // [3H, W+E], [3H, H], gates stacked r, z, n: of a word beside the context
	BIH, BHH           *Node // [3H]
}

// AttentionGRU is the decoder of VSRN's captioning branch (Venugopalan et al.: "Sequence to Sequence - Video to Text", ICCV 2015,
// with attention; VSRN, misc/DecoderRNN.py, misc/Attention.py): from the state h_0 = initial_b [B, H], for the words x_t of
// every sequence,
//
//	e_r = Score tanh(Attend [regions_r ; h_t-1] + AttendBias)    c = Σ_r softmax(e)_r regions_r
//	h_t = GRU([x_t ; drop(c)], h_t-1)
//
// x [B·S, W] and the result, the states h_1 h_2 … [B·S, H], are packed by steps [B], which is in descending order; regions are
// [B, R, E]. The part of Attend that sees the regions is applied once, not at each step, and the part of WIH that sees the
// words to all of them at once: no operand is ever concatenated. Dropout is that of Graph.Dropout, or with places not nil that of Graph.DropoutPadded with
// these lengths.
func (g *Graph) AttentionGRU(x, regions, initial, steps, places *Node, w DecoderWeights, rate float64, purpose string) *Node {
	k := &decoder{b: Dim(regions, 0), r: Dim(regions, 1), e: Dim(regions, 2), w: Dim(x, 1), h: Dim(w.WHH, 1), a: Dim(w.Attend, 0)}
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
	in := []*Node{x, regions, initial, steps, w.Attend, w.AttendBias, w.Score, w.WIH, w.WHH, w.BIH, w.BHH}
	wants := []bool{true, true, true, false, true, true, true, true, true, true, true}
	if g.Training && rate > 0 {
		k.drop = g.dropper(purpose, rate)
		in, wants = append(in, g.InputInts(InputStep, 2)), append(wants, false)
		if places != nil {
			in, wants, k.padded = append(in, places), append(wants, false), true
		}
	}
	floats := func(n int) Slot { return Slot{DType: device.Float, N: n} }
	op := &Op{Name: fmt.Sprintf("attention gru %d+%d→%d", k.w, k.e, k.h), Outs: []tensor.Shape{{rows, k.h}}, Wants: wants,
		Keep: []Slot{floats(k.b * k.r * k.a), floats(rows * 4 * k.h), floats(rows * k.h), floats(rows * k.e), floats(rows * k.r), floats(rows * k.a)},
		Temp: []int{k.b * 3 * k.h}, Run: k.forward}
	op.Grad = func(n []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Forward: op, Outs: []tensor.Shape{{rows, k.w}, {k.b, k.r, k.e}, {k.b, k.h},
			{k.a, k.e + k.h}, {k.a}, {1, k.a}, {3 * k.h, k.w + k.e}, {3 * k.h, k.h}, {3 * k.h}, {3 * k.h}},
			Temp: []int{k.b * k.h, rows * k.a, k.b * k.r * k.a, k.b * k.a, k.b * k.e, 4 * k.h}, Run: k.backward}
		out := g.ApplyMulti(bw, append(append([]*Node(nil), n...), dy)...)
		grads := make([]*Node, len(n))
		copy(grads, out[:3])
		copy(grads[4:], out[3:])
		return grads
	}
	return g.Apply(op, in...)
}

// decoder executes AttentionGRU. Rows of packed values are those of one step after the other.
type decoder struct {
	b, r, e, w, h, a int
	drop             device.DropoutArgs // rate 0 where nothing is dropped
	padded           bool               // see Graph.DropoutPadded
	pack             *device.Packing    // of the call
}

// operands are the views both directions use.
type operands struct {
	x, regions, initial                           device.View
	attend, attendBias, score, wih, whh, bih, bhh device.View
	attendState, wihContext                       device.View // columns of the state in attend, of the context in wih
	keys, gates, prev, context, weights, query    device.View
}

func (k *decoder) operands(c *Call) operands {
	o := operands{x: c.In[0], regions: c.In[1], initial: c.In[2], attend: c.In[4], attendBias: c.In[5], score: c.In[6], wih: c.In[7],
		whh: c.In[8], bih: c.In[9], bhh: c.In[10], keys: c.Keep[0], gates: c.Keep[1], prev: c.Keep[2], context: c.Keep[3],
		weights: c.Keep[4], query: c.Keep[5]}
	o.attendState, o.wihContext = from(o.attend, k.e), from(o.wih, k.w)
	return o
}

// from is v without its first n elements, part the rows [start, start+n) of width elements.
func from(v device.View, n int) device.View { return v.Slice(n, v.N) }
func part(v device.View, start, n, width int) device.View {
	return v.Slice(start*width, (start+n)*width)
}

// dropped applies dropout to the contexts of the rows from start.
func (k *decoder) dropped(d device.Device, c *Call, v device.View, start int) {
	if k.drop.Rate == 0 {
		return
	}
	a := k.drop
	a.X, a.Y, a.Step = v, v, c.Ints(11)
	if k.padded { // every step has all rows
		d.(device.Recorder).DropoutPadded(a, c.Ints(12), k.e, start/k.b)
		return
	}
	a.First = start * k.e
	d.Dropout(a)
}

func (k *decoder) attention(o *operands, start, n int) device.AttentionArgs {
	return device.AttentionArgs{B: n, R: k.r, H: k.a, E: k.e, Keys: o.keys, Query: part(o.query, start, n, k.a), Vector: o.score,
		Values: o.regions, Weights: part(o.weights, start, n, k.r)}
}

func (k *decoder) forward(d device.Device, c *Call) {
	o, hidden, states := k.operands(c), c.Temp[0], c.Out[0]
	k.pack = c.Ints(3).Packing()
	h, in := k.h, k.w+k.e
	d.Gemm(device.GemmArgs{TransB: true, M: k.b * k.r, N: k.a, K: k.e, Alpha: 1, A: o.regions, B: o.attend, LDB: k.e + h, C: o.keys, Bias: o.attendBias})
	d.Gemm(device.GemmArgs{TransB: true, M: k.pack.Rows(), N: 3 * h, K: k.w, Alpha: 1, A: o.x, B: o.wih, LDB: in, C: o.gates, LDC: 4 * h, Bias: o.bih})
	before := o.initial
	for t := range k.pack.Steps() {
		n, start := k.pack.Active(t), k.pack.Start(t)
		a := k.attention(&o, start, n)
		a.Context = part(o.context, start, n, k.e)
		gates, now := part(o.gates, start, n, 4*h), part(states, start, n, h)
		d.Gemm(device.GemmArgs{TransB: true, M: n, N: k.a, K: h, Alpha: 1, A: before, B: o.attendState, LDB: k.e + h, C: a.Query})
		d.AdditiveAttention(a)
		k.dropped(d, c, a.Context, start)
		d.Gemm(device.GemmArgs{TransB: true, M: n, N: 3 * h, K: k.e, Alpha: 1, Beta: 1, A: a.Context, B: o.wihContext, LDB: in, C: gates, LDC: 4 * h})
		d.Gemm(device.GemmArgs{TransB: true, M: n, N: 3 * h, K: h, Alpha: 1, A: before, B: o.whh, C: hidden, Bias: o.bhh})
		d.GRUCell(device.GRUCellArgs{N: n, H: h, Gates: gates, Hidden: hidden, Before: before, Y: now, Prev: part(o.prev, start, n, h)})
		before = now
	}
}
