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
	x, y, f, dx, df []T
}

func (d *dev[T]) ScaleBlocks(a device.ScaleBlocks) { d.scaleBlocks(a, a.Y) }

func (d *dev[T]) ScaleBlocksGrad(a device.ScaleBlocks) { d.scaleBlocks(a, a.DY) }

func (d *dev[T]) scaleBlocks(a device.ScaleBlocks, y device.View) {
	l := &d.scales
	*l = scaleLoop[T]{ops: d.ops, a: a, x: d.values(a.X), f: d.values(a.Factors), y: d.values(y), dx: d.values(a.DX),
		df: d.values(a.DFactors)}
	d.pool.For(a.A, l)
}

func (l *scaleLoop[T]) Do(_, i int) {
	n, h := l.a.N, l.a.H
	f := l.f[i*n:][:n]
	if l.a.Grad && l.df != nil {
		clear(l.df[i*n:][:n])
	}
	for b := range l.a.B {
		at := (i*l.a.B + b) * n * h
		if l.a.Grad && l.ops.Zero(l.y[at:at+n*h]) { // a pair without gradient
			if l.dx != nil {
				l.ops.Fill(l.dx[at:at+n*h], 0)
			}
			continue
		}
		for k, s := range f {
			x, y := l.x[at+k*h:][:h], l.y[at+k*h:][:h]
			if !l.a.Grad {
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
