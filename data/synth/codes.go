package synth

import (
	"math"
	"math/bits"
	"strings"

	"vsetrain/internal/compute/philox"
)

// codes holds one standard normal vector of D channels for every concept of the world. The features of a region come
// from a weighted sum of codes. Because a few hundred concepts span D channels, channels are correlated like the
// channels of a convolutional network.
type codes struct {
	dim  int
	rows []float32 // [concepts, D]

	kind, category, colour, size, style, count    int // first row of each family
	action, role, garment, head, part, place, sky int
	cell, light                                   int

	parts     map[string]int // background part -> row
	threshold []float32      // [D] per-channel threshold of the rectifier
	gain      []float32      // [D] per-channel slope
	noise     []float32      // [noiseLength + D] standard normal draws
}

// The rectifier x = gain * max(0, z - threshold) of a z of unit variance leaves about a quarter of the values
// non-zero and a mean of 0.45, as bottom-up-attention features have.
const (
	meanThreshold   = 0.72
	spreadThreshold = 0.4
	meanGain        = 2.9
	noiseLength     = 1 << 16
	maxStyles       = 10
	lights          = 5 // nuisances: illumination, blur, viewpoint
	roles           = 3 // subject, object, both
)

func newCodes(seed uint64, dim int) *codes {
	c := &codes{dim: dim, parts: map[string]int{}}
	n := 0
	family := func(length int) int {
		first := n
		n += length
		return first
	}
	c.kind, c.category, c.colour = family(4), family(len(categories)), family(len(colours))
	c.size, c.style, c.count = family(len(sizes)), family(4*maxStyles), family(4)
	c.action, c.role, c.garment = family(len(actions)), family(roles*len(relations)), family(len(garments))
	c.head, c.place, c.sky, c.cell = family(1), family(len(places)), family(len(weathers)), family(9)
	c.light = family(lights)
	c.part = n
	for _, p := range places {
		for _, name := range strings.Fields(p.parts) {
			if _, ok := c.parts[name]; !ok {
				c.parts[name] = family(1)
			}
		}
	}
	c.rows = normals(philox.NewKey(seed, "synth/codes"), n*dim)
	c.noise = normals(philox.NewKey(seed, "synth/noise"), noiseLength+dim)
	c.threshold, c.gain = make([]float32, dim), make([]float32, dim)
	s := philox.NewKey(seed, "synth/channels").Stream(0)
	for d := range dim {
		c.threshold[d] = float32(meanThreshold + spreadThreshold*s.Norm())
		c.gain[d] = float32(meanGain * math.Exp(0.3*s.Norm()-0.045))
	}
	return c
}

func normals(key philox.Key, n int) []float32 {
	v, s := make([]float32, n), key.Stream(0)
	for i := range v {
		v[i] = float32(s.Norm())
	}
	return v
}

// row returns the code of a concept.
func (c *codes) row(i int) []float32 { return c.rows[i*c.dim : (i+1)*c.dim] }

// kindIndex maps the bit of a kind to 0..3.
func kindIndex(k kind) int { return bits.TrailingZeros8(uint8(k)) }

// term is one summand of a region's activation.
type term struct {
	v []float32 // [D]
	w float32
}

// render writes dst[d] = gain[d] * max(0, sum_t w_t v_t[d] - threshold[d]) with the weights scaled to unit variance.
func (c *codes) render(dst []float32, terms []term) {
	var sq float64
	for _, t := range terms {
		sq += float64(t.w) * float64(t.w)
	}
	scale := float32(1 / math.Sqrt(sq))
	clear(dst)
	for len(terms) >= 4 {
		axpy4(dst, terms[:4], scale)
		terms = terms[4:]
	}
	for _, t := range terms {
		w, v := scale*t.w, t.v[:len(dst)]
		for d := range dst {
			dst[d] += w * v[d]
		}
	}
	threshold, gain := c.threshold[:len(dst)], c.gain[:len(dst)]
	for d, z := range dst {
		dst[d] = gain[d] * max(0, z-threshold[d])
	}
}

// axpy4 adds four scaled terms in one pass over dst.
func axpy4(dst []float32, t []term, scale float32) {
	n := len(dst)
	w0, w1, w2, w3 := scale*t[0].w, scale*t[1].w, scale*t[2].w, scale*t[3].w
	v0, v1, v2, v3 := t[0].v[:n], t[1].v[:n], t[2].v[:n], t[3].v[:n]
	for d := range dst {
		dst[d] += w0*v0[d] + w1*v1[d] + w2*v2[d] + w3*v3[d]
	}
}
