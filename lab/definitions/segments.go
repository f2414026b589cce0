package definitions

import "vsetrain/internal/compute/device"

type segments struct{ *Device }

// shares uploads 1/count of every segment.
func (d *Device) shares(counts []int32) device.View {
	h := d.Host(len(counts))
	for i, n := range counts {
		h[i] = 1 / float64(n)
	}
	return d.Upload(h)
}

func (k segments) SegmentMeans(a device.SegmentMeans) {
	defer k.Give(k.Use())
	k.sumSegments(a.Means, a.Rows, a.Counts, a.D)
	k.timesRows(a.Means, a.Means, k.shares(a.Counts.Host), len(a.Counts.Host), a.D)
}

func (k segments) SegmentMeansGrad(a device.SegmentMeans) {
	defer k.Give(k.Use())
	b := len(a.Counts.Host)
	share := k.Floats(b * a.D)
	k.timesRows(share, a.Means, k.shares(a.Counts.Host), b, a.D)
	k.spreadSegments(a.Rows, share, a.Counts, a.D)
}

func (k segments) GatedPool(a device.GatedPool) {
	defer k.Give(k.Use())
	t, d := device.Total(a.Counts.Host), a.D
	x, weights := k.Floats(t*d), a.Weights
	k.spreadSegments(x, a.G, a.Counts, d)
	device.Do(k, device.Multiply{Dst: x, A: x, B: a.L})
	device.Do(k, device.Gemm{TransB: true, M: t, N: 1, K: d, Alpha: 1, A: x, B: a.W, C: weights, Exact: true})
	k.softmax(weights, weights, 1, alongSegments(a.Counts, 1))
	k.timesRows(x, a.X, weights, t, d)
	k.sumSegments(a.Out, x, a.Counts, d)
}

func (k segments) GatedPoolGrad(a device.GatedPool) {
	defer k.Give(k.Use())
	t, d, weights := device.Total(a.Counts.Host), a.D, a.Weights
	dOut, gate, de := k.Floats(t*d), k.Floats(t*d), k.Floats(t)
	k.spreadSegments(dOut, a.DOut, a.Counts, d)
	k.spreadSegments(gate, a.G, a.Counts, d)
	k.dotRows(de, a.X, dOut, t, d)
	k.softmaxGrad(de, weights, de, 1, alongSegments(a.Counts, 1))
	k.timesRows(a.DX, dOut, weights, t, d)
	x, l := dOut, a.L // dOut is done with
	device.Do(k, device.Multiply{Dst: x, A: l, B: gate})
	k.timesRows(x, x, de, t, d)
	k.sumSegments(a.DW, x, a.Counts, d)
	device.Do(k, device.Gemm{M: t, N: d, K: 1, Alpha: 1, A: de, B: a.W, C: x, Exact: true})
	device.Do(k, device.Multiply{Dst: a.DL, A: x, B: gate})
	device.Do(k, device.Multiply{Dst: x, A: x, B: l})
	k.sumSegments(a.DG, x, a.Counts, d)
}

// packedRows returns the packed row of every word, one caption after the other; back: the row of the words of captions
// one after the other for every packed row.
func (d *Device) packedRows(lengths device.Ints, back bool) device.Ints {
	p := lengths.Packing()
	from := d.Numbers(p.Rows())
	first := 0
	for b, n := range lengths.Host {
		for t := range int(n) {
			packed, word := p.Start(t)+b, first+t
			if back {
				from.Host[packed] = int32(word)
			} else {
				from.Host[word] = int32(packed)
			}
		}
		first += int(n)
	}
	return d.Send(from)
}

func (k segments) UnpackWords(a device.UnpackWords) {
	defer k.Give(k.Use())
	k.gather(a.Dst, a.Src, a.D, k.packedRows(a.Lengths, a.Back))
}
