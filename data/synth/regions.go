package synth

import (
	"cmp"
	"slices"
	"strings"

	"vsetrain/internal/compute/philox"
)

// The detector of the synthetic world reports R boxes per picture in the order of its confidence, like
// bottom-up-attention: several inexact boxes of every object, boxes of heads and garments, of interacting pairs, and of
// the background, each with features of D channels of its content.

// aspect is what a region shows of the scene.
type aspect uint8

const (
	body aspect = iota
	face
	clothing
	pair
	background
	whole
)

// source is something a region can show; index is an object or a background part.
type source struct {
	aspect   aspect
	index    int
	salience float64
}

// region is one detection.
type region struct {
	source
	box        box
	confidence float64
}

// detector renders pictures; it belongs to one worker.
type detector struct {
	*codes
	sources  []source
	regions  []region
	terms    []term
	weights  []float64
	instance [4]int // offset of each object's appearance in the noise
	light    int    // nuisance of the whole picture
	parts    []string
}

// list collects what the regions of a scene can show, most important first.
func (d *detector) list(sc *scene) {
	d.parts = strings.Fields(places[sc.place].parts)
	d.sources = d.sources[:0]
	add := func(a aspect, index int, salience float64) {
		d.sources = append(d.sources, source{a, index, salience})
	}
	add(body, 0, 1)
	add(body, 1, 0.9)
	add(pair, 0, 0.6)
	add(background, 0, 0.4)
	for i := 2; i < sc.n; i++ {
		add(body, i, 0.8)
	}
	for p := 1; p < len(d.parts); p++ {
		add(background, p, 0.4)
	}
	for i := range sc.n {
		if sc.objects[i].kind() == person {
			add(clothing, i, 0.6)
			add(face, i, 0.4)
		}
	}
}

// detect writes the features [R, D] and boxes [R, 4] of a scene; R is len(boxes)/4.
func (d *detector) detect(sc *scene, s *philox.Stream, ims, boxes []float32) {
	r := len(boxes) / 4
	d.list(sc)
	for i := range d.instance {
		d.instance[i] = s.IntN(noiseLength)
	}
	d.light = s.IntN(lights)
	d.regions = d.regions[:0]
	if r == 1 {
		d.regions = append(d.regions, region{source: source{aspect: whole},
			box: box{0, 0, float64(sc.width), float64(sc.height)}})
	}
	d.weights = d.weights[:0]
	for _, src := range d.sources {
		d.weights = append(d.weights, src.salience)
	}
	for len(d.regions) < r {
		next := len(d.regions)
		if next >= len(d.sources) {
			next = pick(s, d.weights)
		}
		src := d.sources[next]
		d.regions = append(d.regions, region{src, d.locate(sc, s, src), src.salience * between(s, 0.6, 1)})
	}
	slices.SortStableFunc(d.regions, func(a, b region) int { return cmp.Compare(b.confidence, a.confidence) })
	for i := range d.regions {
		reg := &d.regions[i]
		d.describe(sc, s, reg)
		d.render(ims[i*d.dim:(i+1)*d.dim], d.terms)
		b := reg.box
		copy(boxes[4*i:], []float32{float32(b.x1), float32(b.y1), float32(b.x2), float32(b.y2)})
	}
}

// locate draws the box of a region.
func (d *detector) locate(sc *scene, s *philox.Stream, src source) box {
	if src.aspect == background {
		// Parts are bands from top to bottom.
		band := 1 / float64(len(d.parts))
		y := (float64(src.index) + 0.5) * band
		return sc.frame(s, between(s, 0.25, 0.75), y, between(s, 0.3, 0.9), band*between(s, 0.8, 1.4), 0.1)
	}
	o := &sc.objects[src.index]
	x, y := o.instance(s.IntN(o.count))
	switch src.aspect {
	case face:
		return sc.frame(s, x, y-0.4*o.h, 0.4*o.w, 0.2*o.h, 0.1)
	case clothing:
		return sc.frame(s, x, y-0.1*o.h, 0.8*o.w, 0.4*o.h, 0.1)
	case pair:
		b := &sc.objects[1]
		x1, x2 := min(o.x-o.w/2, b.x-b.w/2), max(o.x+o.w/2, b.x+b.w/2)
		y1, y2 := min(o.y-o.h/2, b.y-b.h/2), max(o.y+o.h/2, b.y+b.h/2)
		return sc.frame(s, (x1+x2)/2, (y1+y2)/2, x2-x1, y2-y1, 0.06)
	}
	return sc.frame(s, x, y, o.w, o.h, 0.12)
}

