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

// ScaleBlocks computes that kernel.
func (d *dev[T]) ScaleBlocks(a device.ScaleBlocks) {
	l := d.beginScale(a)
	l.y = d.values(a.Y)
	d.pool.For(a.A, l)
}

// ScaleBlocksGrad computes that kernel.
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

// MeanNodes computes that kernel: image after image.
func (d *dev[T]) MeanNodes(a device.MeanNodes) {
	rows, pairs := nodesOfImage(a)
	for i := range a.B {
		d.SegmentMeans(a.Y.Slice(i*pairs, (i+1)*pairs), a.X.Slice(i*rows, (i+1)*rows), a.Lengths, a.H)
	}
}

// MeanNodesGrad computes that kernel.
func (d *dev[T]) MeanNodesGrad(a device.MeanNodes) {
	rows, pairs := nodesOfImage(a)
	for i := range a.B {
		d.SegmentMeansGrad(a.DX.Slice(i*rows, (i+1)*rows), a.DY.Slice(i*pairs, (i+1)*pairs), a.Lengths, a.H)
	}
}

// nodesOfImage counts the values of the nodes and of the means of an image.
func nodesOfImage(a device.MeanNodes) (rows, pairs int) {
	for _, n := range a.Lengths.Host {
		rows += int(n)
	}
	return rows * a.H, len(a.Lengths.Host) * a.H
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
