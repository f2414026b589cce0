package definitions

import (
	"math"

	"vsetrain/internal/compute/device"
)

// polarSide is one of the two coordinates of the kernels of the image graph: values [n, K] for n pairs of regions.
type polarSide struct {
	x         device.View // coordinate - mean
	d         device.View // its distance: x itself, or the shorter way round
	precision device.View // [K]
	invert    device.View // 1/(1e-14 + precision²), [K]
	repeated  device.View // that for every pair
	round     bool
	// The ways round: |x|, 2π - |x| and the absolute value of that, and 1 where it is the shorter one.
	abs, rest, other, shorter device.View
}

// geometry computes ρ and θ of all pairs on the host, as they are data.
func (k matching) geometry(a *device.PolarWeights) (rho, theta device.View) {
	boxes, n := k.Host(a.B*a.R*4), a.B*a.R*a.R
	k.DownloadDoubles(boxes, a.Boxes)
	r, t := k.Host(n), k.Host(n)
	for i := range n {
		p, q := boxes[i/a.R*4:], boxes[(i/(a.R*a.R)*a.R+i%a.R)*4:]
		x, y := (p[0]+p[2])/2-(q[0]+q[2])/2, (p[1]+p[3])/2-(q[1]+q[3])/2
		r[i], t[i] = math.Sqrt(x*x+y*y), math.Atan2(x, y)
	}
	return k.Upload(r), k.Upload(t)
}

func (k matching) side(value, mean, precision device.View, n, kernels int, round bool) polarSide {
	size := n * kernels
	s := polarSide{x: k.Floats(size), precision: precision.Slice(0, kernels), invert: k.Floats(kernels),
		repeated: k.Floats(size), round: round}
	k.spreadRows(s.x, value, n, kernels)
	k.repeat(s.repeated, mean.Slice(0, kernels), n, kernels)
	k.combine(s.x, s.x, s.repeated, 1, -1)
	device.Do(k, device.Multiply{Dst: s.invert, A: s.precision, B: s.precision})
	k.apply(device.Reciprocal, 1e-14, s.invert, s.invert)
	k.repeat(s.repeated, s.invert, n, kernels)
	if s.d = s.x; round {
		s.d, s.abs, s.rest, s.other, s.shorter = k.Floats(size), k.Floats(size), k.Floats(size), k.Floats(size),
			k.Floats(size)
		device.Do(k, device.Activate{F: device.Abs, Y: s.abs, X: s.x})
		k.times(s.rest, s.abs, -1)
		k.plus(s.rest, s.rest, 2*math.Pi)
		device.Do(k, device.Activate{F: device.Abs, Y: s.other, X: s.rest})
		k.combine(s.shorter, s.abs, s.other, 1, -1)
		device.Do(k, device.Activate{F: device.ReLU, Y: s.d, X: s.shorter})
		k.combine(s.d, s.abs, s.d, 1, -1)
		k.positive(s.shorter, s.shorter)
	}
	return s
}

// sideGrad computes the gradients of the mean and the precision from the gradient of the exponents.
func (k matching) sideGrad(dMean, dPrecision, de device.View, s *polarSide, n, kernels int) {
	defer k.Give(k.Use())
	size, each := n*kernels, k.Floats(kernels)
	x, dd := k.Floats(size), k.Floats(size)
	device.Do(k, device.Multiply{Dst: dd, A: s.d, B: de})
	device.Do(k, device.Multiply{Dst: x, A: dd, B: s.d})
	dp := dPrecision.Slice(0, kernels)
	k.sumAll(dp, x, n, kernels)
	device.Do(k, device.Multiply{Dst: each, A: s.invert, B: s.invert})
	device.Do(k, device.Multiply{Dst: each, A: each, B: s.precision})
	device.Do(k, device.Multiply{Dst: dp, A: dp, B: each})

	device.Do(k, device.Multiply{Dst: dd, A: dd, B: s.repeated}) // -∂/∂d of the exponent
	if s.round {
		device.Do(k, device.Multiply{Dst: x, A: dd, B: s.shorter})
		k.combine(dd, dd, x, 1, -1)
		device.DoGrad(k, device.Activate{F: device.Abs, DX: x, X: s.rest, Y: s.other, DY: x})
		k.combine(dd, dd, x, 1, -1)
		device.DoGrad(k, device.Activate{F: device.Abs, DX: dd, X: s.x, Y: s.abs, DY: dd})
	}
	k.sumAll(dMean.Slice(0, kernels), dd, n, kernels)
}

