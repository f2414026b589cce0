package cpu

import (
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// The generalised pooling operator (device/pooling.go; woodfrog/vse_infty, lib/modules/aggr/gpo.py: GPO).
//
// Channels are not sorted: the place of a value in its sorted channel is the number of values before it, those that are
// greater and those that are equal and come earlier. For the few rows of an image or a caption counting them is as
// fast, and it is done for many channels at once.

// poolWeights is the softmax of each packed sequence, one sequence an item.
type poolWeights[T vec.Float] struct {
	pack      *device.Packing
	lengths   []int32
	wide      int
	inverse   float64 // of the temperature
	back      bool
	scores, w []T
	dw, ds    []T
}

func (d *dev[T]) PoolWeightsGrad(a device.PoolWeights) { d.PoolWeights(a) }

func (d *dev[T]) PoolWeights(a device.PoolWeights) {
	l := &d.poolWeight
	*l = poolWeights[T]{pack: a.Lengths.Packing(), lengths: a.Lengths.Host, wide: a.L, inverse: 1 / a.Temperature,
		back: a.Grad, scores: d.values(a.Scores), w: d.values(a.Weights), dw: d.values(a.DWeights),
		ds: d.values(a.DScores)}
	d.pool.For(len(l.lengths), l)
}

func (l *poolWeights[T]) Do(_, b int) {
	n, w := int(l.lengths[b]), l.w[b*l.wide:(b+1)*l.wide]
	if l.back {
		dw := l.dw[b*l.wide : (b+1)*l.wide]
		var mean float64
		for t := range n {
			mean += float64(w[t]) * float64(dw[t])
		}
		for t := range n {
			l.ds[l.pack.Start(t)+b] = T(l.inverse * float64(w[t]) * (float64(dw[t]) - mean))
		}
		return
	}
	most, sum := math.Inf(-1), 0.0
	for t := range n {
		most = max(most, float64(l.scores[l.pack.Start(t)+b]))
	}
	for t := range n {
		sum += math.Exp((float64(l.scores[l.pack.Start(t)+b]) - most) * l.inverse)
	}
	for t := range n {
		w[t] = T(math.Exp((float64(l.scores[l.pack.Start(t)+b])-most)*l.inverse) / sum)
	}
	clear(w[n:])
}

// sortPool works on one item at a time.
type sortPool[T vec.Float] struct {
	ops        *vec.Ops[T]
	a          device.SortPool
	pack       *device.Packing
	start      []int // first row of each item, where rows are concatenated
	x, w, y    []T
	ranks      []int32
	values     []T     // [workers, K, sortStrip]
	slopes     []T     // [workers, K]
	rankBuffer []int32 // the same for ranks
	dy, dx     []T
	partial    []float64 // [B + K, K]: gradient of the weights of each item, and of each length
	wantTable  bool
}

func (d *dev[T]) sortPoolLoop(a device.SortPool) *sortPool[T] {
	l := &d.sortPools
	l.ops, l.a = d.ops, a
	l.start = starts(l.start, a.Lengths.Host, same)
	if a.Packed {
		l.pack = a.Lengths.Packing()
	}
	l.x, l.w = d.values(a.X), d.values(a.Weights)
	l.ranks = d.integers(a.Ranks)
	return l
}

// at returns where row p of item b begins in X.
func (l *sortPool[T]) at(b, p int) int {
	if l.a.Packed {
		return (l.pack.Start(p) + b) * l.a.D
	}
	return (l.start[b] + p) * l.a.D
}

// weights returns the weights of the length of item b.
func (l *sortPool[T]) weights(b int) []T {
	n, k := int(l.a.Lengths.Host[b]), l.a.K
	return l.w[(k-n)*k:][:n]
}

func (d *dev[T]) SortPool(a device.SortPool) {
	l := d.sortPoolLoop(a)
	l.y = d.values(a.Y)
	reserve(&l.rankBuffer, l.reserve(d.pool.Threads()))
	d.pool.For(len(a.Lengths.Host), l)
}

// reserve allocates memory for the values of a strip of every worker, and returns their number.
func (l *sortPool[T]) reserve(workers int) int {
	strip := workers * l.a.K * sortStrip
	scratch(&l.values, strip)
	l.values = l.values[:cap(l.values)]
	return strip
}

func (d *dev[T]) SortPoolGrad(a device.SortPool) {
	l, items := d.sortPoolLoop(a), len(a.Lengths.Host)
	l.dy, l.dx = d.values(a.DY), d.values(a.DX)
	table := d.values(a.DWeights)
	if l.wantTable = table != nil; l.wantTable {
		l.reserve(d.pool.Threads())
		scratch(&l.slopes, d.pool.Threads()*a.K)
		l.slopes = l.slopes[:cap(l.slopes)]
	}
	reserve(&l.partial, (items+a.K)*a.K)
	d.pool.For(items, l)
	if table == nil {
		return
	}
	sums := l.partial[items*a.K : (items+a.K)*a.K]
	clear(sums)
	for b, n := range a.Lengths.Host {
		row := sums[(a.K-int(n))*a.K:]
		for p, v := range l.partial[b*a.K:][:n] {
			row[p] += v
		}
	}
	for i, v := range sums {
		table[i] = T(v)
	}
}

// sortStrip is how many channels are ranked at a time. Their values and ranks are copied together first: rows of a
// power of two of bytes apart fall into the same few places of the cache.
const sortStrip = 128

func (l *sortPool[T]) Do(worker, b int) {
	if l.a.Grad {
		l.backward(worker, b)
		return
	}
	n, w, d := int(l.a.Lengths.Host[b]), l.weights(b), l.a.D
	l.fetch(l.x, b, n)
	values, ranks := l.values[worker*l.a.K*sortStrip:], l.rankBuffer[worker*l.a.K*sortStrip:]
	for lo := 0; lo < d; lo += sortStrip {
		width := min(sortStrip, d-lo)
		for p := range n {
			copy(values[p*width:(p+1)*width], l.x[l.at(b, p)+lo:])
		}
		l.rank(values, ranks[:n*width], n, width)
		y := l.y[b*d+lo : b*d+lo+width]
		l.ops.Fill(y, 0)
		for p := range n {
			r := ranks[p*width : (p+1)*width]
			l.ops.PickMAdd(y, w, r, values[p*width:(p+1)*width])
			copy(l.ranks[l.at(b, p)+lo:], r)
		}
	}
}

// fetch prefetches the n rows of an item, which strips read a little of at a time.
func (l *sortPool[T]) fetch(m []T, b, n int) {
	for p := range n {
		at := l.at(b, p)
		l.ops.Fetch(m[at : at+l.a.D])
	}
}

// rank counts, for n rows of values, those in the same column that come before each. A pair adds one to either of its
// two, so ranks stay below n also where a value is NaN.
func (l *sortPool[T]) rank(values []T, ranks []int32, n, width int) {
	clear(ranks)
	for p := range n {
		x, rx := values[p*width:(p+1)*width], ranks[p*width:(p+1)*width]
		for q := p + 1; q < n; q++ {
			l.ops.Rank(x, values[q*width:(q+1)*width], rx, ranks[q*width:(q+1)*width])
		}
	}
}

// backward sorts the values of a strip of channels again, by their ranks: the gradient of a weight is a product of a
// row of them and dy.
func (l *sortPool[T]) backward(worker, b int) {
	n, w, d := int(l.a.Lengths.Host[b]), l.weights(b), l.a.D
	strip := l.a.K * sortStrip
	var sorted, slopes []T
	if l.wantTable {
		sorted, slopes = l.values[worker*strip:][:strip], l.slopes[worker*l.a.K:][:n]
	}
	dy, dw := l.dy[b*d:(b+1)*d], l.partial[b*l.a.K:(b+1)*l.a.K]
	clear(dw)
	if l.dx != nil {
		l.fetch(l.dx, b, n)
	}
	if l.wantTable {
		l.fetch(l.x, b, n)
	}
	for lo := 0; lo < d; lo += sortStrip {
		hi := min(d, lo+sortStrip)
		width := hi - lo
		for p := range n {
			at := l.at(b, p)
			ranks := l.ranks[at+lo : at+hi]
			if l.dx != nil {
				l.ops.PickMul(l.dx[at+lo:at+hi], w, ranks, dy[lo:hi])
			}
			if l.wantTable {
				x := l.x[at+lo : at+hi][:len(ranks)]
				for c, r := range ranks {
					sorted[int(r)*width+c] = x[c]
				}
			}
		}
		if l.wantTable {
			l.ops.Dots(slopes, dy[lo:hi], sorted, width)
			for p, v := range slopes {
				dw[p] += float64(v)
			}
		}
	}
}
