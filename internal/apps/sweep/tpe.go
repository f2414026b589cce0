package sweep

import (
	"cmp"
	"math"
	"slices"

	"vsetrain/internal/compute/philox"
)

// candidates is how many values are drawn from the density of the good points.
const candidates = 24

type observation struct {
	point Point
	score float64
}

// propose returns the n-th point of the tree-structured Parzen estimator (Bergstra et al., "Algorithms for
// Hyper-Parameter Optimization", NIPS 2011), a function of the sweep's seed, n and the finished points. The best gamma
// of them are good. Every axis on its own, from the points where it exists:
//
//	l(u), g(u)   density of the good and of the other points, u in [0, 1]:
//	             (1 + Σ_i N(u; u_i, b) cut to [0, 1]) / (1 + count), b = max(1/(1+count), 0.05) on an ordered axis,
//	             (1 + count of the value) / (values + count) on a list of choices
//	value        of 24 draws from l the one with the largest l/g
func (d *Definition) propose(n, attempt int, seen []observation) Point {
	seen = slices.Clone(seen)
	slices.SortStableFunc(seen, func(a, b observation) int { return cmp.Compare(b.score, a.score) })
	top := min(max(int(math.Ceil(d.Gamma*float64(len(seen)))), 1), len(seen))
	s := philox.NewKey(d.Seed, "sweep/tpe").Stream(uint64(n)<<20 | uint64(attempt))
	return d.build(func(i int, a *Axis) Value {
		good, bad := a.density(i, seen[:top]), a.density(i, seen[top:])
		var best Value
		most := math.Inf(-1)
		for range candidates {
			v := good.draw(s)
			if gain := math.Log(good.at(v)) - math.Log(bad.at(v)); gain > most {
				best, most = v, gain
			}
		}
		return best
	})
}

// density is a Parzen estimate on one axis.
type density struct {
	axis        *Axis
	coordinates []float64      // of an ordered axis
	counts      map[string]int // of choices
	total       int
}

func (a *Axis) density(axis int, seen []observation) density {
	e := density{axis: a, counts: map[string]int{}}
	for _, o := range seen {
		for _, c := range o.point {
			if c.Axis != axis {
				continue
			}
			e.total++
			if a.Ordered {
				e.coordinates = append(e.coordinates, a.coordinate(c.Value))
			} else {
				e.counts[c.Value.Text]++
			}
		}
	}
	return e
}

func (e density) width() float64 { return max(1/float64(1+e.total), 0.05) }

func (e density) at(v Value) float64 {
	if !e.axis.Ordered {
		return float64(1+e.counts[v.Text]) / float64(len(e.axis.Values)+e.total)
	}
	u, b, sum := e.axis.coordinate(v), e.width(), 1.0
	for _, p := range e.coordinates {
		z := (u - p) / b
		sum += math.Exp(-z*z/2) / (b * math.Sqrt(2*math.Pi) * (normal((1-p)/b) - normal(-p/b)))
	}
	return sum / float64(1+e.total)
}

// normal is the distribution function of the standard normal distribution.
func normal(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

func (e density) draw(s *philox.Stream) Value {
	pick := s.IntN(e.total + prior(e.axis))
	if !e.axis.Ordered {
		for _, v := range e.axis.Values {
			if pick -= 1 + e.counts[v.Text]; pick < 0 {
				return v
			}
		}
	}
	if pick >= len(e.coordinates) {
		return e.axis.at(s.Float64())
	}
	for range 100 {
		if u := e.coordinates[pick] + e.width()*s.Norm(); u >= 0 && u < 1 {
			return e.axis.at(u)
		}
	}
	return e.axis.at(e.coordinates[pick])
}

// prior is the weight of the even density in an estimate, in observations.
func prior(a *Axis) int {
	if a.Ordered {
		return 1
	}
	return len(a.Values)
}
