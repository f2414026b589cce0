package graph

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// Ops over all pairs of an image and a caption (device/pairs.go). Words are captions one after the other with lengths
// [C] int32, in capacity rows of which the first T = Σ lengths are there; nodes of pairs, the whole caption before its
// words, are [B·(capacity + C), S], of which the first B·(T + C) rows are there.

// PairAttentionOptions are the options of PairAttention.
type PairAttentionOptions struct {
	Lambda    float64 // inverse temperature
	OverWords bool    // regions attend to words, not words to regions
	Even      bool    // the products are even (device.Gemm)
}

// PairAttention computes the attention of the words of every caption to the regions of every image, or with OverWords
// of the regions to the words: from the products of regions [B, R, E] and words [capacity, E], the weights
// [capacity, B·R]. See device.PairAttention.
func (g *Graph) PairAttention(regions, words, lengths *Node, o PairAttentionOptions) *Node {
	b, r, e, capacity := Dim(regions, 0), Dim(regions, 1), Dim(regions, 2), Dim(words, 0)
	wantShape("words of an attention", words, capacity, e)
	if !(o.Lambda > 0 && o.Lambda <= device.MaxLambda) {
		fail("attention with the inverse temperature %v, expected a number above 0 and at most %v", o.Lambda,
			device.MaxLambda)
	}
	op := &Op{Name: fmt.Sprintf("pair attention %d×%d", b, r)}
	v, w, counts := op.arg(regions, true), op.arg(words, true), op.arg(lengths, false)
	weights, products := op.result(capacity, b*r), op.save(capacity*b*r)
	args := func(c *Call) device.PairAttention {
		return device.PairAttention{B: b, R: r, Lambda: o.Lambda, OverWords: o.OverWords, Lengths: c.Ints(counts),
			Scores: c.Saved[products]}
	}
	op.Make = func(c *Call) {
		a := args(c)
		a.Weights = c.Out[weights]
		Do(c, device.Gemm{TransB: true, M: c.rows(counts), N: b * r, K: e, Alpha: 1, A: c.In[w], B: c.In[v],
			C: a.Scores, Even: o.Even})
		Do(c, a)
	}
	op.Grad = func(in []*Node, weightsNode, dyNode *Node) []*Node {
		bw := op.backward(in...)
		weights, dWeights := bw.arg(weightsNode, false), bw.arg(dyNode, false)
		dRegions, dWords, dProducts := bw.gradient(v), bw.gradient(w), bw.scratch(capacity*b*r)
		bw.Make = func(c *Call) {
			a, t := args(c), c.rows(counts)
			a.Weights, a.DWeights, a.DScores = c.In[weights], c.In[dWeights], c.Temp[dProducts]
			DoGrad(c, a)
			c.product(c.Out[dRegions], device.Gemm{TransA: true, M: b * r, N: e, K: t, A: a.DScores, B: c.In[w],
				Even: o.Even})
			c.product(c.Out[dWords], device.Gemm{M: t, N: e, K: b * r, A: a.DScores, B: c.In[v], Even: o.Even})
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// SimilarityInputs are the arguments of Similarities.
type SimilarityInputs struct {
	Regions, Words, Weights *Node // [B, R, E], [capacity, E], and the attention weights [capacity, B·R]
	Images, Captions        *Node // global vectors [B, E], [C, E]
	Lengths                 *Node // [C]
	LocalW, LocalB          *Node // [S, E], [S]: of a word with its attended regions
	GlobalW, GlobalB        *Node // [S, E], [S]: of a caption with an image
}

// similarities is what the ops on similarity vectors share: the sizes, and their operands.
type similarities struct {
	b, r, e, capacity, n, s           int
	regions, words, weights           int // arguments
	images, captions, lengths         int
	localW, localB, globalW, globalB  int
	contexts, localNorms, globalNorms int // saved tensors
	gradients                         [9]func(c *Call) device.View
}

func newSimilarities(x *SimilarityInputs) *similarities {
	l := &similarities{b: Dim(x.Regions, 0), r: Dim(x.Regions, 1), e: Dim(x.Regions, 2), capacity: Dim(x.Words, 0),
		n: Dim(x.Lengths, 0), s: Dim(x.LocalW, 0)}
	wantShape("words of similarities", x.Words, l.capacity, l.e)
	wantShape("attention of similarities", x.Weights, l.capacity, l.b*l.r)
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

// declare declares the arguments and the saved tensors of an op.
func (l *similarities) declare(op *Op, x *SimilarityInputs) {
	l.regions, l.words, l.weights = op.arg(x.Regions, true), op.arg(x.Words, true), op.arg(x.Weights, true)
	l.images, l.captions, l.lengths = op.arg(x.Images, true), op.arg(x.Captions, true), op.arg(x.Lengths, false)
	l.localW, l.localB = op.arg(x.LocalW, true), op.arg(x.LocalB, true)
	l.globalW, l.globalB = op.arg(x.GlobalW, true), op.arg(x.GlobalB, true)
	l.contexts, l.localNorms, l.globalNorms = op.save(l.b*l.capacity), op.save(l.b*l.capacity), op.save(l.b*l.n)
}

// rows is the capacity for the nodes of all pairs.
func (l *similarities) rows() int { return l.b * (l.capacity + l.n) }

// args are the arguments of words and of captions.
func (l *similarities) args(c *Call, nodes device.View) (local, global device.Similarities) {
	local = device.Similarities{B: l.b, R: l.r, E: l.e, S: l.s, Lengths: c.Ints(l.lengths), Images: c.In[l.regions],
		Rows: c.In[l.words], Weights: c.In[l.weights], W: c.In[l.localW], Bias: c.In[l.localB], Nodes: nodes,
		Contexts: c.Saved[l.contexts], Norms: c.Saved[l.localNorms]}
	global = device.Similarities{Global: true, B: l.b, E: l.e, S: l.s, Lengths: c.Ints(l.lengths),
		Images: c.In[l.images], Rows: c.In[l.captions], W: c.In[l.globalW], Bias: c.In[l.globalB], Nodes: nodes,
		Norms: c.Saved[l.globalNorms]}
	return local, global
}

// backward declares the gradients.
func (l *similarities) backward(b *Op) {
	for i, arg := range [...]int{l.regions, l.words, l.weights, l.localW, l.localB, l.images, l.captions, l.globalW,
		l.globalB} {
		l.gradients[i] = b.written(arg)
	}
}

// to sets where the gradients go.
func (l *similarities) to(c *Call, local, global *device.Similarities) {
	for i, v := range [...]*device.View{&local.DImages, &local.DRows, &local.DWeights, &local.DW, &local.DBias,
		&global.DImages, &global.DRows, &global.DW, &global.DBias} {
		*v = l.gradients[i](c)
	}
}

// wants declares the pairs whose nodes are needed as an argument of an op, where the graph has them, and returns what
// gives their view.
func (g *Graph) wants(op *Op) func(c *Call) device.View {
	if g.wanted == nil {
		return func(*Call) device.View { return device.View{} }
	}
	arg := op.arg(g.wanted, false)
	return func(c *Call) device.View { return c.In[arg] }
}

// Similarities computes the nodes of all pairs: the similarity vectors of the image with the caption and with each of
// its words. See device.Similarities.
func (g *Graph) Similarities(x SimilarityInputs) *Node {
	l := newSimilarities(&x)
	op := &Op{Name: fmt.Sprintf("similarities %d→%d", l.e, l.s)}
	l.declare(op, &x)
	nodes, wanted := op.result(l.rows(), l.s), g.wants(op)
	op.Make = func(c *Call) {
		local, global := l.args(c, c.Out[nodes])
		local.Wanted = wanted(c)
		global.Wanted = local.Wanted
		Do(c, local)
		Do(c, global)
	}
	op.Grad = func(in []*Node, nodesNode, dyNode *Node) []*Node {
		bw, l := op.backward(in...), *l
		nodes, dNodes := bw.arg(nodesNode, false), bw.arg(dyNode, false)
		l.backward(bw)
		bw.Make = func(c *Call) {
			local, global := l.args(c, c.In[nodes])
			l.to(c, &local, &global)
			local.DNodes, global.DNodes = c.In[dNodes], c.In[dNodes]
			DoGrad(c, local)
			DoGrad(c, global)
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// ReasonWeights are the parameters of a step of graph reasoning: linear layers S → S.
type ReasonWeights struct {
	Query, QueryBias *Node
	Key, KeyBias     *Node
	Out, OutBias     *Node
}

// GraphReason does a step of reasoning on the nodes X [B·(capacity + C), S] of every pair of b images and captions with
// lengths [C]:
//
//	ReLU(Out softmax(Q Kᵀ) X + OutBias)    Q = Query X + QueryBias    K = Key X + KeyBias
//
// first computes node 0 of every pair alone: [B·C, S]. softmax runs along rows, in which Q Kᵀ = X (Queryᵀ Key) Xᵀ + 1
// (Keyᵀ QueryBias)ᵀ Xᵀ + terms that are constant and cancel. So one product with M = Queryᵀ Key replaces two, and
// KeyBias has the gradient 0.
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
	op := &Op{Name: fmt.Sprintf("graph reasoning %d, first %v", s, first)}
	nodes, counts := op.arg(x, true), op.arg(lengths, false)
	query, queryBias := op.arg(w.Query, true), op.arg(w.QueryBias, true)
	key, keyBias := op.arg(w.Key, true), op.arg(w.KeyBias, true)
	last, lastBias := op.arg(w.Out, true), op.arg(w.OutBias, true)
	m, v, y := op.save(s*s), op.save(s), -1
	asked := rows
	if first {
		asked = b * n
	} else if g.Training {
		y = op.save(rows * s)
	}
	out, wanted := op.result(asked, s), g.wants(op)
	args := func(c *Call) device.GraphReason {
		a := device.GraphReason{B: b, S: s, First: first, X: c.In[nodes], Lengths: c.Ints(counts), W: c.In[last],
			Bias: c.In[lastBias], M: c.Saved[m], V: c.Saved[v]}
		if y >= 0 {
			a.Y, a.Operand = c.Saved[y], true
		}
		return a
	}
	op.Make = func(c *Call) {
		a := args(c)
		Do(c, device.Gemm{TransA: true, M: s, N: s, K: s, Alpha: 1, A: c.In[query], B: c.In[key], C: a.M,
			Exact: true})
		Do(c, device.Gemm{M: 1, N: s, K: s, Alpha: 1, A: c.In[queryBias], B: c.In[key], C: a.V, Exact: true})
		a.Out, a.Wanted = c.Out[out], wanted(c)
		Do(c, a)
	}
	op.Grad = func(in []*Node, outNode, dyNode *Node) []*Node {
		bw := op.backward(in...)
		out, dy := bw.arg(outNode, false), bw.arg(dyNode, false)
		dX, dQuery, dQueryBias := bw.gradient(nodes), bw.written(query), bw.written(queryBias)
		dKey, dKeyBias := bw.written(key), bw.gradient(keyBias)
		dLast, dLastBias := bw.written(last), bw.written(lastBias)
		dM, dV := bw.scratch(s*s), bw.scratch(s)
		bw.Make = func(c *Call) {
			a := args(c)
			a.Out, a.DOut, a.DX, a.DM, a.DV = c.In[out], c.In[dy], c.Out[dX], c.Temp[dM], c.Temp[dV]
			a.DW, a.DBias = dLast(c), dLastBias(c)
			DoGrad(c, a)
			query, key, dKey := c.In[query], c.In[key], dKey(c)
			c.product(dQuery(c), device.Gemm{TransB: true, M: s, N: s, K: s, A: key, B: a.DM, Exact: true})
			c.product(dQueryBias(c), device.Gemm{TransB: true, M: 1, N: s, K: s, A: a.DV, B: key, Exact: true})
			c.product(dKey, device.Gemm{M: s, N: s, K: s, A: query, B: a.DM, Exact: true})
			c.product(dKey, device.Gemm{M: s, N: s, K: 1, Beta: 1, A: c.In[queryBias], B: a.DV, Exact: true})
			if c.Out[dKeyBias].Present() {
				Do(c, device.Fill{Dst: c.Out[dKeyBias]})
			}
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}
