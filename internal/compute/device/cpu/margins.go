package cpu

import (
	"cmp"
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// The margins of LSEH from the Gram matrix of the semantic vectors (yangong23/VSEnetworksLSEH: ContrastiveLossLSEH;
// quirk Q18): M_ij = α + λ·Sim_ij with Sim_ij = C_ij / max_j C_ij, or the cosine.

type marginLoop[T vec.Float] struct {
	a      device.SemanticMargins
	per    int
	gram   []T
	images []int32 // nil where images do not matter
	caps   []int32
	out    []T
	norms  []float64 // 1/√C_ii, 0 for a zero vector
}

func (d *dev[T]) SemanticMargins(a device.SemanticMargins) {
	l := &d.margins
	l.a, l.per = a, group(a.N)
	l.gram, l.out = d.values(a.Gram), d.values(a.Margins)
	l.images, l.caps = nil, nil
	if a.ZeroSameImage {
		l.images = d.integers(a.Images)
		l.caps = d.integers(a.Captions)
	}
	l.norms = l.norms[:0]
	for i := range a.N {
		l.norms = append(l.norms, inverse(math.Sqrt(float64(l.gram[i*a.N+i]))))
	}
	d.pool.For(pieces(a.N, l.per), l)
}

func (l *marginLoop[T]) Do(_, k int) {
	n := l.a.N
	for i := k * l.per; i < min(n, (k+1)*l.per); i++ {
		gram, out := l.gram[i*n:(i+1)*n], l.out[i*n:(i+1)*n]
		largest := gram[0]
		for _, g := range gram {
			largest = max(largest, g)
		}
		largest = cmp.Or(largest, 1)
		for j, g := range gram {
			sim := float64(g) / float64(largest)
			if l.a.Cosine {
				sim = float64(g) * (l.norms[i] * l.norms[j])
			}
			out[j] = T(l.a.Alpha + l.a.Lambda*sim)
			if j == i || l.images != nil && l.images[i] == l.caps[j] {
				out[j] = 0
			}
		}
	}
}
