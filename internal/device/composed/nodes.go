package composed

import (
	"math"

	"vsetrain/internal/device"
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

// geometry computes ρ and θ of all pairs on the host: they belong to the data.
func (k matching) geometry(a *device.PolarArgs) (rho, theta device.View) {
	boxes, n := k.host(a.B*a.R*4), a.B*a.R*a.R
	k.DownloadDoubles(boxes, a.Boxes)
	r, t := k.host(n), k.host(n)
	for i := range n {
		p, q := boxes[i/a.R*4:], boxes[(i/(a.R*a.R)*a.R+i%a.R)*4:]
		x, y := (p[0]+p[2])/2-(q[0]+q[2])/2, (p[1]+p[3])/2-(q[1]+q[3])/2
		r[i], t[i] = math.Sqrt(x*x+y*y), math.Atan2(x, y)
	}
	return k.upload(r), k.upload(t)
}

func (k matching) side(value, mean, precision device.View, n, kernels int, round bool) polarSide {
	size := n * kernels
	s := polarSide{x: k.floats(size), precision: precision.Slice(0, kernels), invert: k.floats(kernels),
		repeated: k.floats(size), round: round}
	k.spreadRows(s.x, value, n, kernels)
	k.repeat(s.repeated, mean.Slice(0, kernels), n, kernels)
	k.combine(s.x, s.x, s.repeated, 1, -1)
	k.Multiply(s.invert, s.precision, s.precision)
	k.apply(device.Reciprocal, 1e-14, s.invert, s.invert)
	k.repeat(s.repeated, s.invert, n, kernels)
	if s.d = s.x; round {
		s.d, s.abs, s.rest, s.other, s.shorter = k.floats(size), k.floats(size), k.floats(size), k.floats(size),
			k.floats(size)
		k.Activate(device.Abs, s.abs, s.x)
		k.times(s.rest, s.abs, -1)
		k.plus(s.rest, s.rest, 2*math.Pi)
		k.Activate(device.Abs, s.other, s.rest)
		k.combine(s.shorter, s.abs, s.other, 1, -1)
		k.Activate(device.ReLU, s.d, s.shorter)
		k.combine(s.d, s.abs, s.d, 1, -1)
		k.positive(s.shorter, s.shorter)
	}
	return s
}

// sideGrad computes the gradients of the mean and the precision from that of the exponents.
func (k matching) sideGrad(dMean, dPrecision, de device.View, s *polarSide, n, kernels int) {
	defer k.give(k.use())
	size, each := n*kernels, k.floats(kernels)
	x, dd := k.floats(size), k.floats(size)
	k.Multiply(dd, s.d, de)
	k.Multiply(x, dd, s.d)
	dp := dPrecision.Slice(0, kernels)
	k.sumAll(dp, x, n, kernels)
	k.Multiply(each, s.invert, s.invert)
	k.Multiply(each, each, s.precision)
	k.Multiply(dp, dp, each)

	k.Multiply(dd, dd, s.repeated) // -∂/∂d of the exponent
	if s.round {
		k.Multiply(x, dd, s.shorter)
		k.combine(dd, dd, x, 1, -1)
		k.ActivateGrad(device.Abs, x, s.rest, s.other, x)
		k.combine(dd, dd, x, 1, -1)
		k.ActivateGrad(device.Abs, dd, s.x, s.abs, dd)
	}
	k.sumAll(dMean.Slice(0, kernels), dd, n, kernels)
}

// kernels computes the weights [n, K] of all pairs.
func (k matching) kernels(w device.View, a *device.PolarArgs) (rho, theta polarSide) {
	n := a.B * a.R * a.R
	r, t := k.geometry(a)
	rho = k.side(r, a.MeanRho, a.PrecisionRho, n, a.K, false)
	theta = k.side(t, a.MeanTheta, a.PrecisionTheta, n, a.K, true)
	x := k.floats(w.N)
	for i, s := range [...]*polarSide{&rho, &theta} {
		k.Multiply(x, s.d, s.d)
		k.Multiply(x, x, s.repeated)
		if i == 0 {
			k.times(w, x, -0.5)
		} else {
			k.combine(w, w, x, 1, -0.5)
		}
	}
	k.softmax(w, w, 1, alongRows(n, a.K))
	return rho, theta
}

// PolarWeights implements device.Matching.
func (k matching) PolarWeights(a device.PolarArgs) {
	a.Views(k.check("PolarWeights"))
	defer k.give(k.use())
	w := k.floats(a.B * a.R * a.R * a.K)
	k.kernels(w, &a)
	if a.Sum {
		k.sumSegments(a.Weights, w, k.each(a.B*a.R, a.R), a.K)
		return
	}
	k.Copy(a.Weights, w)
}

// PolarWeightsGrad implements device.Matching.
func (k matching) PolarWeightsGrad(a device.PolarArgs) {
	a.Views(k.check("PolarWeightsGrad"))
	defer k.give(k.use())
	n := a.B * a.R * a.R
	w, d := k.floats(n*a.K), k.floats(n*a.K)
	rho, theta := k.kernels(w, &a)
	if a.Sum {
		k.spreadSegments(d, a.DWeights, k.each(a.B*a.R, a.R), a.K)
	} else {
		k.Copy(d, a.DWeights)
	}
	k.softmaxGrad(d, w, d, 1, alongRows(n, a.K))
	k.sideGrad(a.DMeanRho, a.DPrecisionRho, d, &rho, n, a.K)
	k.sideGrad(a.DMeanTheta, a.DPrecisionTheta, d, &theta, n, a.K)
}

// factors repeats the factors [A, N] in blocks [A, B, N, H].
func (k matching) factors(a *device.ScaleArgs) device.View {
	row, all := k.floats(a.A*a.N*a.H), k.floats(a.A*a.B*a.N*a.H)
	k.spreadRows(row, a.Factors, a.A*a.N, a.H)
	k.spreadSegments(all, row, k.each(a.A, a.B), a.N*a.H)
	return all
}

// ScaleBlocks implements device.Matching.
func (k matching) ScaleBlocks(a device.ScaleArgs) {
	a.Views(k.check("ScaleBlocks"))
	defer k.give(k.use())
	f := k.factors(&a)
	k.Multiply(a.Y, a.X, f)
}

// ScaleBlocksGrad implements device.Matching.
func (k matching) ScaleBlocksGrad(a device.ScaleArgs) {
	a.Views(k.check("ScaleBlocksGrad"))
	defer k.give(k.use())
	n := a.A * a.B * a.N * a.H
	dy := a.DY
	if a.DX.Present() {
		k.Multiply(a.DX, dy, k.factors(&a))
	}
	if a.DFactors.Present() {
		x, sums := k.floats(n), k.floats(a.A*a.N*a.H)
		k.Multiply(x, dy, a.X)
		k.sumSegments(sums, x, k.each(a.A, a.B), a.N*a.H)
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
func (k matching) mixes(a *device.MixArgs, f func(m mixed)) {
	t, captions, at, first := total(a.Lengths.Host), len(a.Lengths.Host), 0, 0
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

// nodes are those of pair p, all groups of them at once.
func (m *mixed) nodes(v device.View, p, width int) device.View {
	return rowsAt(v, m.row+p*m.step, m.n, width)
}

// MixNodes implements device.Matching.
func (k matching) MixNodes(a device.MixArgs) {
	a.Views(k.check("MixNodes"))
	defer k.give(k.use())
	k.mixes(&a, func(m mixed) { k.mix(&a, m, a.X, a.Y, false) })
}

// mix computes y = w x, or with transposed y = wᵀ x.
func (k matching) mix(a *device.MixArgs, m mixed, x, y device.View, transposed bool) {
	defer k.give(k.use())
	w, size, ld := k.floats(m.n*m.n*a.K), m.n*m.n, a.K*a.H
	k.SwapAxes(w, a.Weights.Slice(m.weights, m.weights+size*a.K), size, a.K, 1)
	for p := range m.pairs {
		k.Gemm(device.GemmArgs{TransA: transposed, M: m.n, N: a.H, K: m.n, Alpha: 1, A: w, StrideA: size,
			B: m.nodes(x, p, ld), LDB: ld, StrideB: a.H,
			C: m.nodes(y, p, ld), LDC: ld, StrideC: a.H, Batch: a.K, Exact: true})
	}
}

// MixNodesGrad implements device.Matching.
func (k matching) MixNodesGrad(a device.MixArgs) {
	a.Views(k.check("MixNodesGrad"))
	defer k.give(k.use())
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
func (k matching) mixWeights(a *device.MixArgs, m mixed) {
	defer k.give(k.use())
	size, ld := m.n*m.n, a.K*a.H
	d := k.filled(size*a.K, 0)
	for p := range m.pairs {
		k.Gemm(device.GemmArgs{TransB: true, M: m.n, N: m.n, K: a.H, Alpha: 1, Beta: 1, A: m.nodes(a.DY, p, ld),
			LDA: ld, StrideA: a.H,
			B: m.nodes(a.X, p, ld), LDB: ld, StrideB: a.H, C: d, StrideC: size, Batch: a.K, Exact: true})
	}
	k.SwapAxes(a.DWeights.Slice(m.weights, m.weights+size*a.K), d, a.K, size, 1)
}

// MeanNodes implements device.Matching.
func (k matching) MeanNodes(a device.NodeMeansArgs) {
	a.Views(k.check("MeanNodes"))
	defer k.give(k.use())
	k.SegmentMeans(a.Y, a.X, k.ofPairs(a.Lengths.Host, a.B, 0), a.H)
}

// MeanNodesGrad implements device.Matching.
func (k matching) MeanNodesGrad(a device.NodeMeansArgs) {
	a.Views(k.check("MeanNodesGrad"))
	defer k.give(k.use())
	k.SegmentMeansGrad(a.DX, a.DY, k.ofPairs(a.Lengths.Host, a.B, 0), a.H)
}

// WordGraph implements device.Matching.
func (k matching) WordGraph(a device.WordGraphArgs) {
	a.Views(k.check("WordGraph"))
	defer k.give(k.use())
	first, at := 0, 0
	for c, length := range a.Lengths.Host {
		n := int(length)
		words, w := rowsAt(a.Words, first, n, a.E), a.Weights.Slice(at, at+n*n)
		k.Gemm(device.GemmArgs{TransB: true, M: n, N: n, K: a.E, Alpha: a.Lambda, A: words, B: words, C: w,
			Exact: true})
		if a.Sparse {
			k.neighbours(w, &a, c, n)
		}
		k.softmax(w, w, 1, alongRows(n, n))
		first, at = first+n, at+n*n
	}
}

// neighbours takes the words out that are not joined.
func (k matching) neighbours(w device.View, a *device.WordGraphArgs, c, n int) {
	defer k.give(k.use())
	h := k.host(n * n)
	for i := range h {
		if h[i] = unattended; i/n == i%n {
			h[i] = 0
		}
	}
	for e := a.EdgeStart.Host[c]; e < a.EdgeStart.Host[c+1]; e++ {
		i, j := int(a.Edges.Host[2*e]), int(a.Edges.Host[2*e+1])
		h[i*n+j], h[j*n+i] = 0, 0
	}
	k.combine(w, w, k.upload(h), 1, 1)
}

// WordGraphGrad implements device.Matching.
func (k matching) WordGraphGrad(a device.WordGraphArgs) {
	a.Views(k.check("WordGraphGrad"))
	defer k.give(k.use())
	first, at := 0, 0
	for _, length := range a.Lengths.Host {
		n := int(length)
		m := k.use()
		words, d := rowsAt(a.Words, first, n, a.E), k.floats(n*n)
		k.softmaxGrad(d, a.Weights.Slice(at, at+n*n), a.DWeights.Slice(at, at+n*n), a.Lambda, alongRows(n, n))
		for i, transposed := range [...]bool{false, true} {
			k.Gemm(device.GemmArgs{TransA: transposed, M: n, N: a.E, K: n, Alpha: 1, Beta: float64(i), A: d, B: words,
				C: rowsAt(a.DWords, first, n, a.E), Exact: true})
		}
		k.give(m)
		first, at = first+n, at+n*n
	}
}
