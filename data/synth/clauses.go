package synth

import (
	"cmp"
	"strings"
)

// form is the shape of a verb in a clause.
type form uint8

const (
	gerundForm form = iota
	finiteForm
	participleForm
)

// verb appends a verb with its particle, and returns the index of the verb. preposition is the index of the particle,
// which governs a following noun phrase; -1 without a particle.
func (p *speaker) verb(bare string, f form, manyHeads bool) (verb, preposition int) {
	bare, particle, _ := strings.Cut(bare, "_")
	switch f {
	case gerundForm:
		bare = gerund(bare)
	case participleForm:
		bare = participle(bare)
	default:
		if !manyHeads {
			bare = addS(bare)
		}
	}
	verb, preposition = p.add(bare), -1
	if particle != "" {
		preposition = p.under(verb, particle)
	}
	return verb, preposition
}

// be appends "is" or "are".
func (p *speaker) be(many bool) int {
	if many {
		return p.add("are")
	}
	return p.add("is")
}

// does appends what an object does by itself: "running", "runs".
func (p *speaker) does(o *object, f form) int {
	v, _ := p.verb(p.word(actions[o.action].verbs), f, o.count > 1)
	return v
}

// relates appends what the first object does to the second, or where it stands, with the noun phrase of the second:
// "riding a brown horse", "stands behind two cars".
func (p *speaker) relates(f form, d detail) int {
	a, b := &p.sc.objects[0], &p.sc.objects[1]
	r := &relations[p.sc.relation]
	if r.spatial == "" {
		v, prep := p.verb(p.word(r.verbs), f, a.count > 1)
		n := p.noun(b, d)
		p.link(v, n)
		p.link(n, prep)
		return v
	}
	v := p.does(a, f)
	lead := p.phrase(p.word(r.spatial))
	n := p.noun(b, d)
	p.link(v, n)
	p.link(n, lead)
	return v
}

// adverb appends an uninformative adverb under a verb.
func (p *speaker) adverb(gov int) {
	if chance(p.s, 0.12) {
		p.under(gov, adverbs[p.zipf.draw(p.s, len(adverbs))])
	}
}

// tail appends optional circumstances under gov: place, scenery, weather.
func (p *speaker) tail(gov int, place float64) {
	if chance(p.s, place) {
		p.link(gov, p.where())
	} else if chance(p.s, 0.12) {
		p.link(gov, p.scenery())
	}
	if w := weathers[p.sc.weather]; w != "" && chance(p.s, 0.3) {
		p.link(gov, p.phrase(w))
	}
}

// third returns an object beyond the first two, or nil.
func (p *speaker) third() *object {
	if p.sc.n < 3 {
		return nil
	}
	return &p.sc.objects[2+p.s.IntN(p.sc.n-2)]
}

// other returns an object beyond the first two, or the second.
func other(p *speaker) *object { return cmp.Or(p.third(), &p.sc.objects[1]) }
