package toy

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
)

// words calls f for the packed row and the word of every place.
func words(a *device.GatherWords, f func(row, word int)) {
	p := a.Lengths.Packing()
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

// GatherWords computes that kernel.
func (d *Device) GatherWords(a device.GatherWords) {
	table, out := floats(a.Table), floats(a.Out)
	words(&a, func(row, w int) { copy(out[row*a.D:][:a.D], table[w*a.D:]) })
}

// ScatterWords computes that kernel.
func (d *Device) ScatterWords(a device.GatherWords) {
	table, out := floats(a.Table), floats(a.Out)
	clear(table)
	words(&a, func(row, w int) {
		for k, v := range out[row*a.D:][:a.D] {
			table[w*a.D+k] += v
		}
	})
}

// Dropout computes that kernel.
func (d *Device) Dropout(a device.Dropout) {
	half := ints(a.Step.View)
	step, limit := uint64(uint32(half[1]))<<32|uint64(uint32(half[0])), uint32(a.Rate*(1<<32))
	x, y := floats(a.X), floats(a.Y)
	for i, v := range x {
		at := uint64(a.First + i)
		if y[i] = v / (1 - a.Rate); a.Key.Block(step, at/4)[at%4] < limit {
			y[i] = 0
		}
	}
}

// SumSquares computes that kernel.
func (d *Device) SumSquares(acc, x device.View) {
	sum := 0.0
	for _, v := range floats(x) {
		sum += v * v
	}
	floats(acc)[0] += sum
}

// ClipCoefficient computes that kernel.
func (d *Device) ClipCoefficient(coef, norm, sumSquares device.View, maxNorm float64) {
	n := math.Sqrt(floats(sumSquares)[0])
	floats(norm)[0], floats(coef)[0] = n, min(1, maxNorm/(n+1e-6))
}

// Adam computes that kernel.
func (d *Device) Adam(a device.Adam) {
	hyper, clip := floats(a.Hyper), 1.0
	if a.Clip.Present() {
		clip = floats(a.Clip)[0]
	}
	step, inverse, decay := hyper[0], hyper[1], hyper[2]
	if a.Legacy {
		step, inverse = step/inverse, 1
	}
	p, g, m, v := floats(a.P), floats(a.G), floats(a.M), floats(a.V)
	for i := range p {
		x := clip * g[i]
		m[i] = a.Beta1*m[i] + (1-a.Beta1)*x
		v[i] = a.Beta2*v[i] + (1-a.Beta2)*x*x
		p[i] = p[i]*decay - step*m[i]/(math.Sqrt(v[i])*inverse+a.Eps)
	}
}
