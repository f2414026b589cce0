package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/device"
)

// Ops over all pairs of an image and a caption (device.Pairs). Words are captions one after the other with lengths [C] int32, in room
// rows of which the first T = Σ lengths are there; nodes of pairs, the whole caption before its words, are [B·(room + C), S], of
// which the first B·(T + C) rows are there.

// PairAttentionOptions are those of PairAttention.
type PairAttentionOptions struct {
	Lambda    float64 // inverse temperature
	OverWords bool    // regions attend to words, not words to regions
	Even      bool    // the products are even (device.GemmArgs)
}

// PairAttention computes the attention of the words of every caption to the regions of every image, or with OverWords of
// the regions to the words: from the products of regions [B, R, E] and words [room, E], the weights [room, B·R]. See
// device.PairAttentionArgs.
func (g *Graph) PairAttention(regions, words, lengths *Node, o PairAttentionOptions) *Node {
	b, r, e, room := Dim(regions, 0), Dim(regions, 1), Dim(regions, 2), Dim(words, 0)
	wantShape("words of an attention", words, room, e)
	if !(o.Lambda > 0 && o.Lambda <= device.MaxLambda) {
		fail("attention with the inverse temperature %v, expected a number above 0 and at most %v", o.Lambda, device.MaxLambda)
	}
	a := device.PairAttentionArgs{B: b, R: r, Lambda: o.Lambda, OverWords: o.OverWords}
	op := &Op{Name: fmt.Sprintf("pair attention %d×%d", b, r), Outs: []tensor.Shape{{room, b * r}}, Wants: []bool{true, true, false},
		Keep: []Slot{{DType: device.Float, N: room * b * r}}}
	op.Run = func(d device.Device, c *Call) {
		a := a
		a.Lengths, a.Scores, a.Weights = c.Ints(2), c.Keep[0], c.Out[0]
		d.Gemm(device.GemmArgs{TransB: true, M: total(c.Host[2]), N: b * r, K: e, Alpha: 1, A: c.In[1], B: c.In[0], C: a.Scores,
			Even: o.Even})
		d.PairAttention(a)
	}
	op.Grad = func(in []*Node, weights, dw *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Forward: op, Outs: []tensor.Shape{{b, r, e}, {room, e}}, Temp: []int{room * b * r}}
		bw.Run = func(d device.Device, c *Call) {
			a := a
			a.Lengths, a.Scores, a.Weights, a.DWeights, a.DScores = c.Ints(2), c.Keep[0], c.In[3], c.In[4], c.Temp[0]
			d.PairAttentionGrad(a)
			t := total(c.Host[2])
			if c.Out[0].Present() {
				d.Gemm(device.GemmArgs{TransA: true, M: b * r, N: e, K: t, Alpha: 1, A: a.DScores, B: c.In[1], C: c.Out[0],
					Even: o.Even})
			}
			if c.Out[1].Present() {
				d.Gemm(device.GemmArgs{M: t, N: e, K: b * r, Alpha: 1, A: a.DScores, B: c.In[0], C: c.Out[1], Even: o.Even})
			}
		}
		out := g.ApplyMulti(bw, in[0], in[1], in[2], weights, dw)
		return []*Node{out[0], out[1], nil}
	}
	return g.Apply(op, regions, words, lengths)
}

// SimilarityInputs are the arguments of Similarities.
type SimilarityInputs struct {
	Regions, Words, Weights *Node // [B, R, E], [room, E], and the attention weights [room, B·R]
	Images, Captions        *Node // global vectors [B, E], [C, E]
	Lengths                 *Node // [C]
	LocalW, LocalB          *Node // [S, E], [S]: of a word with its attended regions
	GlobalW, GlobalB        *Node // [S, E], [S]: of a caption with an image
}

// similarities is what the ops on similarity vectors share: the sizes, and where their arguments are among those of a call.
type similarities struct{ b, r, e, room, n, s int }

func (x *SimilarityInputs) nodes() []*Node {
	return []*Node{x.Regions, x.Words, x.Weights, x.Images, x.Captions, x.Lengths, x.LocalW, x.LocalB, x.GlobalW, x.GlobalB}
}

// similarityWants says which of them have a gradient.
var similarityWants = []bool{true, true, true, true, true, false, true, true, true, true}

