package composed

import "vsetrain/internal/compute/device"

type segments struct{ *Device }

// shares uploads 1/count of every segment.
func (d *Device) shares(counts []int32) device.View {
	h := d.host(len(counts))
	for i, n := range counts {
		h[i] = 1 / float64(n)
	}
	return d.upload(h)
}

// SegmentMeans composes that kernel.
func (k segments) SegmentMeans(a device.SegmentMeans) {
	defer k.give(k.use())
	k.sumSegments(a.Means, a.Rows, a.Counts, a.D)
	k.timesRows(a.Means, a.Means, k.shares(a.Counts.Host), len(a.Counts.Host), a.D)
}

// SegmentMeansGrad composes that kernel.
func (k segments) SegmentMeansGrad(a device.SegmentMeans) {
	defer k.give(k.use())
	b := len(a.Counts.Host)
	share := k.floats(b * a.D)
	k.timesRows(share, a.Means, k.shares(a.Counts.Host), b, a.D)
	k.spreadSegments(a.Rows, share, a.Counts, a.D)
}

// GatedPool composes that kernel.
func (k segments) GatedPool(a device.GatedPool) {
	defer k.give(k.use())
	t, d := device.Total(a.Counts.Host), a.D
	x, weights := k.floats(t*d), a.Weights
	k.spreadSegments(x, a.G, a.Counts, d)
	device.Do(k, device.Multiply{Dst: x, A: x, B: a.L})
	device.Do(k, device.Gemm{TransB: true, M: t, N: 1, K: d, Alpha: 1, A: x, B: a.W, C: weights, Exact: true})
	k.softmax(weights, weights, 1, alongSegments(a.Counts, 1))
	k.timesRows(x, a.X, weights, t, d)
	k.sumSegments(a.Out, x, a.Counts, d)
}

// GatedPoolGrad composes that kernel.
func (k segments) GatedPoolGrad(a device.GatedPool) {
	defer k.give(k.use())
	t, d, weights := device.Total(a.Counts.Host), a.D, a.Weights
	dOut, gate, de := k.floats(t*d), k.floats(t*d), k.floats(t)
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
	from := d.numbers(p.Rows())
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
	return d.send(from)
}

// UnpackWords composes that kernel.
func (k segments) UnpackWords(a device.UnpackWords) {
	defer k.give(k.use())
	k.gather(a.Dst, a.Src, a.D, k.packedRows(a.Lengths, a.Back))
}

// SegmentProducts composes that kernel: a product for each segment.
func (k segments) SegmentProducts(a device.SegmentProducts) {
	first := 0
	for _, count := range a.Counts.Host {
		n := int(count)
		x, y := a.A.Slice(first*a.D, (first+n)*a.D), a.B.Slice(first*a.D, (first+n)*a.D)
		g := a.G.Slice(first*a.Longest, (first+n-1)*a.Longest+n)
		switch a.Form {
		case device.SegmentGram:
			device.Do(k, device.Gemm{TransB: true, M: n, N: n, K: a.D, Alpha: 1, A: x, B: y, C: g, LDC: a.Longest,
				Exact: true})
		case device.SegmentApply, device.SegmentApplyT:
			device.Do(k, device.Gemm{TransA: a.Form == device.SegmentApplyT, M: n, N: a.D, K: n, Alpha: 1, A: g,
				LDA: a.Longest, B: x, C: y, Exact: true})
		}
		first += n
	}
}
