package synth

import "slices"

// The grammar: a caption is one of these sentence patterns. Each returns the root of its dependency tree.
var patterns = []struct {
	weight float64
	build  func(*speaker) int
}{
	{5, (*speaker).progressive},
	{3, (*speaker).fragment},
	{3, (*speaker).simple},
	{2, (*speaker).existential},
	{2, (*speaker).fronted},
	{2, (*speaker).passive},
	{2, (*speaker).coordinated},
	{2, (*speaker).depicted},
	{2, (*speaker).while},
	{2, (*speaker).placed},
	{1, (*speaker).alone},
	{1, (*speaker).remark},
}

// caption builds the next caption of the scene. It avoids patterns in used, those of earlier captions of the same
// picture, as long as other patterns are left.
func (p *speaker) caption(used []bool) {
	w := p.scratch[:len(patterns)]
	free := slices.Contains(used, false)
	for i, pat := range patterns {
		w[i] = pat.weight
		if used[i] && free {
			w[i] = 0
		}
	}
	k := pick(p.s, w)
	used[k] = true
	p.reset()
	root := patterns[k].build(p)
	p.finish(root, chance(p.s, 0.7))
}

// detail draws how talkative a noun phrase is.
func (p *speaker) detail() detail { return []detail{brief, usual, full}[p.s.IntN(3)] }

// progressive: "a man is riding a brown horse in the park".
func (p *speaker) progressive() int {
	v := clause(p)
	p.adverb(v)
	p.tail(v, 0.45)
	return v
}

// clause: "a man is riding a brown horse".
func clause(p *speaker) int {
	a := &p.sc.objects[0]
	subject := p.noun(a, p.detail())
	aux := p.be(a.count > 1)
	v := p.relates(gerundForm, p.detail())
	p.link(v, subject, aux)
	return v
}

// fragment: "a young man in a hat riding a horse".
func (p *speaker) fragment() int {
	subject := p.noun(&p.sc.objects[0], p.detail())
	v := p.relates(gerundForm, p.detail())
	p.link(subject, v)
	p.tail(v, 0.4)
	return subject
}

// simple: "the man rides a horse".
func (p *speaker) simple() int {
	subject := p.noun(&p.sc.objects[0], p.detail())
	v := p.relates(finiteForm, p.detail())
	p.link(v, subject)
	p.adverb(v)
	p.tail(v, 0.4)
	return v
}

// existential: "there is a dog next to a bench".
func (p *speaker) existential() int {
	a := &p.sc.objects[0]
	there := p.add("there")
	be := p.be(a.count > 1)
	subject := p.noun(a, p.detail())
	p.link(be, there, subject)
	p.link(subject, p.relates(gerundForm, p.detail()))
	p.tail(be, 0.35)
	return be
}

// fronted: "in the park, two dogs are chasing a ball".
func (p *speaker) fronted() int {
	place := p.where()
	p.add(",")
	v := clause(p)
	p.link(v, place)
	return v
}

// passive: "a brown horse is being ridden by a man"; spatial relations, which have no passive, are coordinated.
func (p *speaker) passive() int {
	a, b := &p.sc.objects[0], &p.sc.objects[1]
	r := &relations[p.sc.relation]
	if r.spatial != "" {
		return p.coordinated()
	}
	subject := p.noun(b, p.detail())
	aux := p.be(b.count > 1)
	being := p.add("being")
	v, _ := p.verb(p.word(r.verbs), participleForm, false)
	by := p.add("by")
	agent := p.noun(a, p.detail())
	p.link(v, subject, aux, being, agent)
	p.link(agent, by)
	p.tail(v, 0.3)
	return v
}

// coordinated: "a boy in a red cap and a small dog on the beach".
func (p *speaker) coordinated() int {
	first := p.noun(&p.sc.objects[0], p.detail())
	for i := 1; i < p.sc.n; i++ {
		if i > 1 && chance(p.s, 0.5) {
			continue
		}
		and := p.add("and")
		next := p.noun(&p.sc.objects[i], p.detail())
		p.link(first, next)
		p.link(next, and)
	}
	p.tail(first, 0.7)
	return first
}

// depicted: "a photo of a woman feeding two ducks".
func (p *speaker) depicted() int {
	det := p.add("a")
	root := p.add(media[p.zipf.draw(p.s, len(media))])
	of := p.add("of")
	n := p.noun(&p.sc.objects[0], p.detail())
	p.link(root, det, n)
	p.link(n, of, p.relates(gerundForm, p.detail()))
	p.tail(n, 0.3)
	return root
}

// while: "a man is reading while a dog sleeps".
func (p *speaker) while() int {
	a, b := &p.sc.objects[0], other(p)
	subject := p.noun(a, p.detail())
	aux := p.be(a.count > 1)
	v := p.does(a, gerundForm)
	mark := p.add(p.word("while as"))
	other := p.noun(b, p.detail())
	w := p.does(b, finiteForm)
	p.link(w, mark, other)
	p.link(v, subject, aux, w)
	return v
}

// placed: "a wooden bench stands on the left of the picture", "two birds are to the right of a man".
func (p *speaker) placed() int {
	b := other(p)
	subject := p.noun(b, full)
	be := p.be(b.count > 1)
	p.link(be, subject)
	if a := &p.sc.objects[0]; chance(p.s, 0.6) {
		side := "left"
		if b.x > a.x {
			side = "right"
		}
		lead := p.phrase("to the " + side)
		of := p.add("of")
		n := p.noun(a, p.detail())
		p.link(n, of)
		p.link(lead, n)
		p.link(be, lead)
	} else {
		p.link(be, p.side(b))
		p.tail(be, 0.4)
	}
	return be
}

// alone: "a small brown dog on the grass" says little.
func (p *speaker) alone() int {
	a := &p.sc.objects[0]
	n := p.noun(a, full)
	if chance(p.s, 0.7) {
		p.link(n, p.does(a, gerundForm))
	}
	p.tail(n, 0.8)
	return n
}

// remark: "someone can see a red car behind the fence": an empty frame around a fragment.
func (p *speaker) remark() int {
	who := p.add(p.word("we you someone"))
	can := p.add("can")
	see := p.add(p.word("see notice spot"))
	n := p.noun(&p.sc.objects[0], p.detail())
	p.link(see, who, can, n)
	p.link(n, p.relates(gerundForm, brief))
	if o := p.third(); o != nil {
		and := p.add("and")
		m := p.noun(o, p.detail())
		p.link(n, m)
		p.link(m, and)
	}
	p.tail(see, 0.3)
	return see
}
