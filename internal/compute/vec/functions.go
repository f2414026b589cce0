package vec

import "math"

// Scalar sigmoid and tanh. The float32 forms are the polynomials the assembly evaluates sixteen at a time (exponential
// and tanh of the Cephes library, S. L. Moshier), within 2 units in the last place; float64 uses package math.

const (
	expLow, expHigh = -87.3, 88.3 // beyond these e^x leaves the normal float32 range
	log2e           = 1.44269504088896341
	ln2High         = 0.693359375 // ln 2 in two parts: k·ln2High is exact for |k| < 2^15
	ln2Low          = -2.12194440e-4
	tanhSmall       = 0.625 // below, tanh is an odd polynomial; above, it comes from the exponential
)

// exp32 returns e^x: x = k·ln 2 + r, e^x = 2^k·e^r with a polynomial of degree 7 for |r| ≤ ln 2 / 2. Arguments beyond
// the float32 range are clamped.
func exp32(x float32) float32 {
	x = max(expLow, min(expHigh, x))
	k := float32(math.RoundToEven(float64(x * log2e)))
	r := x - k*ln2High
	r -= k * ln2Low
	p := float32(1.9875691500e-4)
	p = p*r + 1.3981999507e-3
	p = p*r + 8.3334519073e-3
	p = p*r + 4.1665795894e-2
	p = p*r + 1.6666665459e-1
	p = p*r + 5.0000001201e-1
	e := p*(r*r) + r + 1
	return e * math.Float32frombits(uint32(int32(k)+127)<<23)
}

func sigmoid32(x float32) float32 { return 1 / (1 + exp32(-x)) }

func tanh32(x float32) float32 {
	a := x
	if a < 0 {
		a = -a
	}
	if a < tanhSmall {
		s := x * x
		p := float32(-5.70498872745e-3)
		p = p*s + 2.06390887954e-2
		p = p*s + -5.37397155531e-2
		p = p*s + 1.33314422036e-1
		p = p*s + -3.33332819422e-1
		return p*s*x + x
	}
	y := 1 - 2/(exp32(2*a)+1)
	if x < 0 {
		return -y
	}
	return y // also carries NaN
}

func sigmoid64(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func mapWith[T Float](f func(T) T) func(y, x []T) {
	return func(y, x []T) {
		x = x[:len(y)]
		for i := range y {
			y[i] = f(x[i])
		}
	}
}

func goOps[T Float](exp, sigmoid, tanh, tail func(T) T) Ops[T] {
	value, slope := mapWith(gelu(tail)), geluSlope(tail, exp)
	return Ops[T]{
		Name:  "go",
		Fill:  fill[T],
		Add:   add[T],
		Mul:   mul[T],
		Scale: scale[T],
		Sum2:  sum2[T],
		Axpy:  axpy[T],
		MAdd:  madd[T],
		Hinge: hinge[T],
		Sumsq: sumsq[T],
		Dot:   dot[T],
		Order: order[T],
		Zero:  allZero[T],
		Fetch: func([]T) {},

		SquareDiff:     squareDiff[T],
		SquareDiffGrad: squareDiffGrad[T],
		Squares:        squares[T],

		Rank:     rank[T],
		PickMul:  pickMul[T],
		PickMAdd: pickMAdd[T],
		Dots:     dots[T],
		Mix:      mix[T],
		MixRows:  mixRows[T],
		Drop:     drop[T],
		Exp:      mapWith(exp),
		Map: [mapCount]func(y, x []T){
			ReLU: relu[T], Tanh: mapWith(tanh), Sigmoid: mapWith(sigmoid), Abs: abs[T],
			GELU: value,
		},
		Slope: [mapCount]func(d, of, dy []T){
			ReLU: reluSlope[T], Tanh: tanhSlope[T], Sigmoid: sigmoidSlope[T], Abs: absSlope[T],
			GELU: slope,
		},
		GELUGrad: func(d, y, x, dy []T) {
			slope(d, x, dy)
			value(y, x)
		},

		Softmax:     softmax(exp),
		SoftmaxGrad: softmaxGrad[T],

		Sum:        sum[T],
		SumDropped: sumDropped[T],
		Spread:     spread[T],
		Norm:       norm[T],
		NormSums:   normSums[T],
		NormGrad:   normGrad[T],

		Adam:        adam[T],
		GRUCell:     gruCell(sigmoid, tanh),
		GRUCellGrad: gruCellGrad[T],
	}
}

// go32 returns the plain Go kernels of float32.
func go32() *Ops[float32] {
	o := goOps(exp32, sigmoid32, tanh32, tail32)
	return &o
}

// Go64 returns the kernels of float64.
func Go64() *Ops[float64] {
	o := goOps(math.Exp, sigmoid64, math.Tanh, tail64)
	return &o
}
