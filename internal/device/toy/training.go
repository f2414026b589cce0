package toy

import (
	"fmt"
	"math"

	"vsetrain/internal/device"
)

// words calls f for the packed row and the word of every place.
func words(a *device.GatherArgs, f func(row, word int)) {
	p := a.Lengths.Packing()
	if p.Steps() > a.L {
		panic(fmt.Sprintf("toy: a caption of %d words, expected at most %d", p.Steps(), a.L))
	}
	for t := range p.Steps() {
		for b := range p.Active(t) {
			w := int(a.Words.Host[b*a.L+t])
			if w < 0 || w >= a.V {
				panic(fmt.Sprintf("toy: word %d of caption %d at %d, expected less than %d", w, b, t, a.V))
			}
			f(p.Start(t)+b, w)
		}
	}
}

// GatherWords implements device.Tables.
func (d *Device) GatherWords(a device.GatherArgs) {
	table, out := d.floats(a.Table, a.V*a.D), d.floats(a.Out, a.Lengths.Packing().Rows()*a.D)
	words(&a, func(row, w int) { copy(out[row*a.D:][:a.D], table[w*a.D:]) })
}

// ScatterWords implements device.Tables.
func (d *Device) ScatterWords(a device.GatherArgs) {
	table, out := d.floats(a.Table, a.V*a.D), d.floats(a.Out, a.Lengths.Packing().Rows()*a.D)
	clear(table)
	words(&a, func(row, w int) {
		for k, v := range out[row*a.D:][:a.D] {
			table[w*a.D+k] += v
		}
	})
}

// Dropout implements device.Random.
func (d *Device) Dropout(a device.DropoutArgs) {
	if !(a.Rate >= 0 && a.Rate < 1) || a.First < 0 {
		panic(fmt.Sprintf("toy: Dropout: rate %v from element %d", a.Rate, a.First))
	}
	half := d.ints(a.Step.View, 2)
	step, limit := uint64(uint32(half[1]))<<32|uint64(uint32(half[0])), uint32(a.Rate*(1<<32))
	x, y := d.exactly(a.X, a.Y.N), d.floats(a.Y, -1)
	for i, v := range x {
		at := uint64(a.First + i)
		if y[i] = v / (1 - a.Rate); a.Key.Block(step, at/4)[at%4] < limit {
			y[i] = 0
		}
	}
}

// SumSquares implements device.Optimiser.
func (d *Device) SumSquares(acc, x device.View) {
	sum := 0.0
	for _, v := range d.floats(x, -1) {
		sum += v * v
	}
	d.floats(acc, 1)[0] += sum
}

// ClipCoefficient implements device.Optimiser.
func (d *Device) ClipCoefficient(coef, norm, sumSquares device.View, maxNorm float64) {
	n := math.Sqrt(d.floats(sumSquares, 1)[0])
	d.floats(norm, 1)[0], d.floats(coef, 1)[0] = n, min(1, maxNorm/(n+1e-6))
}

// Adam implements device.Optimiser.
func (d *Device) Adam(a device.AdamArgs) {
	n, hyper, clip := a.P.N, d.floats(a.Hyper, 3), 1.0
	if c := d.optional(a.Clip, 1); c != nil {
		clip = c[0]
	}
	step, inverse, decay := hyper[0], hyper[1], hyper[2]
	if a.Legacy {
		step, inverse = step/inverse, 1
	}
	p, g, m, v := d.floats(a.P, -1), d.exactly(a.G, n), d.exactly(a.M, n), d.exactly(a.V, n)
	for i := range p {
		x := clip * g[i]
		m[i] = a.Beta1*m[i] + (1-a.Beta1)*x
		v[i] = a.Beta2*v[i] + (1-a.Beta2)*x*x
		p[i] = p[i]*decay - step*m[i]/(math.Sqrt(v[i])*inverse+a.Eps)
	}
}
