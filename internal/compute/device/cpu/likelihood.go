package cpu

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// The negative log likelihood of words (device.CrossEntropy), one packed row per index. Sums are float64; the rows'
// losses are added in packed order.
type entropyLoop[T vec.Float] struct {
	ops     *vec.Ops[T]
	pack    *device.Packing
	v       int
	back    bool
	labels  []int32   // of every packed row
	weights []float64 // Scale·Mask of every packed row
	losses  []float64
	logits  []T
	norm    []T
	dLoss   float64
	dLogits []T
	ones    []T // [entropyChunk]
	scratch []T // [workers, entropyChunk]
}

const entropyChunk = 1024 // logits whose exponentials are taken at a time

func (d *dev[T]) beginEntropy(what string, a *device.CrossEntropy, back bool) *entropyLoop[T] {
	l := &d.entropy
	l.pack = a.Lengths.Packing()
	labels, mask := d.integers(a.Labels.View), d.integers(a.Mask.View)
	l.ops, l.v, l.back = d.ops, a.V, back
	l.labels, l.weights = l.labels[:0], l.weights[:0]
	for t := range l.pack.Steps() {
		for b := range l.pack.Active(t) {
			word := labels[b*a.L+t+1]
			if word < 0 || int(word) >= a.V {
				panic(fmt.Sprintf("cpu: %s: label %d of sequence %d at %d, expected less than V = %d", what, word, b,
					t+1, a.V))
			}
			l.labels = append(l.labels, word)
			l.weights = append(l.weights, a.Scale*float64(mask[b*a.L+t+1]))
		}
	}
	l.logits, l.norm = d.values(a.Logits), d.values(a.Norm)
	l.ops.Fill(scratch(&l.ones, entropyChunk), 1)
	scratch(&l.scratch, d.pool.Threads()*entropyChunk)
	l.losses = reserve(&l.losses, len(l.labels))
	return l
}

func (d *dev[T]) CrossEntropy(a device.CrossEntropy) {
	l := d.beginEntropy("CrossEntropy", &a, false)
	loss := d.values(a.Loss)
	d.pool.For(len(l.labels), l)
	var sum float64
	for _, v := range l.losses {
		sum += v
	}
	loss[0] = T(sum)
}

func (d *dev[T]) CrossEntropyGrad(a device.CrossEntropy) {
	l := d.beginEntropy("CrossEntropyGrad", &a, true)
	l.dLoss = float64(d.values(a.DLoss)[0])
	l.dLogits = d.values(a.DLogits)
	d.pool.For(len(l.labels), l)
}

func (l *entropyLoop[T]) Do(worker, p int) {
	x := l.logits[p*l.v : (p+1)*l.v]
	if l.back {
		l.gradient(l.dLogits[p*l.v:(p+1)*l.v], x, p)
		return
	}
	top := x[0]
	for _, v := range x {
		if v > top || v != v {
			top = v
		}
	}
	var sum float64
	buf := l.scratch[worker*entropyChunk:][:entropyChunk]
	for lo := 0; lo < len(x); lo += entropyChunk {
		part := x[lo:min(len(x), lo+entropyChunk)]
		e, ones := buf[:len(part)], l.ones[:len(part)]
		l.ops.Sum2(e, part, ones, 1, -top)
		l.ops.Exp(e, e)
		sum += l.ops.Dot(e, ones)
	}
	norm := float64(top) + math.Log(sum)
	l.norm[p] = T(norm)
	l.losses[p] = 0
	if w := l.weights[p]; w != 0 {
		l.losses[p] = w * (norm - float64(x[l.labels[p]]))
	}
}

// gradient is dLoss·weight·(softmax x - the unit vector of the label).
func (l *entropyLoop[T]) gradient(d, x []T, p int) {
	g := T(l.dLoss * l.weights[p])
	if l.weights[p] == 0 {
		l.ops.Fill(d, 0)
		return
	}
	for lo := 0; lo < len(x); lo += entropyChunk {
		hi := min(len(x), lo+entropyChunk)
		part := d[lo:hi]
		l.ops.Sum2(part, x[lo:hi], l.ones[:hi-lo], 1, -l.norm[p])
		l.ops.Exp(part, part)
		l.ops.Scale(part, part, g)
	}
	d[l.labels[p]] -= g
}
