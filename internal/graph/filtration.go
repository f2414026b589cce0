package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/device"
)

// FilterWeights are the parameters of a filtration: the layer [1, S], [1] that gives the logits, and the batch norm of one channel behind it.
type FilterWeights struct {
	Weight, Bias *Node
	Norm         BatchNormWeights
}

// Filtrate sums the similarity vectors of every pair (see Similarities) with attention weights: [B·C, S]. See device.Filter and
// device.FilterArgs. It is one op with the similarities, so that the gradient of the vectors, nearly all of it a number for each times one row, is
// nowhere written out.
func (g *Graph) Filtrate(x SimilarityInputs, f FilterWeights) *Node {
	l := newSimilarities(&x)
	b, s, n, rows, pairs := l.b, l.s, l.n, l.rows(), l.b*l.n
	wantShape("weight of a filtration", f.Weight, 1, s)
	for _, m := range []*Node{f.Bias, f.Norm.Weight, f.Norm.Bias, f.Norm.Mean, f.Norm.Var} {
		wantShape("scalar of a filtration", m, 1)
	}
	op := &Op{Name: fmt.Sprintf("filtration of similarities %d→%d, training %v", l.e, s, g.Training), Outs: []tensor.Shape{{pairs, s}},
		Wants: append(append([]bool(nil), similarityWants...), true, true, true, true, false, false),
		Keep:  append(l.keep(), floatSlots(rows*s, rows, rows, n, n, pairs)...)}
	args := func(c *Call) (local, global device.SimilarityArgs, a device.FilterArgs) {
		local, global = l.args(c, c.Keep[3])
		a = device.FilterArgs{B: b, S: s, Train: g.Training, Eps: batchNormEps, Momentum: batchNormMomentum, Lengths: c.Ints(5), X: c.Keep[3], Logits: c.Keep[4],
			Gamma: c.In[12], Beta: c.In[13], RunningMean: c.In[14], RunningVar: c.In[15], Weights: c.Keep[5], Mean: c.Keep[6], InvStd: c.Keep[7], Norms: c.Keep[8]}
		local.Filter = device.Filter{W: c.In[10], Bias: c.In[11], Logits: a.Logits}
		global.Filter = local.Filter
		return local, global, a
	}
	op.Run = func(d device.Device, c *Call) {
		local, global, a := args(c)
		a.Out = c.Out[0]
		d.Similarities(local)
		d.Similarities(global)
		d.Filtrate(a)
	}
	op.Grad = func(in []*Node, out, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Forward: op, Outs: append(l.grads(), tensor.Shape{1, s}, tensor.Shape{1}, tensor.Shape{1}, tensor.Shape{1})}
		bw.Temp = append(sizes(bw.Outs), pairs*s, rows, s)
		bw.Run = func(d device.Device, c *Call) {
			local, global, a := args(c)
			a.Out, a.DOut, a.DSums, a.DLogits = c.In[16], c.In[17], c.Temp[13], c.Temp[14]
			a.DBias, a.DGamma, a.DBeta = or(c.Out[10], c.Temp[10]), or(c.Out[11], c.Temp[11]), or(c.Out[12], c.Temp[12])
			d.FiltrateGrad(a)
			l.to(c, &local, &global)
			dW := or(c.Out[9], c.Temp[9])
			local.Filter.Weights, local.Filter.DSums, local.Filter.DLogits = a.Weights, a.DSums, a.DLogits
			global.Filter = local.Filter
			local.Filter.DW, global.Filter.DW = dW, c.Temp[15]
			d.SimilaritiesGrad(local)
			d.SimilaritiesGrad(global)
			d.Add(dW, dW, global.Filter.DW)
		}
		o := g.ApplyMulti(bw, append(append([]*Node(nil), in...), out, dy)...)
		return []*Node{o[0], o[1], o[2], o[3], o[4], nil, o[5], o[6], o[7], o[8], o[9], o[10], o[11], o[12], nil, nil}
	}
	return g.Apply(op, append(x.nodes(), f.Weight, f.Bias, f.Norm.Weight, f.Norm.Bias, f.Norm.Mean, f.Norm.Var)...)
}
