package synth

import "vsetrain/internal/compute/philox"

// box is a rectangle in pixels with X1 < X2 and Y1 < Y2.
type box struct{ x1, y1, x2, y2 float64 }

// shapes are the usual sizes of web photographs, in pixels.
var shapes = [][2]int{{500, 375}, {500, 333}, {375, 500}, {640, 480}, {333, 500}, {480, 640}}

// arrange draws the size of the picture and where every object stands.
func (sc *scene) arrange(s *philox.Stream) {
	shape := shapes[pick(s, []float64{5, 3, 2, 2, 1, 1})]
	sc.width, sc.height = shape[0], shape[1]
	depth := between(s, 0.7, 1.1)
	for i := range sc.n {
		o := &sc.objects[i]
		o.h = categories[o.category].size * depth * []float64{1, 0.75, 1.3}[o.size] * between(s, 0.9, 1.1)
		if i >= 2 {
			o.h *= between(s, 0.5, 1)
		}
		o.w = o.h * map[kind]float64{person: 0.42, animal: 1.2, vehicle: 1.6, thing: 0.9}[o.kind()] *
			float64(sc.height) / float64(sc.width)
		o.x, o.y = between(s, 0.12, 0.88), between(s, 0.4, 0.8)
	}
	a, b := &sc.objects[0], &sc.objects[1]
	a.x, a.y = between(s, 0.25, 0.75), between(s, 0.45, 0.65)
	side := 1.0
	if chance(s, 0.5) {
		side = -1
	}
	apart := (a.w + b.w) / 2
	switch relations[sc.relation].layout {
	case beside:
		b.x, b.y = a.x+side*apart, a.y+(a.h-b.h)/2
	case below:
		b.x, b.y = a.x, a.y+0.4*a.h
	case over:
		b.x, b.y = a.x, a.y-0.5*(a.h+b.h)
	case inFront:
		b.x, b.y = a.x+side*0.9*apart, a.y+0.15
		b.w, b.h = 1.15*b.w, 1.15*b.h
	case behind:
		b.x, b.y = a.x-side*0.8*apart, a.y-0.12
		b.w, b.h = 0.8*b.w, 0.8*b.h
	case inHand:
		b.x, b.y = a.x+side*0.5*a.w, a.y
	}
	for i := range sc.n {
		o := &sc.objects[i]
		o.x, o.y = min(max(o.x, 0.08), 0.92), min(max(o.y, 0.1), 0.9)
	}
}

// instance returns the centre of instance k of an object, as shares of the picture.
func (o *object) instance(k int) (x, y float64) {
	return min(max(o.x+float64(k)*0.6*o.w*[]float64{1, -1}[k%2], 0.05), 0.95), o.y + 0.03*float64(k)
}

// frame returns the pixel box of a region centred at (x, y), whose sides move by up to the share jitter of the extent.
func (sc *scene) frame(s *philox.Stream, x, y, w, h, jitter float64) box {
	shake := func() float64 { return between(s, -jitter, jitter) }
	W, H := float64(sc.width), float64(sc.height)
	return box{(x - w/2 + shake()*w) * W, (y - h/2 + shake()*h) * H, (x + w/2 + shake()*w) * W, (y + h/2 + shake()*h) *
		H}.clip(W, H)
}

// clip clips a box to the picture, with sides of at least minSide pixels.
func (b box) clip(width, height float64) box {
	const minSide = 8
	b.x1, b.y1 = min(max(b.x1, 0), width-minSide), min(max(b.y1, 0), height-minSide)
	b.x2, b.y2 = min(max(b.x2, b.x1+minSide), width), min(max(b.y2, b.y1+minSide), height)
	return b
}
