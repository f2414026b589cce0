package definitions

import "vsetrain/internal/compute/device"

// ofPairs returns the numbers of rows of all pairs, more than words by the given number.
func (d *Device) ofPairs(lengths []int32, b, more int) device.Ints {
	counts := d.Numbers(len(lengths) * b)
	for i := range counts.Host {
		counts.Host[i] = lengths[i%len(lengths)] + int32(more)
	}
	return d.Send(counts)
}

// reasoning are the intermediate values of GraphReason for the nodes of all pairs, n rows in all.
type reasoning struct {
	counts device.Ints
	n      int
	shape  device.SegmentProducts
	y      device.View // X M + v
	p      device.View // softmax(Y Xᵀ), rows of Longest
	mixed  device.View // what goes into the last layer, of the nodes that are wanted
	first  device.Ints // with First the first node of every pair
	rows   int         // that are wanted
}

func (k pairs) reason(a *device.GraphReason) reasoning {
	r := reasoning{counts: k.ofPairs(a.Lengths.Host, a.B, 1)}
	longest := 0
	for _, n := range r.counts.Host {
		longest = max(longest, int(n))
	}
	r.n = device.Total(r.counts.Host)
	r.shape = device.SegmentProducts{D: a.S, Longest: longest, Counts: r.counts}
	r.y, r.p, r.mixed, r.rows = k.Floats(r.n*a.S), k.Filled(r.n*longest, unattended), k.Floats(r.n*a.S), r.n
	v := k.Floats(r.n * a.S)
	device.Do(k, device.Gemm{M: r.n, N: a.S, K: a.S, Alpha: 1, A: a.X, B: a.M, C: r.y})
	k.repeat(v, a.V, r.n, a.S)
	k.combine(r.y, r.y, v, 1, 1)
	k.products(r.shape, device.SegmentGram, r.y, a.X, r.p)
	k.softmax(r.p, r.p, 1, alongRows(r.n, longest))
	k.products(r.shape, device.SegmentApply, a.X, r.mixed, r.p)
	if a.First {
		r.rows = len(r.counts.Host)
		r.first = k.Numbers(r.rows)
		at := 0
		for i, n := range r.counts.Host {
			r.first.Host[i] = int32(at)
			at += int(n)
		}
		k.Send(r.first)
		k.gather(v.Slice(0, r.rows*a.S), r.mixed, a.S, r.first)
		r.mixed = v.Slice(0, r.rows*a.S)
	}
	return r
}

// products calls SegmentProducts.
func (k pairs) products(s device.SegmentProducts, form device.SegmentForm, a, b, g device.View) {
	s.Form, s.A, s.B, s.G = form, a, b, g
	device.Do(k, s)
}

func (k pairs) GraphReason(a device.GraphReason) {
	defer k.Give(k.Use())
	r := k.reason(&a)
	device.Do(k, device.Gemm{TransB: true, M: r.rows, N: a.S, K: a.S, Alpha: 1, A: r.mixed, B: a.W, C: a.Out,
		Bias: a.Bias})
	device.Do(k, device.Activate{F: device.ReLU, Y: a.Out, X: a.Out})
	if a.Y.Present() && !a.First {
		device.Do(k, device.Copy{Dst: a.Y, Src: r.y})
	}
}

// GraphReasonGrad recomputes everything.
func (k pairs) GraphReasonGrad(a device.GraphReason) {
	defer k.Give(k.Use())
	r := k.reason(&a)
	s, x, dx := a.S, a.X, a.DX
	dz, de := k.Floats(r.rows*s), k.Floats(r.rows*s)
	device.DoGrad(k, device.Activate{F: device.ReLU, DX: dz, X: a.Out, DY: a.DOut}) // Out > 0 where its argument is
	if a.DBias.Present() {
		k.sumAll(a.DBias, dz, r.rows, s)
	}
	if a.DW.Present() {
		device.Do(k, device.Gemm{TransA: true, M: s, N: s, K: r.rows, Alpha: 1, A: dz, B: r.mixed, C: a.DW})
	}
	device.Do(k, device.Gemm{M: r.rows, N: s, K: s, Alpha: 1, A: dz, B: a.W, C: de})
	if a.First {
		all := k.Floats(r.n * s)
		k.scatter(all, de, s, r.first)
		de = all
	}
	dp, dy, more := k.Filled(r.p.N, 0), k.Floats(r.n*s), k.Floats(r.n*s)
	k.products(r.shape, device.SegmentGram, de, x, dp)
	k.products(r.shape, device.SegmentApplyT, de, dx, r.p)
	k.softmaxGrad(dp, r.p, dp, 1, alongRows(r.n, r.shape.Longest))
	k.products(r.shape, device.SegmentApply, x, dy, dp)
	k.products(r.shape, device.SegmentApplyT, r.y, more, dp)
	k.combine(dx, dx, more, 1, 1)
	device.Do(k, device.Gemm{TransB: true, M: r.n, N: s, K: s, Alpha: 1, Beta: 1, A: dy, B: a.M, C: dx})
	if a.DM.Present() {
		device.Do(k, device.Gemm{TransA: true, M: s, N: s, K: r.n, Alpha: 1, A: x, B: dy, C: a.DM})
	}
	if a.DV.Present() {
		k.sumAll(a.DV, dy, r.n, s)
	}
}

// filtration are the values of Filtrate caption by caption, and within a caption image by image.
type filtration struct {
	n        int
	from, to device.Ints // the node of every value, and the value of every node
	pairs    device.Ints // values of every pair
	captions device.Ints // values of every caption
	z        device.View // logits
}

