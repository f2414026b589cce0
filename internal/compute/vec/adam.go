package vec

import "math"

// adam is Adam and AdamW (Kingma and Ba 2015; Loshchilov and Hutter 2019) with the constants of AdamScalars.
func adam[T Float](p, g, m, v []T, s *AdamScalars[T]) {
	g, m, v = g[:len(p)], m[:len(p)], v[:len(p)]
	c := *s
	for i := range p {
		gi := c.Clip * g[i]
		mi := c.B1*m[i] + c.C1*gi
		vi := c.B2*v[i] + c.C2*(gi*gi)
		m[i], v[i] = mi, vi
		p[i] = c.Decay*p[i] - c.Step*mi/(T(math.Sqrt(float64(vi)))*c.Inv+c.Eps)
	}
}
