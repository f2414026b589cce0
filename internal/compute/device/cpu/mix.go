package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// mixLoop is Y_jk = Σ_l w_jlk X_lk for the nodes of all pairs. Forward and DX go by image; DWeights by what the weights
// belong to, so that the sums over the other side are in order.
type mixLoop[T vec.Float] struct {
	a           device.MixNodes
	first       []int // of each caption its first node, and their number
	what        uint8 // mixForward, mixInputs, mixWeights
	at          []int // of each caption in the weights
	x, y, w, dx []T
	dw          []T
}

const (
	mixForward uint8 = iota
	mixInputs
	mixWeights
)

func (d *dev[T]) beginMix(a device.MixNodes) *mixLoop[T] {
	l := &d.mix
	l.a, l.first = a, starts(l.first, a.Lengths.Host, same)
	l.at = starts(l.at, a.Lengths.Host, func(n int) int { return n * n * a.K })
	l.x, l.w = d.values(a.X), d.values(a.Weights)
	return l
}

func (d *dev[T]) MixNodes(a device.MixNodes) {
	l := d.beginMix(a)
	l.y, l.what = d.values(a.Y), mixForward
	d.pool.For(a.B, l)
}

func (d *dev[T]) MixNodesGrad(a device.MixNodes) {
	l := d.beginMix(a)
	l.y, l.dx, l.dw = d.values(a.DY), d.values(a.DX), d.values(a.DWeights)
	l.what = mixInputs
	d.pool.For(a.B, l)
	clear(l.dw)
	l.what = mixWeights
	if a.PerImage {
		d.pool.For(a.B, l)
	} else {
		d.pool.For(len(a.Lengths.Host), l)
	}
}

func (l *mixLoop[T]) Do(_, i int) {
	if l.what == mixWeights && !l.a.PerImage {
		for b := range l.a.B {
			l.pair(b, i)
		}
		return
	}
	for c := range len(l.first) - 1 {
		l.pair(i, c)
	}
}

// pair does one pair of an image and a caption.
func (l *mixLoop[T]) pair(b, c int) {
	n, k, h := l.first[c+1]-l.first[c], l.a.K, l.a.H
	rows := (b*l.first[len(l.first)-1] + l.first[c]) * k * h
	at := l.at[c]
	if l.a.PerImage {
		at = b * l.at[1]
	}
	x, y := l.x[rows:][:n*k*h], l.y[rows:][:n*k*h]
	switch l.what {
	case mixForward:
		clear(y)
	case mixInputs:
		clear(l.dx[rows:][:n*k*h])
	}
	for j := range n {
		for m := range n {
			for g := range k {
				e := at + (j*n+m)*k + g
				from, to := x[(m*k+g)*h:][:h], y[(j*k+g)*h:][:h]
				switch l.what {
				case mixForward:
					for q, v := range from {
						to[q] += l.w[e] * v
					}
				case mixInputs:
					dx := l.dx[rows+(m*k+g)*h:][:h]
					for q, v := range to {
						dx[q] += l.w[e] * v
					}
				default:
					var s T
					for q, v := range from {
						s += v * to[q]
					}
					l.dw[e] += s
				}
			}
		}
	}
}
