package graph

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// FilterWeights are the parameters of a filtration: the layer [1, S], [1] that gives the logits, and the batch norm of
// one channel after it.
type FilterWeights struct {
	Weight, Bias *Node
	Norm         BatchNormWeights
}

// Filtrate sums the similarity vectors of every pair (see Similarities) with attention weights: [B·C, S]. See
// device.Filter and device.Filtrate. It is one op with the similarities, so that the gradient of the vectors, for most
// vectors a number times one row, need not be stored.
func (g *Graph) Filtrate(x SimilarityInputs, f FilterWeights) *Node {
	l := newSimilarities(&x)
	b, s, n, rows, pairs := l.b, l.s, l.n, l.rows(), l.b*l.n
	wantShape("weight of a filtration", f.Weight, 1, s)
	for _, m := range []*Node{f.Bias, f.Norm.Weight, f.Norm.Bias, f.Norm.Mean, f.Norm.Var} {
		wantShape("scalar of a filtration", m, 1)
	}
	momentum := batchNormMomentum
	if g.Again {
		momentum = 0
	}
	op := &Op{Name: fmt.Sprintf("filtration of similarities %d→%d, training %v", l.e, s, g.Training),
		Collective: g.Training}
	l.declare(op, &x)
	weight, bias := op.arg(f.Weight, true), op.arg(f.Bias, true)
	gamma, beta := op.arg(f.Norm.Weight, true), op.arg(f.Norm.Bias, true)
	runningMean, runningVar := op.arg(f.Norm.Mean, false), op.arg(f.Norm.Var, false)
	nodes, logits, weights := op.save(rows*s), op.save(rows), op.save(rows)
	mean, inv, norms := op.save(n), op.save(n), op.save(pairs)
	out := op.result(pairs, s)
	args := func(l *similarities, c *Call) (local, global device.Similarities, a device.Filtrate) {
		local, global = l.args(c, c.Saved[nodes])
		a = device.Filtrate{B: b, S: s, Train: g.Training, Eps: BatchNormEps, Momentum: momentum,
			Lengths: c.Ints(l.lengths), X: c.Saved[nodes], Logits: c.Saved[logits], Gamma: c.In[gamma],
			Beta: c.In[beta], RunningMean: c.In[runningMean], RunningVar: c.In[runningVar], Weights: c.Saved[weights],
			Mean: c.Saved[mean], InvStd: c.Saved[inv], Norms: c.Saved[norms]}
		local.Filter = device.Filter{W: c.In[weight], Bias: c.In[bias], Logits: a.Logits}
		global.Filter = local.Filter
		return local, global, a
	}
	differentiated := false
	op.Make = func(c *Call) {
		local, global, a := args(l, c)
		a.Out = c.Out[out]
		if !a.Train && !differentiated {
			Do(c, device.FiltrateSimilarities{Words: local, Captions: global, Filtrate: a})
			return
		}
		Do(c, local)
		Do(c, global)
		Do(c, a)
	}
	op.Grad = func(in []*Node, outNode, dyNode *Node) []*Node {
		differentiated = true
		bw, l := op.backward(in...), *l
		out, dy := bw.arg(outNode, false), bw.arg(dyNode, false)
		l.backward(bw)
		dWeight, dBias, dGamma, dBeta := bw.written(weight), bw.written(bias), bw.written(gamma), bw.written(beta)
		dSums, dLogits, globalDW := bw.scratch(pairs*s), bw.scratch(rows), bw.scratch(s)
		bw.Make = func(c *Call) {
			local, global, a := args(&l, c)
			a.Out, a.DOut, a.DSums, a.DLogits = c.In[out], c.In[dy], c.Temp[dSums], c.Temp[dLogits]
			a.DBias, a.DGamma, a.DBeta = dBias(c), dGamma(c), dBeta(c)
			DoGrad(c, a)
			l.to(c, &local, &global)
			dW := dWeight(c)
			local.Filter.Weights, local.Filter.DSums, local.Filter.DLogits = a.Weights, a.DSums, a.DLogits
			global.Filter = local.Filter
			local.Filter.DW, global.Filter.DW = dW, c.Temp[globalDW]
			DoGrad(c, local)
			DoGrad(c, global)
			Do(c, device.Add{Dst: dW, A: dW, B: global.Filter.DW})
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}