// describe collects the terms of a region's activation.
func (d *detector) describe(sc *scene, s *philox.Stream, reg *region) {
	d.terms = d.terms[:0]
	// Boxes differ in quality: a better box has a larger share of what it shows.
	q := float32(between(s, 0.7, 1.2))
	switch reg.aspect {
	case body:
		d.object(sc, reg.index, q)
	case face:
		o := &sc.objects[reg.index]
		d.add(d.head, 0.5*q)
		d.add(d.category+o.category, 0.6*q)
		d.add(d.style+maxStyles*kindIndex(person)+o.style, 0.4*q)
	case clothing:
		o := &sc.objects[reg.index]
		d.add(d.garment+o.garment, 0.6*q)
		d.add(d.colour+o.garmentColour, 0.6*q)
		d.add(d.category+o.category, 0.3*q)
	case pair:
		d.add(d.category+sc.objects[0].category, 0.45*q)
		d.add(d.category+sc.objects[1].category, 0.45*q)
		d.add(d.role+roles*sc.relation+2, 0.6*q)
	case background:
		d.add(d.codes.parts[d.parts[reg.index]], 0.6*q)
		d.add(d.sky+sc.weather, 0.35*q)
		d.add(d.place+sc.place, 0.5*q)
	case whole:
		for i := range sc.n {
			d.object(sc, i, q)
		}
		d.add(d.role+roles*sc.relation+2, 0.5*q)
		d.add(d.sky+sc.weather, 0.4*q)
		d.add(d.place+sc.place, 0.5*q)
	}
	if reg.aspect != whole {
		cx := min(int(3*(reg.box.x1+reg.box.x2)/2/float64(sc.width)), 2)
		cy := min(int(3*(reg.box.y1+reg.box.y2)/2/float64(sc.height)), 2)
		d.add(d.cell+3*cy+cx, 0.3)
	}
	// Nuisances say nothing about the scene. Few of them serve many channels, which correlates the channels.
	d.add(d.codes.light+d.light, 0.7)
	d.add(d.codes.light+s.IntN(lights), 0.7)
	// Two windows of the stored draws: about 2^32 different noises.
	for range 2 {
		d.noisy(s.IntN(noiseLength), 0.6)
	}
}

// object adds what a box of object i shows.
func (d *detector) object(sc *scene, i int, q float32) {
	o := &sc.objects[i]
	k := kindIndex(o.kind())
	d.add(d.kind+k, 0.4*q)
	d.add(d.category+o.category, 0.7*q)
	if o.colour >= 0 {
		d.add(d.colour+o.colour, 0.5*q)
	} else {
		d.add(d.garment+o.garment, 0.25*q)
		d.add(d.colour+o.garmentColour, 0.3*q)
	}
	if o.size > 0 {
		d.add(d.size+o.size, 0.3*q)
	}
	if o.style > 0 {
		d.add(d.style+maxStyles*k+o.style, 0.4*q)
	}
	if o.count > 1 {
		d.add(d.count+o.count, 0.4*q)
	}
	d.add(d.action+o.action, 0.45*q)
	if i < 2 {
		d.add(d.role+roles*sc.relation+i, 0.45*q)
	}
	d.add(d.place+sc.place, 0.2)
	d.noisy(d.instance[i], 0.6)
}

func (d *detector) add(concept int, w float32) { d.terms = append(d.terms, term{d.row(concept), w}) }

func (d *detector) noisy(offset int, w float32) {
	d.terms = append(d.terms, term{d.noise[offset : offset+d.dim], w})
}
