package synth

import "strings"

// action is something an object does by itself.
type action struct {
	kinds  kind
	traits trait  // places where it is seen; 0 is everywhere
	verbs  string // synonyms, bare forms; a particle follows after '_': "lie_down"
}

var actions = []action{
	{person | animal, 0, "stand wait pose"},
	{person | animal, 0, "walk stroll wander march"},
	{person | animal, outdoor, "run sprint race dash"},
	{person | animal, 0, "sit rest relax"},
	{person | animal, 0, "jump leap hop"},
	{person | animal, 0, "play"},
	{person | animal, 0, "sleep nap doze"},
	{person | animal, 0, "eat feast chew"},
	{person | animal, water, "swim paddle float"},
	{person, 0, "smile grin laugh"},
	{person, 0, "talk chat speak"},
	{person, indoor | street, "dance spin twirl"},
	{person, indoor | street, "sing perform"},
	{person | animal, field | snow, "climb scramble"},
	{person | animal, 0, "lie_down recline"},
	{person, 0, "wave gesture"},
	{person | animal, 0, "crouch squat kneel"},
	{person, indoor, "read study"},
	{person, indoor | street, "work labor"},
	{animal, field | snow, "graze forage"},
	{animal, 0, "bark howl growl"},
	{animal, 0, "drink sip"},
	{animal, outdoor, "dig"},
	{person | animal | vehicle, 0, "turn swerve"},
	{vehicle, 0, "park"},
	{vehicle, 0, "drive_past cruise travel"},
	{vehicle, 0, "stop halt pause"},
	{vehicle, outdoor, "speed zoom rush"},
	{person, snow, "ski slide"},
	{person, water, "surf"},
	{thing, 0, "lie sit rest"},
	{thing, 0, "stand lean"},
	{thing, outdoor, "fall tumble"},
	{thing | vehicle, outdoor, "roll"},
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

var relations = []relation{
	{person, animal | vehicle, rideable, below, "ride", ""},
	{person, thing | vehicle, holdable, inHand, "hold carry grip clutch", ""},
	{animal, person | animal | vehicle | thing, 0, inFront, "chase pursue", ""},
	{person, thing, holdable, inHand, "throw toss hurl", ""},
	{person | animal, thing, holdable, over, "catch grab snatch", ""},
	{person | animal, everywhereKinds, 0, beside, "watch observe look_at stare_at", ""},
	{person, thing, holdable, below, "kick", ""},
	{person, vehicle | thing, 0, inFront, "push shove", ""},
	{person | animal | vehicle, vehicle | thing, 0, behind, "pull drag tow haul", ""},
	{person, animal, 0, beside, "feed", ""},
	{person, person | animal, 0, beside, "hug embrace cuddle", ""},
	{person, animal, 0, below, "pet stroke", ""},
	{person | animal | vehicle, person | animal | vehicle, 0, inFront, "follow trail", ""},
	{person, animal, 0, behind, "lead guide", ""},
	{person, animal | vehicle, 0, beside, "wash clean scrub", ""},
	{person, vehicle | thing, 0, beside, "fix repair mend", ""},
	{person, everywhereKinds, 0, inFront, "photograph film", ""},
	{person | animal, everywhereKinds, 0, below, "jump_over leap_over", ""},
	{person | animal, thing, seat, below, "sit_on rest_on perch_on", ""},
	{person, thing | vehicle, 0, beside, "lean_against", ""},
	{person, thing, edible, inHand, "eat bite taste", ""},
	{person, thing, holdable, beside, "point_at reach_for", ""},
	{person, person, 0, beside, "greet kiss", ""},
	{person, person, 0, inFront, "teach help instruct", ""},
	{animal, thing, 0, below, "sniff smell lick", ""},
	{vehicle, everywhereKinds, 0, beside, "pass approach", ""},
	{person, thing, 0, beside, "paint decorate", ""},

	{everywhereKinds, everywhereKinds, 0, beside, "", "next_to beside near alongside"},
	{everywhereKinds, everywhereKinds, 0, inFront, "", "behind"},
	{everywhereKinds, everywhereKinds, 0, behind, "", "in_front_of before"},
	{everywhereKinds, thing | vehicle, 0, below, "", "on atop on_top_of"},
	{everywhereKinds, thing | vehicle, 0, over, "", "under beneath below"},
}

const everywhereKinds = person | animal | vehicle | thing

// Inflection of English verbs and nouns: the regular rules and the exceptions among the words of the lexicon.

var participles = map[string]string{
	"run": "run", "sit": "sat", "hold": "held", "ride": "ridden", "throw": "thrown", "catch": "caught", "feed": "fed",
	"lead": "led", "eat": "eaten", "drive": "driven", "bite": "bitten", "teach": "taught", "stand": "stood",
}

var plurals = map[string]string{
	"man": "men", "woman": "women", "child": "children", "policeman": "policemen", "sportsman": "sportsmen",
	"fellow":    "fellows",
	"gentleman": "gentlemen", "sheep": "sheep", "deer": "deer", "goose": "geese", "calf": "calves", "person": "people",
	"people": "people",
}

func vowel(c byte) bool { return strings.IndexByte("aeiou", c) >= 0 }

// doubles reports whether the last consonant of a verb doubles before -ing and -ed: one syllable that ends in
// consonant, vowel, consonant.
func doubles(v string) bool {
	n := len(v)
	if n < 3 || vowel(v[n-1]) || strings.IndexByte("wxy", v[n-1]) >= 0 || !vowel(v[n-2]) {
		return false
	}
	if vowel(v[n-3]) && !strings.HasSuffix(v[:n-2], "qu") {
		return false
	}
	groups := 0
	for i := range n {
		if vowel(v[i]) && (i == 0 || !vowel(v[i-1])) {
			groups++
		}
	}
	return groups == 1
}

// gerund returns the -ing form of a bare verb.
func gerund(v string) string {
	n := len(v)
	switch {
	case strings.HasSuffix(v, "ie"):
		return v[:n-2] + "ying"
	case v[n-1] == 'e' && v[n-2] != 'e':
		return v[:n-1] + "ing"
	case doubles(v):
		return v + v[n-1:] + "ing"
	}
	return v + "ing"
}

// sibilant reports whether -es, not -s, is added to a word.
func sibilant(w string) bool {
	for _, end := range []string{"s", "x", "z", "ch", "sh"} {
		if strings.HasSuffix(w, end) {
			return true
		}
	}
	return false
}

// addS returns the third person of a verb or the regular plural of a noun.
func addS(w string) string {
	n := len(w)
	switch {
	case sibilant(w):
		return w + "es"
	case w[n-1] == 'y' && !vowel(w[n-2]):
		return w[:n-1] + "ies"
	}
	return w + "s"
}

// participle returns the past participle of a bare verb.
func participle(v string) string {
	n := len(v)
	switch {
	case participles[v] != "":
		return participles[v]
	case v[n-1] == 'e':
		return v + "d"
	case v[n-1] == 'y' && !vowel(v[n-2]):
		return v[:n-1] + "ied"
	case doubles(v):
		return v + v[n-1:] + "ed"
	}
	return v + "ed"
}

// plural returns the plural of a noun.
func plural(noun string) string {
	if p, ok := plurals[noun]; ok {
		return p
	}
	return addS(noun)
}
