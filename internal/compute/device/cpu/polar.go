package cpu

import (
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// The Gaussian kernels of the image graph in polar coordinates (device.PolarWeights; GSMN, layers.py,
// GraphConvolution.get_gaussian_weights), in float64. The gradients of the parameters are summed for each image and
// then over the images, in order.
type polarLoop[T vec.Float] struct {
	a              device.PolarWeights
	boxes, weights []T
	param          [4][]T    // MeanRho, MeanTheta, PrecisionRho, PrecisionTheta
	parts          []float64 // [B, 4, K]
	work           []float64 // [workers, 3, K]
}

func (d *dev[T]) PolarWeights(a device.PolarWeights) { d.polarWeights(a, a.Weights) }

func (d *dev[T]) polarWeights(a device.PolarWeights, weights device.View) {
	l := &d.polar
	l.a, l.boxes, l.weights = a, d.values(a.Boxes), d.values(weights)
	l.param = [4][]T{d.values(a.MeanRho), d.values(a.MeanTheta), d.values(a.PrecisionRho), d.values(a.PrecisionTheta)}
	reserve(&l.work, d.pool.Threads()*3*a.K)
	reserve(&l.parts, 4*a.B*a.K)
	d.pool.For(a.B, l)
}

func (d *dev[T]) PolarWeightsGrad(a device.PolarWeights) {
	d.polarWeights(a, a.DWeights)
	l := &d.polar
	for p, v := range [4]device.View{a.DMeanRho, a.DMeanTheta, a.DPrecisionRho, a.DPrecisionTheta} {
		out := d.values(v)
		for k := range out {
			var s float64
			for b := range a.B {
				s += l.parts[(b*4+p)*a.K+k]
			}
			out[k] = T(s)
		}
	}
}

// relative is a region seen from another one, against one kernel.
// distances from the means of the kernel, and its variances
type relative struct{ rho, theta, rhoVar, thetaVar float64 }

func (l *polarLoop[T]) relative(rho, theta float64, k int) relative {
	p := relative{rho: rho - float64(l.param[0][k]), theta: theta - float64(l.param[1][k])}
	s, t := float64(l.param[2][k]), float64(l.param[3][k])
	p.rhoVar, p.thetaVar = 1e-14+s*s, 1e-14+t*t
	if a := math.Abs(p.theta); math.Abs(2*math.Pi-a) < a { // shorter the other way round
		p.theta -= math.Copysign(2*math.Pi, p.theta)
	}
	return p
}

func (p relative) exponent() float64 {
	return -p.rho*p.rho/(2*p.rhoVar) - p.theta*p.theta/(2*p.thetaVar)
}

func (l *polarLoop[T]) Do(worker, b int) {
	r, n := l.a.R, l.a.K
	work := l.work[worker*3*n:][:3*n]
	w, sum := work[:n], work[n:2*n]
	part := l.parts[b*4*n:][:4*n]
	clear(part)
	boxes := l.boxes[b*r*4:][:r*4]
	for i := range r {
		clear(sum)
		for j := range r {
			rho, theta := polar(boxes[i*4:], boxes[j*4:])
			top, total := math.Inf(-1), 0.0
			for k := range w {
				w[k] = l.relative(rho, theta, k).exponent()
				top = max(top, w[k])
			}
			for k := range w {
				w[k] = math.Exp(w[k] - top)
				total += w[k]
			}
			for k := range w {
				w[k] /= total
			}
			at := ((b*r+i)*r + j) * n
			if l.a.Sum {
				at = (b*r + i) * n
			}
			out := l.weights[at : at+n]
			switch {
			case l.a.Grad:
				l.gradient(part, w, out, rho, theta)
			case l.a.Sum:
				for k, v := range w {
					sum[k] += v
					out[k] = T(sum[k])
				}
			default:
				for k, v := range w {
					out[k] = T(v)
				}
			}
		}
	}
}

// polar returns the distance of two centres and the angle, whose tangent is dx/dy.
func polar[T vec.Float](a, b []T) (rho, theta float64) {
	centre := func(v []T, i int) float64 { return float64(v[i]) + 0.5*(float64(v[i+2])-float64(v[i])) }
	dx, dy := centre(a, 0)-centre(b, 0), centre(a, 1)-centre(b, 1)
	return math.Sqrt(dx*dx + dy*dy), math.Atan2(dx, dy)
}

// gradient adds the parameters' gradients of the weights w of a pair of regions.
func (l *polarLoop[T]) gradient(part, w []float64, dw []T, rho, theta float64) {
	n := len(w)
	var mean float64
	for k, v := range w {
		mean += v * float64(dw[k])
	}
	for k, v := range w {
		de := v * (float64(dw[k]) - mean)
		p := l.relative(rho, theta, k)
		part[k] += de * p.rho / p.rhoVar
		part[n+k] += de * p.theta / p.thetaVar
		part[2*n+k] += de * p.rho * p.rho * float64(l.param[2][k]) / (p.rhoVar * p.rhoVar)
		part[3*n+k] += de * p.theta * p.theta * float64(l.param[3][k]) / (p.thetaVar * p.thetaVar)
	}
}