func (k pairs) filtration(a *device.Filtrate) filtration {
	per := device.Total(a.Lengths.Host) + len(a.Lengths.Host) // nodes of an image
	f := filtration{n: a.B * per}
	f.from, f.to = k.Numbers(f.n), k.Numbers(f.n)
	f.pairs, f.captions = k.Numbers(a.B*len(a.Lengths.Host)), k.Numbers(len(a.Lengths.Host))
	at, first := 0, 0
	for c, length := range a.Lengths.Host {
		n := int(length) + 1
		f.captions.Host[c] = int32(a.B * n)
		for i := range a.B {
			f.pairs.Host[c*a.B+i] = int32(n)
			for j := range n {
				node := i*per + first + j
				f.from.Host[at], f.to.Host[node] = int32(node), int32(at)
				at++
			}
		}
		first += n
	}
	for _, x := range [...]device.Ints{f.from, f.to, f.pairs, f.captions} {
		k.Send(x)
	}
	f.z = k.Floats(f.n)
	k.gather(f.z, a.Logits, 1, f.from)
	return f
}

// each calls a batch normalisation of one channel for every caption.
func (f *filtration) each(a *device.Filtrate, call func(c int, b device.BatchNorm, lo, hi int)) {
	at := 0
	for c, n := range f.captions.Host {
		b := device.BatchNorm{Outer: int(n), C: 1, Inner: 1, Eps: a.Eps, Momentum: a.Momentum, Train: a.Train,
			Weight: a.Gamma, RunningMean: a.RunningMean, RunningVar: a.RunningVar, Mean: a.Mean.Slice(c, c+1),
			InvStd: a.InvStd.Slice(c, c+1)}
		call(c, b, at, at+int(n))
		at += int(n)
	}
}

func (k pairs) Filtrate(a device.Filtrate) {
	defer k.Give(k.Use())
	f := k.filtration(&a)
	h, per := k.Floats(f.n), k.Floats(len(f.pairs.Host))
	f.each(&a, func(_ int, b device.BatchNorm, lo, hi int) {
		b.X, b.Y, b.Bias = f.z.Slice(lo, hi), h.Slice(lo, hi), a.Beta
		device.Do(k, b)
	})
	device.Do(k, device.Activate{F: device.Sigmoid, Y: h, X: h})
	k.sumSegments(per, h, f.pairs, 1)
	k.apply(device.Reciprocal, smallest, per, per)
	timesEach(k.Device, h, h, per, alongSegments(f.pairs, 1))
	k.gather(a.Weights, h, 1, f.to)
	n := len(f.pairs.Host)
	sums := k.Floats(n * a.S)
	k.sums(sums, a.Weights, &a)
	k.unitOf(a.Out, sums, a.Norms, n, a.S)
}

// sums adds the weighted nodes of every pair.
func (k pairs) sums(dst, weights device.View, a *device.Filtrate) {
	defer k.Give(k.Use())
	x := k.Floats(weights.N * a.S)
	k.timesRows(x, a.X, weights, weights.N, a.S)
	k.sumSegments(dst, x, k.ofPairs(a.Lengths.Host, a.B, 1), a.S)
}

func (k pairs) FiltrateGrad(a device.Filtrate) {
	defer k.Give(k.Use())
	f := k.filtration(&a)
	n, weights := len(f.pairs.Host), a.Weights
	sums, dSums, all := k.Floats(n*a.S), a.DSums, k.Floats(f.n*a.S)
	k.sums(sums, weights, &a)
	k.unitOfGrad(dSums, sums, a.Norms, a.DOut, n, a.S)
	k.spreadSegments(all, dSums, k.ofPairs(a.Lengths.Host, a.B, 1), a.S)
	dw, w, d, h := k.Floats(f.n), k.Floats(f.n), k.Floats(f.n), k.Floats(f.n)
	k.dotRows(dw, a.X, all, f.n, a.S)
	k.gather(d, dw, 1, f.from)
	k.gather(w, weights, 1, f.from)

	per, pairs := k.Floats(n), alongSegments(f.pairs, 1)
	k.gates(h, &f, &a)
	dotAlong(k.Device, per, d, w, pairs)
	k.combine(d, d, spread(k.Device, per, pairs), 1, -1)
	k.sumSegments(per, h, f.pairs, 1)
	k.apply(device.Reciprocal, smallest, per, per)
	timesEach(k.Device, d, d, per, pairs)
	device.DoGrad(k, device.Activate{F: device.Sigmoid, DX: d, Y: h, DY: d})

	dGamma, dBeta := k.Floats(len(a.Lengths.Host)), k.Floats(len(a.Lengths.Host))
	f.each(&a, func(c int, b device.BatchNorm, lo, hi int) {
		b.X, b.DY, b.DX, b.DWeight, b.DBias = f.z.Slice(lo, hi), d.Slice(lo, hi), w.Slice(lo, hi), dGamma.Slice(c,
			c+1), dBeta.Slice(c, c+1)
		device.DoGrad(k, b)
	})
	k.gather(a.DLogits, w, 1, f.to)
	k.sumRows(a.DBias, w, 1, f.n)
	k.sumRows(a.DGamma, dGamma, 1, dGamma.N)
	k.sumRows(a.DBeta, dBeta, 1, dBeta.N)
}

// gates computes h = σ(BN(z)) from the stored statistics.
func (k pairs) gates(h device.View, f *filtration, a *device.Filtrate) {
	defer k.Give(k.Use())
	captions, all := alongSegments(f.captions, 1), alongRows(1, f.n)
	k.combine(h, f.z, spread(k.Device, a.Mean, captions), 1, -1)
	timesEach(k.Device, h, h, a.InvStd, captions)
	timesEach(k.Device, h, h, a.Gamma, all)
	k.combine(h, h, spread(k.Device, a.Beta, all), 1, 1)
	device.Do(k, device.Activate{F: device.Sigmoid, Y: h, X: h})
}
