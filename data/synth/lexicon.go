package synth

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"
)

// The lexicon of the synthetic world has everything that a scene may show, and its names. The first word of a list is
// the most common name; later words are rarer (Zipf), so that captions paraphrase each other.

// kind groups categories that share actions and attributes. Its bits form masks.
type kind uint8

const (
	person kind = 1 << iota
	animal
	vehicle
	thing
)

// trait has the traits of a category as bits: where it is found and what can be done with it.
type trait uint16

const (
	indoor trait = 1 << iota
	street
	field
	water
	snow
	rideable // a person can ride it
	holdable // a person can hold or throw it
	seat     // one can sit on it
	edible
	everywhere = indoor | street | field | water | snow
	outdoor    = street | field | water | snow
)

// category is one kind of object. The first five traits are its places.
type category struct {
	kind   kind
	traits trait
	size   float64 // typical height, as a share of the picture
	names  string  // blank-separated, singular
}

// place is where a scene happens: its names, the trait that decides which categories are found there, and the parts
// of its background from top to bottom.
type place struct {
	trait trait
	prep  string
	names string
	parts string
}

// action is something an object does by itself.
type action struct {
	kinds  kind
	traits trait  // places where it is seen; 0 is everywhere
	verbs  string // synonyms, bare forms; a particle follows after '_': "lie_down"
}

// layout says where the object of a relation lies as seen from its subject.
type layout uint8

const (
	beside layout = iota
	below
	over
	inFront
	behind
	inHand
)

// relation ties the first object of a scene (the subject) to the second. Spatial relations have prepositions only and
// borrow the verb of the subject's action.
type relation struct {
	subject, object kind
	traits          trait // the object must have one of these; 0 accepts any
	layout          layout
	verbs           string // synonyms, bare forms; '_' leads a preposition
	spatial         string // prepositions, '_' joins the words of one
}

const everywhereKinds = person | animal | vehicle | thing

// lexicon holds the words: a line for each thing, or a name and choices, between tabs.
//
//go:embed lexicon.tsv
var lexicon string

var (
	categories []category
	places     []place
	actions    []action
	relations  []relation

	// choices are blank-separated synonyms: weathers, whose first is never named, colours, garments, sizes and counts,
	// and adverbs, fillers and media, which say nothing about the scene. The words of a kind are its styles, looks
	// other than colour and size; the first is none.
	choices = map[string][]string{}

	participles, plurals map[string]string

	weathers, colours, garments, sizes, counts, adverbs, fillers, media []string

	styles map[kind][]string
)

// pairOnly garments are plural by themselves and take no article.
var pairOnly = map[string]bool{"shorts": true, "pants": true, "trousers": true, "jeans": true}

var (
	kindNames   = []string{"person", "animal", "vehicle", "thing"}
	traitNames  = []string{"indoor", "street", "field", "water", "snow", "rideable", "holdable", "seat", "edible"}
	layoutNames = []string{"beside", "below", "over", "inFront", "behind", "inHand"}
)

func init() {
	for line := range strings.Lines(lexicon) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		for i := range f {
			if f[i] == "-" {
				f[i] = ""
			}
		}
		switch f[0] {
		case "category":
			size, err := strconv.ParseFloat(f[3], 64)
			if err != nil {
				panic(err)
			}
			categories = append(categories, category{kind(mask(f[1], kindNames)), trait(mask(f[2], traitNames)), size,
				f[4]})
		case "place":
			places = append(places, place{trait(mask(f[1], traitNames)), f[2], f[3], f[4]})
		case "action":
			actions = append(actions, action{kind(mask(f[1], kindNames)), trait(mask(f[2], traitNames)), f[3]})
		case "relation":
			relations = append(relations, relation{kind(mask(f[1], kindNames)), kind(mask(f[2], kindNames)),
				trait(mask(f[3], traitNames)), layout(slices.Index(layoutNames, f[4])), f[5], f[6]})
		default:
			choices[f[0]] = append(choices[f[0]], f[1:]...)
		}
	}
	weathers, colours, garments, sizes = choices["weathers"], choices["colours"], choices["garments"], choices["sizes"]
	counts, adverbs, fillers, media = choices["counts"], choices["adverbs"], choices["fillers"], choices["media"]
	styles = map[kind][]string{}
	for i, name := range kindNames {
		styles[1<<i] = choices[name]
	}
	participles, plurals = pairs(choices["participle"]), pairs(choices["plural"])
}

// mask returns the bits of names, separated by commas; any, everywhere and outdoor stand for several bits.
func mask(names string, of []string) (all uint16) {
	switch names {
	case "":
		return 0
	case "any":
		return uint16(everywhereKinds)
	}
	for name := range strings.SplitSeq(names, ",") {
		switch i := slices.Index(of, name); {
		case i >= 0:
			all |= 1 << i
		case name == "everywhere":
			all |= uint16(everywhere)
		case name == "outdoor":
			all |= uint16(outdoor)
		default:
			panic("lexicon.tsv: " + name)
		}
	}
	return all
}

// pairs makes a map of alternating words and forms.
func pairs(words []string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(words); i += 2 {
		m[words[i]] = words[i+1]
	}
	return m
}