func newSimilarities(x *SimilarityInputs) *similarities {
	l := &similarities{Dim(x.Regions, 0), Dim(x.Regions, 1), Dim(x.Regions, 2), Dim(x.Words, 0), Dim(x.Lengths, 0), Dim(x.LocalW, 0)}
	wantShape("words of similarities", x.Words, l.room, l.e)
	wantShape("attention of similarities", x.Weights, l.room, l.b*l.r)
	wantShape("images of similarities", x.Images, l.b, l.e)
	wantShape("captions of similarities", x.Captions, l.n, l.e)
	for _, w := range []*Node{x.LocalW, x.GlobalW} {
		wantShape("weight of similarities", w, l.s, l.e)
	}
	for _, w := range []*Node{x.LocalB, x.GlobalB} {
		wantShape("bias of similarities", w, l.s)
	}
	return l
}

// rows is the room for the nodes of all pairs.
func (l *similarities) rows() int { return l.b * (l.room + l.n) }

// keep are the norms.
func (l *similarities) keep() []Slot { return floatSlots(l.b*l.room, l.b*l.room, l.b*l.n) }

func floatSlots(sizes ...int) (s []Slot) {
	for _, n := range sizes {
		s = append(s, Slot{DType: device.Float, N: n})
	}
	return s
}

// args are those of words and of captions.
func (l *similarities) args(c *Call, nodes device.View) (local, global device.SimilarityArgs) {
	local = device.SimilarityArgs{B: l.b, R: l.r, E: l.e, S: l.s, Lengths: c.Ints(5), Images: c.In[0], Rows: c.In[1], Weights: c.In[2],
		W: c.In[6], Bias: c.In[7], Nodes: nodes, Contexts: c.Keep[0], Norms: c.Keep[1]}
	global = device.SimilarityArgs{Global: true, B: l.b, E: l.e, S: l.s, Lengths: c.Ints(5), Images: c.In[3], Rows: c.In[4],
		W: c.In[8], Bias: c.In[9], Nodes: nodes, Norms: c.Keep[2]}
	return local, global
}

// grads are the shapes of the gradients.
func (l *similarities) grads() []tensor.Shape {
	return []tensor.Shape{{l.b, l.r, l.e}, {l.room, l.e}, {l.room, l.b * l.r}, {l.b, l.e}, {l.n, l.e}, {l.s, l.e}, {l.s}, {l.s, l.e}, {l.s}}
}

// to sets where the gradients go.
func (l *similarities) to(c *Call, local, global *device.SimilarityArgs) {
	out := func(i int) device.View { return or(c.Out[i], c.Temp[i]) }
	local.DImages, local.DRows, local.DWeights, local.DW, local.DBias = out(0), out(1), out(2), out(5), out(6)
	global.DImages, global.DRows, global.DW, global.DBias = out(3), out(4), out(7), out(8)
}

// sizes are the numbers of values of shapes.
func sizes(shapes []tensor.Shape) (n []int) {
	for _, s := range shapes {
		n = append(n, s.TotalSize())
	}
	return n
}

// Similarities computes the nodes of all pairs: the similarity vectors of the image with the caption and with each of its words. See
// device.SimilarityArgs.
func (g *Graph) Similarities(x SimilarityInputs) *Node {
	l := newSimilarities(&x)
	op := &Op{Name: fmt.Sprintf("similarities %d→%d", l.e, l.s), Outs: []tensor.Shape{{l.rows(), l.s}}, Wants: similarityWants, Keep: l.keep()}
	op.Run = func(d device.Device, c *Call) {
		local, global := l.args(c, c.Out[0])
		d.Similarities(local)
		d.Similarities(global)
	}
	op.Grad = func(in []*Node, nodes, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Forward: op, Outs: l.grads(), Temp: sizes(l.grads())}
		bw.Run = func(d device.Device, c *Call) {
			local, global := l.args(c, c.In[10])
			l.to(c, &local, &global)
			local.DNodes, global.DNodes = c.In[11], c.In[11]
			d.SimilaritiesGrad(local)
			d.SimilaritiesGrad(global)
		}
		o := g.ApplyMulti(bw, append(append([]*Node(nil), in...), nodes, dy)...)
		return []*Node{o[0], o[1], o[2], o[3], o[4], nil, o[5], o[6], o[7], o[8]}
	}
	return g.Apply(op, x.nodes()...)
}

// ReasonWeights are the parameters of a step of graph reasoning: linear layers S → S.
type ReasonWeights struct {
	Query, QueryBias *Node
	Key, KeyBias     *Node
	Out, OutBias     *Node
}

