package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// Filtration (device.Filtrate): the statistics of the logits, by caption; then the sums, by image. Back, with dr =
// l2'(dOut):
//
//	da_j = dr·X_j    dh = (da - Σ a∘da)/(Σ h + ε)    dz = BN'(dh∘h(1 - h))    dX_j = a_j dr + dz_j W
//
// dX is left in these factors. After the batch norm all pairs of a caption have a dz, but few a dr, and the
// similarities make of dz_j W what they need, row by row, while it is in the cache.
type filtration[T vec.Float] struct {
	ops           *vec.Ops[T]
	a             device.Filtrate
	phase         filterPhase
	layout        pairLayout
	x             []T
	gamma, beta   float64
	mean, invStd  []T
	logits, alpha []T
	out, norms    []T
	variance      []float64 // [C]
	dOut, dr      []T
	dz            []T // [B, P]
	dBias         []float64
	dGamma, dBeta []float64 // [C]
	fixed         [2]float64
}

type filterPhase uint8

const (
	filterStatistics filterPhase = iota
	filterSums
	filterBackSums
	filterBackStatistics
)

func (d *dev[T]) beginFilter(a device.Filtrate) *filtration[T] {
	l := &d.filtration
	l.ops, l.a = d.ops, a
	l.layout.set(a.Lengths.Host)
	l.x = d.values(a.X)
	l.gamma, l.beta = float64(d.values(a.Gamma)[0]), float64(d.values(a.Beta)[0])
	l.logits, l.alpha = d.values(a.Logits), d.values(a.Weights)
	l.mean, l.invStd = d.values(a.Mean), d.values(a.InvStd)
	l.out, l.norms = d.values(a.Out), d.values(a.Norms)
	return l
}

func (l *filtration[T]) run(d *dev[T], phase filterPhase) {
	l.phase = phase
	n := laneCount(l.a.B)
	if phase == filterStatistics || phase == filterBackStatistics {
		n = len(l.layout.lengths)
	}
	d.pool.For(n, l)
}

func (d *dev[T]) Filtrate(a device.Filtrate) {
	l := d.beginFilter(a)
	mean, variance := d.values(a.RunningMean), d.values(a.RunningVar)
	reserve(&l.variance, len(l.mean))
	l.fixed = [2]float64{float64(mean[0]), 1 / sqrt(float64(variance[0])+a.Eps)}
	l.run(d, filterStatistics)
	if a.Train {
		for c := range l.mean { // one caption after the other
			n := float64(a.B * (int(l.layout.lengths[c]) + 1))
			v := l.variance[c]
			if n > 1 {
				v *= n / (n - 1)
			}
			mean[0] = T((1-a.Momentum)*float64(mean[0]) + a.Momentum*float64(l.mean[c]))
			if r := (1-a.Momentum)*float64(variance[0]) + a.Momentum*v; r-r == 0 {
				variance[0] = T(r)
			}
		}
	}
	l.run(d, filterSums)
}

func (d *dev[T]) FiltrateGrad(a device.Filtrate) {
	l := d.beginFilter(a)
	l.dOut, l.dr, l.dz = d.values(a.DOut), d.values(a.DSums), d.values(a.DLogits)
	c := len(l.layout.lengths)
	reserve(&l.dBias, c)
	reserve(&l.dGamma, c)
	reserve(&l.dBeta, c)
	l.run(d, filterBackSums)
	l.run(d, filterBackStatistics)
	for _, s := range [3]struct {
		to device.View
		of []float64
	}{{a.DBias, l.dBias[:c]}, {a.DGamma, l.dGamma[:c]}, {a.DBeta, l.dBeta[:c]}} {
		var sum float64
		for _, v := range s.of {
			sum += v
		}
		d.values(s.to)[0] = T(sum)
	}
}

func (l *filtration[T]) Do(_, i int) {
	switch l.phase {
	case filterStatistics:
		l.statistics(i)
		return
	case filterBackStatistics:
		l.backStatistics(i)
		return
	}
	lo, hi := lane(l.a.B, i)
	for b := lo; b < hi; b++ {
		for c := range l.layout.lengths {
			at, n := l.layout.span(c)
			at += b * l.layout.nodes()
			if l.phase == filterSums {
				l.sum(b, c, at, n)
			} else {
				l.backSum(b, c, at, n)
			}
		}
	}
}

