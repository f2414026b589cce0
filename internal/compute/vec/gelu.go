package vec

import "math"

// GELU (Hendrycks, Gimpel: "Gaussian Error Linear Units", 2016), the exact form with the error function:
//
//	x·Φ(x) = max(0, x) - |x|·q    dx·Φ/dx = Φ(x) + x·e^(-x²/2)/√(2π)    q = Φ(-|x|) = erfc(|x|/√2)/2
//
// In float32 ln q is a polynomial in |x|, fitted on [0, 9] so that the largest error of |x|·q is least, 4e-9 before
// rounding and below 1e-7 with it; beyond 9, where q is 1e-19, it stays as it is.
const (
	phiLimit     = 9
	inverseRoot  = 0.39894228040143267794 // 1/√(2π)
	squareFactor = -0.5
)

// lnPhi are the coefficients of ln q, highest power first.
var lnPhi = [...]float32{-1.515536319e-08, 4.976760692e-07, -6.798317827e-06, 4.939537394e-05, -0.0001839578617,
	-1.748203431e-05,
	0.004834793042, -0.03636233136, -0.3183034062, -0.7978851199, -0.6931471825}

// tail32 is q for t = |x|.
func tail32(t float32) float32 {
	t = min(t, phiLimit)
	p := lnPhi[0]
	for _, c := range lnPhi[1:] {
		p = p*t + c
	}
	return exp32(p)
}

func tail64(t float64) float64 { return math.Erfc(t/math.Sqrt2) / 2 }

func gelu[T Float](tail func(T) T) func(x T) T {
	return func(x T) T {
		t := x
		if t < 0 {
			t = -t
		}
		return max(0, x) - t*tail(t)
	}
}

func geluSlope[T Float](tail, exp func(T) T) func(d, of, dy []T) {
	return func(d, of, dy []T) {
		of, dy = of[:len(d)], dy[:len(d)]
		for i, x := range of {
			phi := x
			if x < 0 {
				phi = tail(-x)
			} else {
				phi = 1 - tail(x)
			}
			d[i] = dy[i] * (phi + x*exp(squareFactor*x*x)*inverseRoot)
		}
	}
}
