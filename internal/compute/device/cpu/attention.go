package cpu

import (
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// Additive attention (device.AdditiveAttention; VSRN, misc/DecoderRNN.py and misc/Attention.py), one sequence per
// index:
//
//	a_r = tanh(K_r + q)    e_r = v·a_r    α = softmax e    c = Σ_r α_r V_r
//
// and back, with a_r computed again:
//
//	dα_r = dc·V_r    de_r = α_r·(dα_r - Σ_s α_s dα_s)    dq = Σ_r dK_r, dK_r = de_r·v∘(1 - a_r²)
type attentionLoop[T vec.Float] struct {
	ops                         *vec.Ops[T]
	a                           device.AdditiveAttention
	keys, query, vector, values []T
	weights, context            []T
	dContext, dQuery            []T
	dKeys, dValues, dVector     []T
	scratch                     []T       // [workers, 2, H]
	scores                      []float64 // [workers, R]
}

func (d *dev[T]) AdditiveAttention(a device.AdditiveAttention) {
	l := &d.attention
	*l = attentionLoop[T]{ops: d.ops, a: a, scratch: l.scratch, scores: l.scores, keys: d.values(a.Keys),
		query: d.values(a.Query), vector: d.values(a.Vector), values: d.values(a.Values), weights: d.values(a.Weights),
		context: d.values(a.Context), dContext: d.values(a.DContext), dQuery: d.values(a.DQuery),
		dKeys: d.values(a.DKeys), dValues: d.values(a.DValues), dVector: d.values(a.DVector)}
	scratch(&l.scratch, d.pool.Threads()*2*a.H)
	reserve(&l.scores, d.pool.Threads()*a.R)
	d.pool.For(a.B, l)
}

func (d *dev[T]) AdditiveAttentionGrad(a device.AdditiveAttention) { d.AdditiveAttention(a) }

func (l *attentionLoop[T]) Do(worker, b int) {
	scores := l.scores[worker*l.a.R:][:l.a.R]
	act, slope := l.scratch[worker*2*l.a.H:][:l.a.H], l.scratch[(worker*2+1)*l.a.H:][:l.a.H]
	if l.a.Grad {
		l.gradient(b, scores, act, slope)
	} else {
		l.forward(b, scores, act)
	}
}

func (l *attentionLoop[T]) forward(b int, scores []float64, act []T) {
	n, h, e := l.a.R, l.a.H, l.a.E
	query, weights := l.query[b*h:(b+1)*h], l.weights[b*n:(b+1)*n]
	top := math.Inf(-1)
	for r := range n {
		l.ops.Add(act, l.keys[(b*n+r)*h:][:h], query)
		l.ops.Map[vec.Tanh](act, act)
		scores[r] = l.ops.Dot(act, l.vector)
		top = max(top, scores[r])
	}
	var sum float64
	for r, s := range scores {
		scores[r] = math.Exp(s - top)
		sum += scores[r]
	}
	context := l.context[b*e : (b+1)*e]
	l.ops.Fill(context, 0)
	for r, s := range scores {
		weights[r] = T(s / sum)
		l.ops.Axpy(context, l.values[(b*n+r)*e:][:e], weights[r])
	}
}

func (l *attentionLoop[T]) gradient(b int, scores []float64, act, slope []T) {
	n, h, e := l.a.R, l.a.H, l.a.E
	query, dQuery := l.query[b*h:(b+1)*h], l.dQuery[b*h:(b+1)*h]
	weights, dContext := l.weights[b*n:(b+1)*n], l.dContext[b*e:(b+1)*e]
	var mean float64
	for r, w := range weights {
		scores[r] = l.ops.Dot(dContext, l.values[(b*n+r)*e:][:e])
		mean += float64(w) * scores[r]
		l.ops.Axpy(l.dValues[(b*n+r)*e:][:e], dContext, w)
	}
	l.ops.Fill(dQuery, 0)
	for r, w := range weights {
		de := T(float64(w) * (scores[r] - mean))
		l.ops.Add(act, l.keys[(b*n+r)*h:][:h], query)
		l.ops.Map[vec.Tanh](act, act)
		l.ops.Axpy(l.dVector[b*h:(b+1)*h], act, de)
		l.ops.Scale(slope, l.vector, de)
		l.ops.Slope[vec.Tanh](slope, act, slope)
		l.ops.Add(dQuery, dQuery, slope)
		dKey := l.dKeys[(b*n+r)*h:][:h]
		l.ops.Add(dKey, dKey, slope)
	}
}
