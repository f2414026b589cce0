package pictures

import "math"

// Filter is how Resize weights the pixels around a point.
type Filter struct {
	support float64 // in pixels of the larger of source and target
	weight  func(x float64) float64
}

// Pillow's filters of these names.
var (
	Bilinear = Filter{1, func(x float64) float64 { return max(0, 1-math.Abs(x)) }}
	Bicubic  = Filter{2, func(x float64) float64 {
		const a = -0.5
		switch x = math.Abs(x); {
		case x < 1:
			return ((a+2)*x-(a+3))*x*x + 1
		case x < 2:
			return (((x-5)*x+8)*x - 4) * a
		}
		return 0
	}}
)

// precision is the number of fractional bits of a weight.
const precision = 32 - 8 - 2

// taps are the weights of the source pixels from first on that make a target pixel.
type taps struct {
	first   int
	weights []int
}

// taps returns the taps of n target pixels for a line of source pixels (python-pillow/Pillow,
// src/libImaging/Resample.c: precompute_coeffs and normalize_coeffs_8bpc). Downscaling widens the filter by the same
// factor.
func (f Filter) taps(source, n int) []taps {
	out := make([]taps, n)
	scale := float64(source) / float64(n)
	wide := max(scale, 1)
	support := f.support * wide
	for i := range out {
		centre := (float64(i) + 0.5) * scale
		lo, hi := max(0, int(centre-support+0.5)), min(source, int(centre+support+0.5))
		weights, sum := make([]float64, hi-lo), 0.0
		for x := range weights {
			weights[x] = f.weight((float64(x+lo) - centre + 0.5) * (1 / wide))
			sum += weights[x]
		}
		t := taps{lo, make([]int, hi-lo)}
		for x, w := range weights {
			if sum != 0 {
				w /= sum
			}
			t.weights[x] = int(math.Copysign(0.5, w) + w*(1<<precision))
		}
		out[i] = t
	}
	return out
}

// Resize returns the picture in another size, with the same bits as Pillow's Image.resize: first horizontally, then
// vertically, rounded to 8 bits in between.
func (p *RGB) Resize(width, height int, f Filter) *RGB {
	if width != p.Width {
		out := newRGB(width, p.Height)
		taps := f.taps(p.Width, width)
		for y := range p.Height {
			row := p.Pix[3*y*p.Width : 3*(y+1)*p.Width]
			for x, t := range taps {
				mix(out.Pix[3*(y*width+x):][:3], row[3*t.first:], 3, t.weights)
			}
		}
		p = out
	}
	if height == p.Height {
		return p
	}
	out := newRGB(width, height)
	for y, t := range f.taps(p.Height, height) {
		for x := range width {
			mix(out.Pix[3*(y*width+x):][:3], p.Pix[3*(t.first*width+x):], 3*width, t.weights)
		}
	}
	return out
}

// mix sets dst to the weighted sum of pixels that are step bytes apart.
func mix(dst, pix []byte, step int, weights []int) {
	const half = 1 << (precision - 1)
	r, g, b := half, half, half
	for i, w := range weights {
		at := pix[i*step : i*step+3]
		r, g, b = r+w*int(at[0]), g+w*int(at[1]), b+w*int(at[2])
	}
	dst[0], dst[1], dst[2] = clip(r>>precision), clip(g>>precision), clip(b>>precision)
}

// clip clamps a value to a byte.
func clip(v int) byte { return byte(min(255, max(0, v))) }

// Crop returns a part of the picture. The part must be inside.
func (p *RGB) Crop(x, y, width, height int) *RGB {
	out := newRGB(width, height)
	for i := range height {
		copy(out.Pix[3*i*width:3*(i+1)*width], p.Pix[3*((y+i)*p.Width+x):])
	}
	return out
}
