package cpu

import (
	"vsetrain/internal/device"
	"vsetrain/internal/vec"
)

// Row kernels of graph-structured matching over the nodes of pairs: factors, and means.

// scaleLoop is Y[a, b, n, :] = X[a, b, n, :]·F[a, n]; the gradient of a factor is a sum over b and the columns, in order.
type scaleLoop[T vec.Float] struct {
	ops             *vec.Ops[T]
	a               device.ScaleArgs
	back            bool
	x, y, f, dx, df []T
}

func (d *dev[T]) beginScale(what string, a device.ScaleArgs) *scaleLoop[T] {
	positive(what, a.A, a.B, a.N, a.H)
	l := &d.scales
	*l = scaleLoop[T]{ops: d.ops, a: a, x: d.floats("ScaleBlocks X", a.X, a.A*a.B*a.N*a.H), f: d.floats("ScaleBlocks Factors", a.Factors, a.A*a.N)}
	return l
}

// ScaleBlocks implements device.Matching.
func (d *dev[T]) ScaleBlocks(a device.ScaleArgs) {
	l := d.beginScale("ScaleBlocks", a)
	l.y = d.floats("ScaleBlocks Y", a.Y, len(l.x))
	d.pool.For(a.A, l)
}

// ScaleBlocksGrad implements device.Matching.
func (d *dev[T]) ScaleBlocksGrad(a device.ScaleArgs) {
	l := d.beginScale("ScaleBlocksGrad", a)
	l.back, l.y = true, d.floats("ScaleBlocksGrad DY", a.DY, len(l.x))
	l.dx, l.df = d.optional("ScaleBlocksGrad DX", a.DX, len(l.x)), d.optional("ScaleBlocksGrad DFactors", a.DFactors, a.A*a.N)
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

// nodeRows says where the nodes of pairs lie.
type nodeRows struct {
	first []int // of each caption, and the total T at the end
}

func (n *nodeRows) set(what string, lengths []int32) {
	positive(what, len(lengths))
	n.first = append(n.first[:0], 0)
	for i, l := range lengths {
		positive("nodes of pairs: length", int(l))
		n.first = append(n.first, n.first[i]+int(l))
	}
}

func (n *nodeRows) total() int { return n.first[len(n.first)-1] }

// meanLoop averages the nodes of all pairs of one image.
type meanLoop[T vec.Float] struct {
	nodeRows
	ops  *vec.Ops[T]
	a    device.MeanArgs
	back bool
	x, y []T
}

// MeanNodes implements device.Matching.
func (d *dev[T]) MeanNodes(a device.MeanArgs) { d.meanNodes("MeanNodes", a, a.X, a.Y, false) }

// MeanNodesGrad implements device.Matching.
func (d *dev[T]) MeanNodesGrad(a device.MeanArgs) { d.meanNodes("MeanNodesGrad", a, a.DX, a.DY, true) }

func (d *dev[T]) meanNodes(what string, a device.MeanArgs, x, y device.View, back bool) {
	positive(what, a.B, a.H)
	l := &d.means
	l.set(what, a.Lengths.Host)
	l.ops, l.a, l.back = d.ops, a, back
	l.x, l.y = d.floats("MeanNodes nodes", x, a.B*l.total()*a.H), d.floats("MeanNodes means", y, a.B*len(a.Lengths.Host)*a.H)
	d.pool.For(a.B, l)
}

func (l *meanLoop[T]) Do(_, i int) {
	h, captions := l.a.H, len(l.first)-1
	for c := range captions {
		y := l.y[(i*captions+c)*h:][:h]
		share := T(1 / float64(l.first[c+1]-l.first[c]))
		if !l.back {
			l.ops.Fill(y, 0)
		}
		for j := l.first[c]; j < l.first[c+1]; j++ {
			x := l.x[(i*l.total()+j)*h:][:h]
			if l.back {
				l.ops.Scale(x, y, share)
			} else {
				l.ops.Add(y, y, x)
			}
		}
		if !l.back {
			l.ops.Scale(y, y, share)
		}
	}
}
