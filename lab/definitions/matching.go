package definitions

import "vsetrain/internal/compute/device"

type matching struct{ *Device }

// cosines are the cosines of n pairs of rows, x·y / max(‖x‖‖y‖, 1e-8), with what their gradient needs.
type cosines struct {
	n, width     int
	x, y         device.View // [n, width]
	dot, nx, ny  device.View // [n]
	norm, invert device.View // ‖x‖‖y‖, and 1/max(norm, 1e-8)
}

// cosine computes out [n]; ny [n] keeps the norms of y.
func (k matching) cosine(out, x, y, ny device.View, n, width int) cosines {
	c := cosines{n: n, width: width, x: x, y: y, dot: k.Floats(n), nx: k.Floats(n), ny: ny, norm: k.Floats(n),
		invert: k.Floats(n)}
	k.dotRows(c.dot, x, y, n, width)
	k.norms(c.nx, x, alongRows(n, width))
	k.norms(c.ny, y, alongRows(n, width))
	device.Do(k, device.Multiply{Dst: c.norm, A: c.nx, B: c.ny})
	k.apply(device.Inverse, smallest, c.invert, c.norm)
	device.Do(k, device.Multiply{Dst: out, A: c.dot, B: c.invert})
	return c
}

// cosineGrad writes the gradients of x and y.
func (k matching) cosineGrad(dx, dy, dOut device.View, c cosines) {
	defer k.Give(k.Use())
	each, dNorm := k.Floats(c.n), k.Floats(c.n)
	device.Do(k, device.Multiply{Dst: each, A: dOut, B: c.invert})
	k.timesRows(dx, c.y, each, c.n, c.width)
	k.timesRows(dy, c.x, each, c.n, c.width)
	device.Do(k, device.Multiply{Dst: each, A: dOut, B: c.dot})
	k.applyGrad(device.Inverse, smallest, dNorm, c.norm, c.invert, each)
	device.Do(k, device.Multiply{Dst: each, A: dNorm, B: c.ny})
	k.normsGrad(dx, c.x, c.nx, each, alongRows(c.n, c.width))
	device.Do(k, device.Multiply{Dst: each, A: dNorm, B: c.nx})
	k.normsGrad(dy, c.y, c.ny, each, alongRows(c.n, c.width))
}

// wordNodes are the nodes of the words and their contexts.
func (k matching) wordNodes(a *device.BlockMatch, t int) (words, contexts device.View) {
	words, contexts = k.Floats(a.B*t*a.E), k.Floats(a.B*t*a.E)
	k.spreadSegments(words, a.Words, k.Each(1, a.B), t*a.E)
	device.Do(k, device.Gemm{M: t, N: a.E, K: a.R, Alpha: 1, A: a.WordAttention, LDA: a.B * a.R, StrideA: a.R,
		B: a.Regions, StrideB: a.R * a.E, C: contexts, StrideC: t * a.E, Batch: a.B})
	return words, contexts
}

// regionNodes are the nodes of the regions.
func (k matching) regionNodes(a *device.BlockMatch) (regions, contexts device.View) {
	captions := len(a.Lengths.Host)
	size := a.B * captions * a.R * a.E
	regions, contexts = k.Floats(size), k.Floats(size)
	k.spreadSegments(regions, a.Regions, k.Each(a.B, captions), a.R*a.E)
	k.eachCaption(a, func(c, first, n int) {
		device.Do(k, device.Gemm{TransA: true, M: a.R, N: a.E, K: n, Alpha: 1, A: rowsAt(a.RegionAttention, first, n,
			a.B*a.R), LDA: a.B * a.R,
			StrideA: a.R, B: rowsAt(a.Words, first, n, a.E), C: after(contexts, c*a.R*a.E),
			StrideC: captions * a.R * a.E, Batch: a.B})
	})
	return regions, contexts
}

// rowsAt are n rows from the first on.
func rowsAt(v device.View, first, n, width int) device.View {
	return v.Slice(first*width, (first+n)*width)
}

func (k matching) eachCaption(a *device.BlockMatch, f func(c, first, n int)) {
	first := 0
	for c, n := range a.Lengths.Host {
		f(c, first, int(n))
		first += int(n)
	}
}

func (k matching) BlockMatch(a device.BlockMatch) {
	defer k.Give(k.Use())
	t, width := device.Total(a.Lengths.Host), a.E/a.Blocks
	x, y := k.wordNodes(&a, t)
	n := a.B * t * a.Blocks
	k.cosine(a.WordMatch, x, y, a.WordNorm, n, width)
	x, y = k.regionNodes(&a)
	n = a.B * len(a.Lengths.Host) * a.R * a.Blocks
	k.cosine(a.RegionMatch, x, y, a.RegionNorm, n, width)
}

// BlockMatchGrad recomputes contexts and norms.
func (k matching) BlockMatchGrad(a device.BlockMatch) {
	defer k.Give(k.Use())
	t, width, captions := device.Total(a.Lengths.Host), a.E/a.Blocks, len(a.Lengths.Host)
	dWords, dRegions, ld := a.DWords, a.DRegions, a.B*a.R

	x, y := k.wordNodes(&a, t)
	dx, dy, n := k.Floats(x.N), k.Floats(x.N), a.B*t*a.Blocks
	k.cosineGrad(dx, dy, a.DWordMatch, k.cosine(k.Floats(n), x, y, k.Floats(n), n, width))
	k.sumAll(dWords, dx, a.B, t*a.E)
	device.Do(k, device.Gemm{TransA: true, M: a.R, N: a.E, K: t, Alpha: 1, A: a.WordAttention, LDA: ld, StrideA: a.R,
		B: dy, StrideB: t * a.E, C: dRegions, StrideC: a.R * a.E, Batch: a.B})
	device.Do(k, device.Gemm{TransB: true, M: t, N: a.R, K: a.E, Alpha: 1, A: dy, StrideA: t * a.E, B: a.Regions,
		StrideB: a.R * a.E, C: a.DWordAttention, LDC: ld, StrideC: a.R, Batch: a.B})

	x, y = k.regionNodes(&a)
	dx, dy, n = k.Floats(x.N), k.Floats(x.N), a.B*captions*a.R*a.Blocks
	k.cosineGrad(dx, dy, a.DRegionMatch, k.cosine(k.Floats(n), x, y, k.Floats(n), n, width))
	sums := k.Floats(a.B * a.R * a.E)
	k.sumSegments(sums, dx, k.Each(a.B, captions), a.R*a.E)
	k.combine(dRegions, dRegions, sums, 1, 1)
	k.eachCaption(&a, func(c, first, n int) {
		words, d := rowsAt(a.Words, first, n, a.E), after(dy, c*a.R*a.E)
		device.Do(k, device.Gemm{TransB: true, M: n, N: a.R, K: a.E, Alpha: 1, A: words, B: d,
			StrideB: captions * a.R * a.E, C: rowsAt(a.DRegionAttention, first, n, ld), LDC: ld, StrideC: a.R,
			Batch: a.B})
		for i := range a.B {
			device.Do(k, device.Gemm{M: n, N: a.E, K: a.R, Alpha: 1, Beta: 1, A: after(rowsAt(a.RegionAttention, first,
				n, ld), i*a.R), LDA: ld,
				B: after(d, i*captions*a.R*a.E), C: rowsAt(dWords, first, n, a.E)})
		}
	})
}