// kernels computes the weights [n, K] of all pairs.
func (k matching) kernels(w device.View, a *device.PolarWeights) (rho, theta polarSide) {
	n := a.B * a.R * a.R
	r, t := k.geometry(a)
	rho = k.side(r, a.MeanRho, a.PrecisionRho, n, a.K, false)
	theta = k.side(t, a.MeanTheta, a.PrecisionTheta, n, a.K, true)
	x := k.Floats(w.N)
	for i, s := range [...]*polarSide{&rho, &theta} {
		device.Do(k, device.Multiply{Dst: x, A: s.d, B: s.d})
		device.Do(k, device.Multiply{Dst: x, A: x, B: s.repeated})
		if i == 0 {
			k.times(w, x, -0.5)
		} else {
			k.combine(w, w, x, 1, -0.5)
		}
	}
	k.softmax(w, w, 1, alongRows(n, a.K))
	return rho, theta
}

func (k matching) PolarWeights(a device.PolarWeights) {
	defer k.Give(k.Use())
	w := k.Floats(a.B * a.R * a.R * a.K)
	k.kernels(w, &a)
	if a.Sum {
		k.sumSegments(a.Weights, w, k.Each(a.B*a.R, a.R), a.K)
		return
	}
	device.Do(k, device.Copy{Dst: a.Weights, Src: w})
}

func (k matching) PolarWeightsGrad(a device.PolarWeights) {
	defer k.Give(k.Use())
	n := a.B * a.R * a.R
	w, d := k.Floats(n*a.K), k.Floats(n*a.K)
	rho, theta := k.kernels(w, &a)
	if a.Sum {
		k.spreadSegments(d, a.DWeights, k.Each(a.B*a.R, a.R), a.K)
	} else {
		device.Do(k, device.Copy{Dst: d, Src: a.DWeights})
	}
	k.softmaxGrad(d, w, d, 1, alongRows(n, a.K))
	k.sideGrad(a.DMeanRho, a.DPrecisionRho, d, &rho, n, a.K)
	k.sideGrad(a.DMeanTheta, a.DPrecisionTheta, d, &theta, n, a.K)
}

// factors repeats the factors [A, N] in blocks [A, B, N, H].
func (k matching) factors(a *device.ScaleBlocks) device.View {
	row, all := k.Floats(a.A*a.N*a.H), k.Floats(a.A*a.B*a.N*a.H)
	k.spreadRows(row, a.Factors, a.A*a.N, a.H)
	k.spreadSegments(all, row, k.Each(a.A, a.B), a.N*a.H)
	return all
}

func (k matching) ScaleBlocks(a device.ScaleBlocks) {
	defer k.Give(k.Use())
	device.Do(k, device.Multiply{Dst: a.Y, A: a.X, B: k.factors(&a)})
}

func (k matching) ScaleBlocksGrad(a device.ScaleBlocks) {
	defer k.Give(k.Use())
	if a.DX.Present() {
		device.Do(k, device.Multiply{Dst: a.DX, A: a.DY, B: k.factors(&a)})
	}
	if a.DFactors.Present() {
		x, sums := k.Floats(a.A*a.B*a.N*a.H), k.Floats(a.A*a.N*a.H)
		device.Do(k, device.Multiply{Dst: x, A: a.DY, B: a.X})
		k.sumSegments(sums, x, k.Each(a.A, a.B), a.N*a.H)
		k.sumRows(a.DFactors, sums, a.A*a.N, a.H)
	}
}

// mixed is one set of weights, as a matrix for each group, and the pairs that use it.
type mixed struct {
	n       int // nodes
	weights int // the first of n·n·K values
	row     int // of the first pair; the next one is step rows on
	pairs   int
	step    int
}

// mixes calls f for every set of weights.
func (k matching) mixes(a *device.MixNodes, f func(m mixed)) {
	t, captions, at, first := device.Total(a.Lengths.Host), len(a.Lengths.Host), 0, 0
	if a.PerImage {
		n := int(a.Lengths.Host[0])
		for i := range a.B {
			f(mixed{n: n, weights: i * n * n * a.K, row: i * t, pairs: captions, step: n})
		}
		return
	}
	for _, length := range a.Lengths.Host {
		n := int(length)
		f(mixed{n: n, weights: at, row: first, pairs: a.B, step: t})
		at, first = at+n*n*a.K, first+n
	}
}

// nodes are the nodes of pair p, all groups of them at once.
func (m *mixed) nodes(v device.View, p, width int) device.View {
	return rowsAt(v, m.row+p*m.step, m.n, width)
}

func (k matching) MixNodes(a device.MixNodes) {
	defer k.Give(k.Use())
	k.mixes(&a, func(m mixed) { k.mix(&a, m, a.X, a.Y, false) })
}

