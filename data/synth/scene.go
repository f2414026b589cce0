package synth

import "vsetrain/internal/compute/philox"

// scene is what one picture shows: a place, a weather and two to four objects with attributes. The first does something
// to the second, or has a position relative to it.
type scene struct {
	place, weather int
	relation       int // index into relations, of objects[0] to objects[1]
	n              int
	objects        [4]object
	width, height  int // pixels
}

// object is one thing of a scene, or up to three of a kind. Attributes are indices of the lexicon's lists. Size and
// style 0 are never mentioned; colour and garment may be -1 for none.
type object struct {
	category      int
	count         int // 1..3
	colour        int
	size, style   int
	garment       int // of persons
	garmentColour int
	action        int
	x, y, w, h    float64 // centre and extent of the first instance, as shares of the picture
}

func (o *object) kind() kind { return categories[o.category].kind }

// fur holds the colours animals come in.
var fur = []int{4, 1, 0, 7, 6, 11}

// tables are the fixed weights of the draws.
type tables struct {
	zipf      zipf      // exponent 1: names, attributes
	flat      zipf      // exponent 0.5: places, colours, relations
	frequency []float64 // of each category, by its rank among its kind
	scratch   []float64
}

func newTables() *tables {
	t := &tables{zipf: newZipf(64, 1), flat: newZipf(64, 0.5), frequency: make([]float64, len(categories)),
		scratch: make([]float64, max(len(categories), len(relations), len(actions)))}
	rank := map[kind]int{}
	for i, c := range categories {
		t.frequency[i] = newZipf(rank[c.kind]+1, 0.7)[rank[c.kind]]
		rank[c.kind]++
	}
	return t
}

// category draws a category of one of the kinds that has one of the traits (0: any). It prefers categories that belong
// to the place and are not yet in the scene.
func (t *tables) category(s *philox.Stream, sc *scene, kinds kind, traits trait) int {
	w := t.scratch[:len(categories)]
	for i, c := range categories {
		w[i] = 0
		if c.kind&kinds == 0 || traits != 0 && c.traits&traits == 0 {
			continue
		}
		w[i] = t.frequency[i]
		if c.traits&places[sc.place].trait == 0 {
			w[i] *= 0.03
		}
		for j := range sc.n {
			if sc.objects[j].category == i {
				w[i] *= 0.01
			}
		}
	}
	return pick(s, w)
}

// attribute draws everything about an object but its category and its box.
func (t *tables) attribute(s *philox.Stream, sc *scene, o *object) {
	o.count = 1 + pick(s, []float64{0.78, 0.15, 0.07})
	o.size = pick(s, []float64{0.5, 0.25, 0.25})
	o.style = 0
	if chance(s, 0.6) {
		o.style = t.flat.draw(s, len(styles[o.kind()]))
	}
	t.colour(s, o)
	t.act(s, sc, o)
}

// colour draws the colours of an object: garment and its colour for persons, fur for animals, paint for the rest.
func (t *tables) colour(s *philox.Stream, o *object) {
	o.colour, o.garment, o.garmentColour = -1, -1, -1
	switch o.kind() {
	case person:
		o.garment = t.flat.draw(s, len(garments))
		o.garmentColour = t.flat.draw(s, len(colours))
	case animal:
		o.colour = fur[t.flat.draw(s, len(fur))]
	default:
		o.colour = t.flat.draw(s, len(colours))
	}
}

// act draws what an object does.
func (t *tables) act(s *philox.Stream, sc *scene, o *object) {
	w := t.scratch[:len(actions)]
	for i, a := range actions {
		w[i] = 0
		if a.kinds&o.kind() != 0 && (a.traits == 0 || a.traits&places[sc.place].trait != 0) {
			w[i] = t.flat[i%8]
		}
	}
	o.action = pick(s, w)
}

// relate draws a relation that the first object may have to the second.
func (t *tables) relate(s *philox.Stream, sc *scene) {
	a, b := &categories[sc.objects[0].category], &categories[sc.objects[1].category]
	w := t.scratch[:len(relations)]
	for i, r := range relations {
		w[i] = 0
		if r.subject&a.kind != 0 && r.object&b.kind != 0 && (r.traits == 0 || r.traits&b.traits != 0) {
			w[i] = t.flat[i%12]
			if r.spatial != "" {
				w[i] *= 0.5
			}
		}
	}
	sc.relation = pick(s, w)
}

// base draws a scene without geometry.
func (t *tables) base(s *philox.Stream) scene {
	sc := scene{place: t.flat.draw(s, len(places))}
	if chance(s, 0.5) {
		sc.weather = t.flat.draw(s, len(weathers))
	}
	kinds := []kind{person, animal, vehicle, thing}
	want := 2 + pick(s, []float64{0.35, 0.4, 0.25})
	for sc.n < want {
		o := &sc.objects[sc.n]
		weights := []float64{0.3, 0.2, 0.15, 0.35}
		traits := trait(0)
		switch sc.n {
		case 0:
			weights = []float64{0.55, 0.25, 0.12, 0.08}
		case 1:
			traits = []trait{0, rideable, holdable, seat, edible}[pick(s, []float64{0.45, 0.2, 0.25, 0.07, 0.03})]
		}
		mask := kinds[pick(s, weights)]
		if traits != 0 {
			mask = everywhereKinds
		}
		o.category = t.category(s, &sc, mask, traits)
		t.attribute(s, &sc, o)
		sc.n++
	}
	t.relate(s, &sc)
	return sc
}

// vary changes one to three properties of a scene: attributes, their owners, actions, the relation, its subject, the
// weather. Categories and place stay, so that only a model that binds attributes and relations to their objects can
// distinguish the pictures of a family.
func (t *tables) vary(s *philox.Stream, sc *scene) {
	for range 1 + s.IntN(3) {
		o := &sc.objects[s.IntN(sc.n)]
		switch pick(s, []float64{3, 1, 1, 2, 3, 1, 1, 1}) {
		case 0:
			t.colour(s, o)
		case 1:
			o.size = s.IntN(len(sizes))
		case 2:
			o.style = s.IntN(len(styles[o.kind()]))
		case 3:
			t.act(s, sc, o)
		case 4:
			t.relate(s, sc)
		case 5:
			sc.weather = s.IntN(len(weathers))
		case 6:
			if a, b := &sc.objects[0], &sc.objects[1]; a.kind() == b.kind() {
				*a, *b = *b, *a
				t.relate(s, sc)
			} else {
				t.colour(s, b)
			}
		case 7:
			o.count = 1 + s.IntN(3)
		}
	}
}

// Pictures of a family share a base scene. Windows of familyWindow neighbours have familyCount families, so the first n
// pictures of a split do not depend on how many follow.
const (
	familyWindow = 64
	familyCount  = 14
	familyShare  = 0.6
)

// scene returns picture i of a split, whose keys are given: a pure function of its arguments.
func (t *tables) scene(key, families philox.Key, i int) scene {
	s := key.Stream(uint64(i))
	var sc scene
	if chance(s, familyShare) {
		f := uint64(i/familyWindow)*familyCount + uint64(s.IntN(familyCount))
		sc = t.base(families.Stream(f))
		t.vary(s, &sc)
	} else {
		sc = t.base(s)
	}
	sc.arrange(s)
	return sc
}
