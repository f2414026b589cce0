package definitions

import (
	"math"

	"vsetrain/internal/compute/device"
)

type optimiser struct{ *Device }

// Dropout draws on the host what is kept.
func (k optimiser) Dropout(a device.Dropout) {
	defer k.Give(k.Use())
	half, rows, factors := k.Numbers(2), k.Numbers(a.X.N/a.Width), k.Host(a.X.N)
	k.DownloadInts(half.Host, a.Step.View)
	k.DownloadInts(rows.Host, a.Rows)
	step, limit := uint64(uint32(half.Host[1]))<<32|uint64(uint32(half.Host[0])), uint32(a.Rate*(1<<32))
	for i := range factors {
		row := rows.Host[i/a.Width]
		at := uint64(row)<<32 + uint64(i%a.Width)
		if factors[i] = 1 / (1 - a.Rate); row < 0 || a.Key.Block(step, at/4)[at%4] < limit {
			factors[i] = 0
		}
	}
	device.Do(k, device.Multiply{Dst: a.Y, A: a.X, B: k.Upload(factors)})
}

func (k optimiser) SumSquares(a device.SumSquares) {
	device.Do(k, device.Gemm{TransB: true, M: 1, N: 1, K: a.X.N, Alpha: 1, Beta: 1, A: a.X, B: a.X, C: a.Sum,
		Exact: true})
}

// ClipCoefficient computes min(1, Most/n) as Most·1/max(n, Most).
func (k optimiser) ClipCoefficient(a device.ClipCoefficient) {
	k.apply(device.Sqrt, 0, a.Norm, a.SumSquares)
	k.plus(a.Coefficient, a.Norm, 1e-6)
	k.apply(device.Inverse, a.Most, a.Coefficient, a.Coefficient)
	k.times(a.Coefficient, a.Coefficient, a.Most)
}

// Adam checks on the host whether the coefficient is NaN (Guard).
func (k optimiser) Adam(a device.Adam) {
	defer k.Give(k.Use())
	g, x, step := k.Floats(a.P.N), k.Floats(a.P.N), k.Floats(1)
	device.Do(k, device.Copy{Dst: g, Src: a.G})
	if a.Clip.Present() {
		clip := k.Host(1)
		if k.DownloadDoubles(clip, a.Clip); math.IsNaN(clip[0]) {
			return
		}
		device.Do(k, device.Scale{Dst: g, X: g, Factor: a.Clip})
	}
	k.combine(a.M, a.M, g, a.Beta1, 1-a.Beta1)
	device.Do(k, device.Multiply{Dst: x, A: g, B: g})
	k.combine(a.V, a.V, x, a.Beta2, 1-a.Beta2)
	device.Do(k, device.Copy{Dst: step, Src: a.Hyper.Slice(0, 1)})
	k.apply(device.Sqrt, 0, x, a.V)
	if a.Legacy {
		inverse := k.Floats(1)
		k.apply(device.Reciprocal, 0, inverse, a.Hyper.Slice(1, 2))
		device.Do(k, device.Multiply{Dst: step, A: step, B: inverse})
	} else {
		device.Do(k, device.Scale{Dst: x, X: x, Factor: a.Hyper.Slice(1, 2)})
	}
	k.apply(device.Reciprocal, a.Eps, x, x)
	device.Do(k, device.Multiply{Dst: x, A: x, B: a.M})
	device.Do(k, device.Scale{Dst: x, X: x, Factor: step})
	device.Do(k, device.Scale{Dst: a.P, X: a.P, Factor: a.Hyper.Slice(2, 3)})
	k.combine(a.P, a.P, x, 1, -1)
}