// mix computes y = w x, or with transposed y = wᵀ x.
func (k matching) mix(a *device.MixNodes, m mixed, x, y device.View, transposed bool) {
	defer k.Give(k.Use())
	w, size, ld := k.Floats(m.n*m.n*a.K), m.n*m.n, a.K*a.H
	device.Do(k, device.SwapAxes{Dst: w, X: a.Weights.Slice(m.weights, m.weights+size*a.K), A: size, B: a.K, Inner: 1})
	for p := range m.pairs {
		device.Do(k, device.Gemm{TransA: transposed, M: m.n, N: a.H, K: m.n, Alpha: 1, A: w, StrideA: size,
			B: m.nodes(x, p, ld), LDB: ld, StrideB: a.H, C: m.nodes(y, p, ld), LDC: ld, StrideC: a.H, Batch: a.K,
			Exact: true})
	}
}

func (k matching) MixNodesGrad(a device.MixNodes) {
	defer k.Give(k.Use())
	k.mixes(&a, func(m mixed) {
		if a.DX.Present() {
			k.mix(&a, m, a.DY, a.DX, true)
		}
		if a.DWeights.Present() {
			k.mixWeights(&a, m)
		}
	})
}

// mixWeights adds the gradients of a set of weights over its pairs.
func (k matching) mixWeights(a *device.MixNodes, m mixed) {
	defer k.Give(k.Use())
	size, ld := m.n*m.n, a.K*a.H
	d := k.Filled(size*a.K, 0)
	for p := range m.pairs {
		device.Do(k, device.Gemm{TransB: true, M: m.n, N: m.n, K: a.H, Alpha: 1, Beta: 1, A: m.nodes(a.DY, p, ld),
			LDA: ld, StrideA: a.H, B: m.nodes(a.X, p, ld), LDB: ld, StrideB: a.H, C: d, StrideC: size, Batch: a.K,
			Exact: true})
	}
	device.Do(k, device.SwapAxes{Dst: a.DWeights.Slice(m.weights, m.weights+size*a.K), X: d, A: a.K, B: size, Inner: 1})
}

func (k matching) MeanNodes(a device.MeanNodes) {
	defer k.Give(k.Use())
	device.Do(k, device.SegmentMeans{Means: a.Y, Rows: a.X, Counts: k.ofPairs(a.Lengths.Host, a.B, 0), D: a.H})
}

func (k matching) MeanNodesGrad(a device.MeanNodes) {
	defer k.Give(k.Use())
	device.DoGrad(k, device.SegmentMeans{Rows: a.DX, Means: a.DY, Counts: k.ofPairs(a.Lengths.Host, a.B, 0), D: a.H})
}

func (k matching) WordGraph(a device.WordGraph) {
	defer k.Give(k.Use())
	first, at := 0, 0
	for c, length := range a.Lengths.Host {
		n := int(length)
		words, w := rowsAt(a.Words, first, n, a.E), a.Weights.Slice(at, at+n*n)
		device.Do(k, device.Gemm{TransB: true, M: n, N: n, K: a.E, Alpha: a.Lambda, A: words, B: words, C: w,
			Exact: true})
		if a.Sparse {
			k.neighbours(w, &a, c, n)
		}
		k.softmax(w, w, 1, alongRows(n, n))
		first, at = first+n, at+n*n
	}
}

// neighbours takes the words out that are not joined.
func (k matching) neighbours(w device.View, a *device.WordGraph, c, n int) {
	defer k.Give(k.Use())
	h := k.Host(n * n)
	for i := range h {
		if h[i] = unattended; i/n == i%n {
			h[i] = 0
		}
	}
	for e := a.EdgeStart.Host[c]; e < a.EdgeStart.Host[c+1]; e++ {
		i, j := int(a.Edges.Host[2*e]), int(a.Edges.Host[2*e+1])
		h[i*n+j], h[j*n+i] = 0, 0
	}
	k.combine(w, w, k.Upload(h), 1, 1)
}

func (k matching) WordGraphGrad(a device.WordGraph) {
	defer k.Give(k.Use())
	first, at := 0, 0
	for _, length := range a.Lengths.Host {
		n := int(length)
		m := k.Use()
		words, d := rowsAt(a.Words, first, n, a.E), k.Floats(n*n)
		k.softmaxGrad(d, a.Weights.Slice(at, at+n*n), a.DWeights.Slice(at, at+n*n), a.Lambda, alongRows(n, n))
		for i, transposed := range [...]bool{false, true} {
			device.Do(k, device.Gemm{TransA: transposed, M: n, N: a.E, K: n, Alpha: 1, Beta: float64(i), A: d, B: words,
				C: rowsAt(a.DWords, first, n, a.E), Exact: true})
		}
		k.Give(m)
		first, at = first+n, at+n*n
	}
}
