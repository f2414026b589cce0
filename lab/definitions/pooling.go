package definitions

import (
	"cmp"
	"math"
	"slices"

	"vsetrain/internal/compute/device"
)

type pooling struct{ *Device }

// positions returns the index in [B, L] of every position, one sequence after the other.
func (k pooling) positions(a *device.PoolWeights) device.Ints {
	at := k.Numbers(device.Total(a.Lengths.Host))
	i := 0
	for b, n := range a.Lengths.Host {
		for t := range int(n) {
			at.Host[i] = int32(b*a.L + t)
			i++
		}
	}
	return k.Send(at)
}

func (k pooling) PoolWeights(a device.PoolWeights) {
	defer k.Give(k.Use())
	n := device.Total(a.Lengths.Host)
	scores := k.Floats(n)
	k.gather(scores, a.Scores, 1, k.packedRows(a.Lengths, false))
	k.softmax(scores, scores, 1/a.Temperature, alongSegments(a.Lengths, 1))
	k.scatter(a.Weights, scores, 1, k.positions(&a))
}

func (k pooling) PoolWeightsGrad(a device.PoolWeights) {
	defer k.Give(k.Use())
	n := device.Total(a.Lengths.Host)
	weights, d, at := k.Floats(n), k.Floats(n), k.positions(&a)
	k.gather(weights, a.Weights, 1, at)
	k.gather(d, a.DWeights, 1, at)
	k.softmaxGrad(d, weights, d, 1/a.Temperature, alongSegments(a.Lengths, 1))
	k.gather(a.DScores, d, 1, k.packedRows(a.Lengths, true))
}

// sorted is the order of all channels: from[i] is the index in X of the value at place i. An item has the places of its
// rows, with the greatest value first.
func (k pooling) sorted(a *device.SortPool) (from device.Ints) {
	t, d := device.Total(a.Lengths.Host), a.D
	x := k.Host(t * d)
	k.DownloadDoubles(x, a.X)
	from = k.Numbers(t * d)
	ranks := k.Numbers(t * d)
	most := 0
	for _, n := range a.Lengths.Host {
		most = max(most, int(n))
	}
	order := k.Numbers(most).Host
	first := 0
	for b, n := range a.Lengths.Host {
		for ch := range d {
			rows := order[:n]
			for p := range rows {
				rows[p] = int32(k.row(a, b, first, p)*d + ch)
			}
			slices.SortStableFunc(rows, func(p, q int32) int { return descending(x[p], x[q]) })
			for p, i := range rows {
				from.Host[(first+p)*d+ch], ranks.Host[i] = i, int32(p)
			}
		}
		first += int(n)
	}
	k.UploadInts(a.Ranks, ranks.Host)
	return k.Send(from)
}

// descending orders the greater value first, NaN before all.
func descending(p, q float64) int {
	if p == q {
		return 0
	}
	if math.IsNaN(p) || math.IsNaN(q) {
		return cmp.Compare(p, q)
	}
	return cmp.Compare(q, p)
}

// row is the row in X of row p of item b; first is the number of rows of earlier items.
func (k pooling) row(a *device.SortPool, b, first, p int) int {
	if a.Packed {
		return a.Lengths.Packing().Start(p) + b
	}
	return first + p
}

// SortPool sorts on the host.
func (k pooling) SortPool(a device.SortPool) {
	defer k.Give(k.Use())
	t, d := device.Total(a.Lengths.Host), a.D
	values := k.Floats(t * d)
	k.gather(values, a.X, 1, k.sorted(&a))
	first := 0
	for b, length := range a.Lengths.Host {
		n := int(length)
		device.Do(k, device.Gemm{M: 1, N: d, K: n, Alpha: 1, A: k.weights(a.Weights, &a, n), B: values.Slice(first*d,
			(first+n)*d),
			C: a.Y.Slice(b*d, (b+1)*d), Exact: true})
		first += n
	}
}

// weights are the weights of items of n rows.
func (k pooling) weights(w device.View, a *device.SortPool, n int) device.View {
	return w.Slice((a.K-n)*a.K, (a.K-n)*a.K+n)
}

func (k pooling) SortPoolGrad(a device.SortPool) {
	defer k.Give(k.Use())
	t, d := device.Total(a.Lengths.Host), a.D
	from, to := k.Numbers(t*d), k.Numbers(t*d) // of the values in sorted order; and back
	k.DownloadInts(to.Host, a.Ranks)
	first := 0
	for b, n := range a.Lengths.Host {
		for p := range int(n) {
			row := k.row(&a, b, first, p)
			for ch := range d {
				slot := (first+int(to.Host[row*d+ch]))*d + ch
				from.Host[slot], to.Host[row*d+ch] = int32(row*d+ch), int32(slot)
			}
		}
		first += int(n)
	}
	k.Send(from)
	k.Send(to)
	values, grads := k.Floats(t*d), k.Floats(t*d)
	k.gather(values, a.X, 1, from)
	if a.DWeights.Present() {
		device.Do(k, device.Fill{Dst: a.DWeights})
	}
	first = 0
	for b, length := range a.Lengths.Host {
		n, dy := int(length), a.DY.Slice(b*d, (b+1)*d)
		if a.DWeights.Present() {
			device.Do(k, device.Gemm{TransB: true, M: n, N: 1, K: d, Alpha: 1, Beta: 1, A: values.Slice(first*d,
				(first+n)*d), B: dy,
				C: k.weights(a.DWeights, &a, n), Exact: true})
		}
		if a.DX.Present() {
			device.Do(k, device.Gemm{M: n, N: d, K: 1, Alpha: 1, A: k.weights(a.Weights, &a, n), B: dy,
				C: grads.Slice(first*d, (first+n)*d), Exact: true})
		}
		first += n
	}
	if a.DX.Present() {
		k.gather(a.DX, grads, 1, to)
	}
}
