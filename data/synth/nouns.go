package synth

import (
	"strings"

	"vsetrain/internal/compute/philox"
)

// speaker turns one scene into captions. Every caption mentions a random part of the scene in random words.
type speaker struct {
	sentence
	*tables
	s  *philox.Stream
	sc *scene
}

// word draws one of blank-separated synonyms, the first most often.
func (p *speaker) word(synonyms string) string {
	list := strings.Fields(synonyms)
	return list[p.zipf.draw(p.s, len(list))]
}

// filler sometimes adds an adverb of degree before an adjective, and returns its index, or -1.
func (p *speaker) filler() int {
	if !chance(p.s, 0.04) {
		return -1
	}
	return p.add(fillers[p.zipf.draw(p.s, len(fillers))])
}

// name returns one of the names of an object, rarely a broader one.
func (p *speaker) name(o *object) string {
	if chance(p.s, 0.06) {
		switch o.kind() {
		case person:
			return "person"
		case animal:
			return "animal"
		case vehicle:
			return "vehicle"
		}
	}
	return p.word(categories[o.category].names)
}

// detail is how much a noun phrase says about its object.
type detail float64

const (
	brief detail = 0.2
	usual detail = 0.5
	full  detail = 0.85
)

// noun appends the noun phrase of an object, as in "two small dogs" or "a young man in a red shirt", and returns the
// index of its head.
func (p *speaker) noun(o *object, d detail) int {
	first := len(p.words)
	group := -1
	switch {
	case o.count == 3 && chance(p.s, 0.4):
		p.add("a")
		group = p.add(p.word("group bunch couple trio"))
		p.link(group, group-1)
		p.add("of")
	case o.count > 1 && chance(p.s, 0.15):
		p.add(p.word("several some"))
	case o.count > 1:
		p.add(counts[o.count])
	default:
		p.add(p.word("a a a the one"))
	}
	if o.size > 0 && chance(p.s, float64(d)*0.7) {
		p.modifier(sizes[o.size])
	}
	if o.style > 0 && chance(p.s, float64(d)*0.8) {
		p.modifier(styles[o.kind()][o.style])
	}
	if o.colour >= 0 && chance(p.s, float64(d)*1.2) {
		p.modifier(colours[o.colour])
	}
	name := p.name(o)
	if o.count > 1 {
		name = plural(name)
	}
	n := p.add(name)
	for i := first; i < n; i++ {
		if p.head[i] < 0 && i != group {
			p.head[i] = n
		}
	}
	top := n
	if group >= 0 {
		p.link(group, n)
		top = group
	}
	if o.garment >= 0 && chance(p.s, float64(d)*1.1) {
		p.wear(n, o)
	}
	return top
}

// modifier appends an adjective, which noun attaches to its noun.
func (p *speaker) modifier(synonyms string) {
	f := p.filler()
	p.link(p.add(p.word(synonyms)), f)
}

// wear appends "in a red shirt" or "wearing a red shirt" under the noun gov.
func (p *speaker) wear(gov int, o *object) {
	lead := p.add(p.word("in wearing with"))
	verb := p.words[lead] == "wearing"
	name, article := p.word(garments[o.garment]), -1
	switch {
	case pairOnly[name]:
	case o.count > 1:
		name = plural(name)
	default:
		article = p.add("a")
	}
	colour := p.add(p.word(colours[o.garmentColour]))
	g := p.add(name)
	p.link(g, article, colour)
	if verb {
		p.link(gov, lead)
		p.link(lead, g)
	} else {
		p.link(gov, g)
		p.link(g, lead)
	}
}

// where appends the place, as in "in the park", and returns the head.
func (p *speaker) where() int {
	pl := &places[p.sc.place]
	name := p.word(pl.names)
	lead := p.add(pl.prep)
	det := p.add(p.word("the a the"))
	adj := -1
	if chance(p.s, 0.12) {
		adj = p.add(p.word("busy crowded empty quiet sunny lovely narrow wide beautiful famous local nearby distant " +
			"lush"))
	}
	n := p.add(name)
	p.link(n, lead, det, adj)
	return n
}

// scenery appends a part of the background, as in "with trees in the background".
func (p *speaker) scenery() int {
	parts := strings.Fields(places[p.sc.place].parts)
	part := parts[p.s.IntN(len(parts))]
	switch part {
	case "sky", "grass", "sand", "snow", "pavement", "floor":
	default:
		part = plural(part)
	}
	with := p.add("with")
	n := p.add(part)
	p.link(n, with, p.phrase("in the "+p.word("background distance")))
	return n
}

// side says where an object stands in the picture.
func (p *speaker) side(o *object) int {
	switch {
	case o.x < 0.36:
		return p.phrase("on the left")
	case o.x > 0.64:
		return p.phrase("on the right")
	}
	return p.phrase("in the " + p.word("middle center"))
}