// each calls f with the nodes of caption c with every image.
func (l *filtration[T]) each(c int, f func(node int)) {
	at, n := l.layout.span(c)
	p := l.layout.nodes()
	for b := range l.a.B {
		for j := range n {
			f(b*p + at + j)
		}
	}
}

func (l *filtration[T]) statistics(c int) {
	if !l.a.Train {
		l.mean[c], l.invStd[c] = T(l.fixed[0]), T(l.fixed[1])
		return
	}
	_, n := l.layout.span(c)
	count := float64(l.a.B * n)
	var sum, squares float64
	l.each(c, func(j int) { sum += float64(l.logits[j]) })
	mean := sum / count
	l.each(c, func(j int) {
		x := float64(l.logits[j]) - mean
		squares += x * x
	})
	l.variance[c] = squares / count
	l.mean[c], l.invStd[c] = T(mean), T(1/sqrt(l.variance[c]+l.a.Eps))
}

// normal is the normalised logit of a node of caption c.
func (l *filtration[T]) normal(c, node int) float64 {
	return (float64(l.logits[node]) - float64(l.mean[c])) * float64(l.invStd[c])
}

// sum computes the weights and the vector of image b and caption c, whose nodes begin at node.
func (l *filtration[T]) sum(b, c, node, n int) {
	s := l.a.S
	a := l.alpha[node : node+n]
	for j := range a {
		a[j] = T(l.gamma*l.normal(c, node+j) + l.beta)
	}
	l.ops.Map[vec.Sigmoid](a, a)
	var total float64
	for _, v := range a {
		total += float64(v)
	}
	l.ops.Scale(a, a, T(1/(total+pairEps)))
	pair := b*len(l.layout.lengths) + c
	out := l.out[pair*s : (pair+1)*s]
	l.ops.Mix(out, a, l.x[node*s:(node+n)*s], s)
	norm := sqrt(l.ops.Sumsq(out))
	l.norms[pair] = T(norm)
	l.ops.Scale(out, out, T(1/(norm+pairEps)))
}

// backSum computes dr and the gradient of the normalised logits times gamma.
func (l *filtration[T]) backSum(b, c, node, n int) {
	s, pair := l.a.S, b*len(l.layout.lengths)+c
	out, dOut, dr := l.out[pair*s:(pair+1)*s], l.dOut[pair*s:(pair+1)*s], l.dr[pair*s:(pair+1)*s]
	if l.ops.Zero(dOut) {
		l.ops.Fill(dr, 0)
		l.ops.Fill(l.dz[node:node+n], 0)
		return
	}
	f, g := unit(float64(l.norms[pair]), l.ops.Dot(out, dOut))
	l.ops.Sum2(dr, dOut, out, T(f), T(g))
	l.ops.Dots(l.dz[node:node+n], dr, l.x[node*s:(node+n)*s], s)
	var mean, total float64
	for j := node; j < node+n; j++ {
		mean += float64(l.dz[j]) * float64(l.alpha[j])
		total += l.sigmoid(c, j)
	}
	for j := node; j < node+n; j++ {
		h := l.sigmoid(c, j)
		l.dz[j] = T((float64(l.dz[j]) - mean) / (total + pairEps) * h * (1 - h))
	}
}

func (l *filtration[T]) sigmoid(c, node int) float64 {
	return 1 / (1 + exp(-(l.gamma*l.normal(c, node) + l.beta)))
}

// backStatistics turns the gradients after the batch norm of caption c into the gradients of its logits.
func (l *filtration[T]) backStatistics(c int) {
	_, n := l.layout.span(c)
	count := float64(l.a.B * n)
	var sum, along float64
	l.each(c, func(j int) {
		sum += float64(l.dz[j])
		along += float64(l.dz[j]) * l.normal(c, j)
	})
	l.dBeta[c], l.dGamma[c] = sum, along
	if !l.a.Train {
		sum, along = 0, 0
	}
	var bias float64
	l.each(c, func(j int) {
		v := l.gamma * float64(l.invStd[c]) * (float64(l.dz[j]) - sum/count - l.normal(c, j)*along/count)
		bias += v
		l.dz[j] = T(v)
	})
	l.dBias[c] = bias
}