// GraphReason does a step of reasoning on the nodes X [B·(room + C), S] of every pair of b images and captions with lengths [C]:
//
//	ReLU(Out softmax(Q Kᵀ) X + OutBias)    Q = Query X + QueryBias    K = Key X + KeyBias
//
// first asks for node 0 of every pair alone: [B·C, S]. softmax runs along rows, in which Q Kᵀ = X (Queryᵀ Key) Xᵀ + 1 (Keyᵀ QueryBias)ᵀ Xᵀ + terms
// that are constant and cancel. So one product with M = Queryᵀ Key takes the place of two, and KeyBias has the gradient 0.
func (g *Graph) GraphReason(x, lengths *Node, b int, first bool, w ReasonWeights) *Node {
	rows, s, n := Dim(x, 0), Dim(x, 1), Dim(lengths, 0)
	for _, m := range []*Node{w.Query, w.Key, w.Out} {
		wantShape("weight of graph reasoning", m, s, s)
	}
	for _, m := range []*Node{w.QueryBias, w.KeyBias, w.OutBias} {
		wantShape("bias of graph reasoning", m, s)
	}
	if b < 1 || rows%b != 0 || rows/b < n {
		fail("graph reasoning on %d nodes of %d images and %d captions", rows, b, n)
	}
	a := device.ReasonArgs{B: b, S: s, First: first}
	keep := func(n int) Slot { return Slot{DType: device.Float, N: n} }
	op := &Op{Name: fmt.Sprintf("graph reasoning %d, first %v", s, first), Outs: []tensor.Shape{{rows, s}}, Keep: []Slot{keep(s * s), keep(s)},
		Wants: []bool{true, false, true, true, true, true, true, true}}
	if first {
		op.Outs[0] = tensor.Shape{b * n, s}
	} else if g.Training {
		op.Keep = append(op.Keep, keep(rows*s))
	}
	args := func(c *Call) device.ReasonArgs {
		a := a
		a.X, a.Lengths, a.W, a.Bias, a.M, a.V = c.In[0], c.Ints(1), c.In[6], c.In[7], c.Keep[0], c.Keep[1]
		if len(c.Keep) > 2 {
			a.Y = c.Keep[2]
		}
		return a
	}
	op.Run = func(d device.Device, c *Call) {
		a := args(c)
		d.Gemm(device.GemmArgs{TransA: true, M: s, N: s, K: s, Alpha: 1, A: c.In[2], B: c.In[4], C: a.M, Exact: true})
		d.Gemm(device.GemmArgs{M: 1, N: s, K: s, Alpha: 1, A: c.In[3], B: c.In[4], C: a.V, Exact: true})
		a.Out = c.Out[0]
		d.GraphReason(a)
	}
	op.Grad = func(in []*Node, out, dy *Node) []*Node {
		w := tensor.Shape{s, s}
		bw := &Op{Name: op.Name + " gradient", Forward: op, Outs: []tensor.Shape{{rows, s}, w, {s}, w, {s}, w, {s}}, Temp: []int{s * s, s}}
		for _, o := range bw.Outs {
			bw.Temp = append(bw.Temp, o.TotalSize())
		}
		bw.Temp[2] = 1 // dX is always wanted
		bw.Run = func(d device.Device, c *Call) {
			a := args(c)
			query, queryBias, key := c.In[2], c.In[3], c.In[4]
			a.Out, a.DOut, a.DX, a.DM, a.DV = c.In[8], c.In[9], c.Out[0], c.Temp[0], c.Temp[1]
			a.DW, a.DBias = or(c.Out[5], c.Temp[7]), or(c.Out[6], c.Temp[8])
			d.GraphReasonGrad(a)
			dQuery, dQueryBias, dKey := or(c.Out[1], c.Temp[3]), or(c.Out[2], c.Temp[4]), or(c.Out[3], c.Temp[5])
			d.Gemm(device.GemmArgs{TransB: true, M: s, N: s, K: s, Alpha: 1, A: key, B: a.DM, C: dQuery, Exact: true})
			d.Gemm(device.GemmArgs{TransB: true, M: 1, N: s, K: s, Alpha: 1, A: a.DV, B: key, C: dQueryBias, Exact: true})
			d.Gemm(device.GemmArgs{M: s, N: s, K: s, Alpha: 1, A: query, B: a.DM, C: dKey, Exact: true})
			d.Gemm(device.GemmArgs{M: s, N: s, K: 1, Alpha: 1, Beta: 1, A: queryBias, B: a.DV, C: dKey, Exact: true})
			if c.Out[4].Present() {
				d.Fill(c.Out[4], 0)
			}
		}
		o := g.ApplyMulti(bw, append(append([]*Node(nil), in...), out, dy)...)
		return []*Node{o[0], nil, o[1], o[2], o[3], o[4], o[5], o[6]}
	}
	return g.Apply(op, x, lengths, w.Query, w.QueryBias, w.Key, w.KeyBias, w.Out, w.OutBias)
}
