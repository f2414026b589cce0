package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// Row kernels of graph-structured matching over the nodes of pairs.

// scaleLoop is Y[a, b, n, :] = X[a, b, n, :]·F[a, n]; the gradient of a factor is a sum over b and the columns, in
// order.
type scaleLoop[T vec.Float] struct {
	ops             *vec.Ops[T]
	a               device.ScaleBlocks
	back            bool
	x, y, f, dx, df []T
}

func (d *dev[T]) beginScale(a device.ScaleBlocks) *scaleLoop[T] {
	l := &d.scales
	*l = scaleLoop[T]{ops: d.ops, a: a, x: d.values(a.X), f: d.values(a.Factors)}
	return l
}

func (d *dev[T]) ScaleBlocks(a device.ScaleBlocks) {
	l := d.beginScale(a)
	l.y = d.values(a.Y)
	d.pool.For(a.A, l)
}

func (d *dev[T]) ScaleBlocksGrad(a device.ScaleBlocks) {
	l := d.beginScale(a)
	l.back, l.y = true, d.values(a.DY)
	l.dx, l.df = d.values(a.DX), d.values(a.DFactors)
	d.pool.For(a.A, l)
}

func (l *scaleLoop[T]) Do(_, i int) {
	n, h := l.a.N, l.a.H
	f := l.f[i*n:][:n]
	if l.df != nil {
		clear(l.df[i*n:][:n])
	}
	for b := range l.a.B {
		at := (i*l.a.B + b) * n * h
		if l.back && l.ops.Zero(l.y[at:at+n*h]) { // a pair without gradient
			if l.dx != nil {
				l.ops.Fill(l.dx[at:at+n*h], 0)
			}
			continue
		}
		for k, s := range f {
			x, y := l.x[at+k*h:][:h], l.y[at+k*h:][:h]
			if !l.back {
				for c, v := range x {
					y[c] = s * v
				}
				continue
			}
			if l.df != nil {
				var sum T
				for c, v := range x {
					sum += v * y[c]
				}
				l.df[i*n+k] += sum
			}
			if l.dx != nil {
				dx := l.dx[at+k*h:][:h]
				for c, v := range y {
					dx[c] = s * v
				}
			}
		}
	}
}

func (d *dev[T]) MeanNodes(a device.MeanNodes) { meansOfNodes(d, segmentMeans, &a, a.Y, a.X) }

func (d *dev[T]) MeanNodesGrad(a device.MeanNodes) { meansOfNodes(d, segmentMeansGrad, &a, a.DY, a.DX) }

// meansOfNodes works image after image.
func meansOfNodes[T vec.Float](d *dev[T], kind segmentKind, a *device.MeanNodes, means, nodes device.View) {
	pairs, rows := means.N/a.B, nodes.N/a.B
	for i := range a.B {
		meansOf(d, kind, &device.SegmentMeans{Means: means.Slice(i*pairs, (i+1)*pairs),
			Rows: nodes.Slice(i*rows, (i+1)*rows), Counts: a.Lengths, D: a.H})
	}
}

// nodeRows are the places of the nodes of pairs.
type nodeRows struct {
	first []int // of each caption, and the total T at the end
}

func (n *nodeRows) set(lengths []int32) {
	n.first = append(n.first[:0], 0)
	for i, l := range lengths {
		n.first = append(n.first, n.first[i]+int(l))
	}
}

func (n *nodeRows) total() int { return n.first[len(n.first)-1] }
