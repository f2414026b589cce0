package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// Kernels over sets of concatenated rows (device/segments.go), one set per index.
type segmentLoop[T vec.Float] struct {
	ops             *vec.Ops[T]
	kind            segmentKind
	first           []int // first row of each set, and the total
	d               int
	dst, x          []T
	l, g, w, weight []T
	dOut            []T
	dl, dg, dx, dw  []T
	pack            *device.Packing
}

type segmentKind uint8

const (
	segmentMeans segmentKind = iota
	segmentMeansGrad
	segmentPool
	segmentPoolGrad
	segmentUnpack
	segmentPack
)

func (d *dev[T]) beginSegments(kind segmentKind, counts []int32, width int) *segmentLoop[T] {
	l := &d.segments
	l.ops, l.kind, l.d, l.first = d.ops, kind, width, starts(l.first, counts, same)
	return l
}

func (d *dev[T]) SegmentMeans(a device.SegmentMeans) { meansOf(d, segmentMeans, &a) }

func meansOf[T vec.Float](d *dev[T], kind segmentKind, a *device.SegmentMeans) {
	l := d.beginSegments(kind, a.Counts.Host, a.D)
	l.dst, l.x = d.values(a.Means), d.values(a.Rows)
	d.pool.For(len(a.Counts.Host), l)
}

func (d *dev[T]) SegmentMeansGrad(a device.SegmentMeans) { meansOf(d, segmentMeansGrad, &a) }

func (d *dev[T]) UnpackWords(a device.UnpackWords) {
	kind := segmentUnpack
	if a.Back {
		kind = segmentPack
	}
	l := d.beginSegments(kind, a.Lengths.Host, a.D)
	l.pack = a.Lengths.Packing()
	l.dst, l.x = d.values(a.Dst), d.values(a.Src)
	d.pool.For(len(a.Lengths.Host), l)
}

func (d *dev[T]) GatedPool(a device.GatedPool) { d.gatedPool(segmentPool, a, a.Out) }

func (d *dev[T]) GatedPoolGrad(a device.GatedPool) { d.gatedPool(segmentPoolGrad, a, a.DW) }

func (d *dev[T]) gatedPool(kind segmentKind, a device.GatedPool, dst device.View) {
	l := d.beginSegments(kind, a.Counts.Host, a.D)
	l.l, l.x, l.g, l.dst = d.values(a.L), d.values(a.X), d.values(a.G), d.values(dst)
	l.w, l.weight = d.values(a.W), d.values(a.Weights)
	l.dOut, l.dl, l.dx, l.dg = d.values(a.DOut), d.values(a.DL), d.values(a.DX), d.values(a.DG)
	scratch(&l.dw, len(l.g))
	d.pool.For(len(a.Counts.Host), l)
}

func (l *segmentLoop[T]) Do(_, b int) {
	lo, hi, d, ops := l.first[b], l.first[b+1], l.d, l.ops
	switch l.kind {
	case segmentMeans:
		dst := l.dst[b*d : (b+1)*d]
		ops.Fill(dst, 0)
		addRows(ops, dst, l.x[lo*d:hi*d], hi-lo)
		ops.Scale(dst, dst, T(1/float64(hi-lo)))
	case segmentMeansGrad:
		for r := lo; r < hi; r++ {
			ops.Scale(l.x[r*d:(r+1)*d], l.dst[b*d:(b+1)*d], T(1/float64(hi-lo)))
		}
	case segmentUnpack:
		for t := range hi - lo {
			copy(l.dst[(lo+t)*d:(lo+t+1)*d], l.x[(l.pack.Start(t)+b)*d:])
		}
	case segmentPack:
		for t := range hi - lo {
			copy(l.dst[(l.pack.Start(t)+b)*d:][:d], l.x[(lo+t)*d:])
		}
	case segmentPool:
		l.gatedPool(b, lo, hi)
	case segmentPoolGrad:
		l.gatedPoolGrad(b, lo, hi)
	}
}

func (l *segmentLoop[T]) gatedPool(b, lo, hi int) {
	d, ops, weights := l.d, l.ops, l.weight[lo:hi]
	gate, out := l.dw[b*d:(b+1)*d], l.dst[b*d:(b+1)*d]
	ops.Mul(gate, l.g[b*d:(b+1)*d], l.w)
	for r := lo; r < hi; r++ {
		weights[r-lo] = T(ops.Dot(gate, l.l[r*d:(r+1)*d]))
	}
	top := weights[0]
	for _, v := range weights {
		top = max(top, v)
	}
	var sum float64
	for r, v := range weights {
		e := exp(float64(v - top))
		weights[r] = T(e)
		sum += e
	}
	ops.Scale(weights, weights, T(1/sum))
	ops.Fill(out, 0)
	for r := lo; r < hi; r++ {
		ops.Axpy(out, l.x[r*d:(r+1)*d], weights[r-lo])
	}
}

// gatedPoolGrad: dα_r = dOut·X_r, de = α∘(dα - Σ α∘dα), dL_r = de_r W∘G, dG = W∘Σ de_r L_r, dW = G∘Σ de_r L_r.
func (l *segmentLoop[T]) gatedPoolGrad(b, lo, hi int) {
	d, ops, weights := l.d, l.ops, l.weight[lo:hi]
	dOut, g, gate, sum, dg := l.dOut[b*d:(b+1)*d], l.g[b*d:(b+1)*d], l.dw[b*d:(b+1)*d], l.dst[b*d:(b+1)*d],
		l.dg[b*d:(b+1)*d]
	ops.Mul(gate, g, l.w)
	ops.Fill(sum, 0)
	var mean float64
	for r := lo; r < hi; r++ {
		mean += float64(weights[r-lo]) * ops.Dot(dOut, l.x[r*d:(r+1)*d])
	}
	for r := lo; r < hi; r++ {
		de := T(float64(weights[r-lo]) * (ops.Dot(dOut, l.x[r*d:(r+1)*d]) - mean))
		ops.Scale(l.dl[r*d:(r+1)*d], gate, de)
		ops.Scale(l.dx[r*d:(r+1)*d], dOut, weights[r-lo])
		ops.Axpy(sum, l.l[r*d:(r+1)*d], de)
	}
	ops.Mul(dg, l.w, sum)
	ops.Mul(sum, sum, g)
}
