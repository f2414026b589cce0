package pictures

import "image"

// Pictures with chroma at half the resolution. Go's decoders give each chroma sample to all its pixels; the decoders
// that Pillow uses interpolate between the samples. This file does the same, so that features of a picture are the
// same.

// plane holds the samples of one chroma channel, width by height.
type plane struct {
	pix                   []byte
	width, height, stride int
}

// at returns row y, clamped to the picture.
func (p *plane) at(y int) []byte {
	return p.pix[min(max(y, 0), p.height-1)*p.stride:][:p.width]
}

// chroma holds both chroma channels at full resolution, [height, width].
type chroma struct{ cb, cr []byte }

// halved returns how many pixels one chroma sample covers in each direction, and whether it is one of the kinds that
// are interpolated: 4:2:0, 4:2:2 and 4:4:0.
func halved(m *image.YCbCr) (across, down int, ok bool) {
	switch m.SubsampleRatio {
	case image.YCbCrSubsampleRatio420:
		return 2, 2, true
	case image.YCbCrSubsampleRatio422:
		return 2, 1, true
	case image.YCbCrSubsampleRatio440:
		return 1, 2, true
	}
	return 1, 1, false
}

// smoothed interpolates the chroma of a picture to its full resolution; nil if it is not one of these kinds.
func smoothed(m *image.YCbCr, rows func(dst []byte, p *plane, width, height, across, down int)) *chroma {
	across, down, ok := halved(m)
	w, h := m.Rect.Dx(), m.Rect.Dy()
	if !ok || m.Rect.Min != (image.Point{}) {
		return nil
	}
	c := &chroma{make([]byte, w*h), make([]byte, w*h)}
	for _, x := range []struct{ to, from []byte }{{c.cb, m.Cb}, {c.cr, m.Cr}} {
		p := &plane{x.from, (w + across - 1) / across, (h + down - 1) / down, m.CStride}
		rows(x.to, p, w, h, across, down)
	}
	return c
}

// jpegRows follows jdsample.c of libjpeg-turbo ("fancy upsampling"): a sample weighs three times as much as its
// neighbour on the side of the pixel, and rounding alternates between up and down. A picture of up to two samples
// across is not interpolated.
func jpegRows(dst []byte, p *plane, width, height, across, down int) {
	sums := make([]int, p.width)
	for y := range height {
		row, to := p.at(y/down), dst[y*width:][:width]
		if across == 2 && p.width <= 2 {
			for x := range to {
				to[x] = row[x/across]
			}
			continue
		}
		near, scale := row, 0
		if down == 2 {
			near, scale = p.at(y/2-1+y%2*2), 2 // the row above or below
			for i, v := range row {
				sums[i] = 3*int(v) + int(near[i])
			}
		} else {
			for i, v := range row {
				sums[i] = int(v)
			}
		}
		if across == 1 {
			for x := range to {
				to[x] = byte((sums[x] + 1 + y%2) >> 2)
			}
			continue
		}
		// Half a unit of the result, and for every second pixel one step of the sum less or more.
		even, odd := 1, 2
		if down == 2 {
			even, odd = 8, 7
		}
		for x := range to {
			i := x / 2
			j, round := i-1, even
			if x%2 == 1 {
				j, round = i+1, odd
			}
			if j < 0 || j >= p.width {
				if down == 1 {
					to[x] = byte(sums[i])
					continue
				}
				j = i
			}
			to[x] = byte((3*sums[i] + sums[j] + round) >> (2 + scale))
		}
	}
}

// webpRows follows dsp/upsampling.c of libwebp: weights 9, 3, 3, 1 of the four samples around a pixel, rounded after
// each half.
func webpRows(dst []byte, p *plane, width, height, _, _ int) {
	for y := range height {
		row, near, to := p.at(y/2), p.at(y/2-1+y%2*2), dst[y*width:][:width]
		for x := range to {
			i := x / 2
			j := i - 1 + x%2*2
			a, b := int(row[i]), int(near[i]) // the sample of the pixel, and the one above or below
			if j < 0 || j >= p.width {
				to[x] = byte((3*a + b + 2) >> 2)
				continue
			}
			c, d := int(row[j]), int(near[j]) // the same in the next column
			to[x] = byte(((a+b+c+d+8+2*(b+c))>>3 + a) >> 1)
		}
	}
}

// jpegToRGB converts colours as jdcolor.c of libjpeg-turbo does.
func jpegToRGB(y, cb, cr byte) (r, g, b byte) {
	u, v := int(cb)-128, int(cr)-128
	const half = 1 << 15
	return clip(int(y) + (91881*v+half)>>16), clip(int(y) + (-22554*u-46802*v+half)>>16),
		clip(int(y) + (116130*u+half)>>16)
}
