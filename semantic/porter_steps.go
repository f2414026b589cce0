package semantic

import "strings"

// rule replaces a suffix if the stem before it satisfies the condition (nil: always). The first rule of a list whose
// suffix matches decides, even if its condition fails.
type rule struct {
	suffix, with string
	when         func(stem string) bool
}

func firstRule(w string, rules []rule) string {
	for _, r := range rules {
		if stem, ok := strings.CutSuffix(w, r.suffix); ok {
			if r.when == nil || r.when(stem) {
				return stem + r.with
			}
			return w
		}
	}
	return w
}

func positive(stem string) bool  { return measure(stem) > 0 }
func aboveOne(stem string) bool  { return measure(stem) > 1 }
func shortStem(stem string) bool { return measure(stem) == 1 && endsCVC(stem) }
func ionStem(stem string) bool {
	return measure(stem) > 1 && (stem[len(stem)-1] == 's' || stem[len(stem)-1] == 't')
}
func logiStem(stem string) bool   { return positive(stem + "l") } // NLTK: the measure includes the l of "logi"
func longLStem(stem string) bool  { return measure(stem+"l") > 1 }
func consonantY(stem string) bool { return len(stem) > 1 && consonant(stem, len(stem)-1) }

var (
	step1aRules = []rule{{"sses", "ss", nil}, {"ies", "i", nil}, {"ss", "ss", nil}, {"s", "", nil}}
	step1bRules = []rule{{"at", "ate", nil}, {"bl", "ble", nil}, {"iz", "ize", nil}}
	step1cRules = []rule{{"y", "i", consonantY}} // NLTK: a consonant before y, not any vowel in the stem
	step2Rules  = []rule{
		{"ational", "ate", positive}, {"tional", "tion", positive}, {"enci", "ence", positive},
		{"anci", "ance", positive},
		{"izer", "ize", positive}, {"bli", "ble", positive} /* NLTK: not abli */, {"alli", "al", positive},
		{"entli", "ent", positive}, {"eli", "e", positive}, {"ousli", "ous", positive}, {"ization", "ize", positive},
		{"ation", "ate", positive}, {"ator", "ate", positive}, {"alism", "al", positive}, {"iveness", "ive", positive},
		{"fulness", "ful", positive}, {"ousness", "ous", positive}, {"aliti", "al", positive},
		{"iviti", "ive", positive},
		{"biliti", "ble", positive}, {"fulli", "ful", positive} /* NLTK */, {"logi", "log", logiStem}, /* NLTK */
	}
	step3Rules = []rule{
		{"icate", "ic", positive}, {"ative", "", positive}, {"alize", "al", positive}, {"iciti", "ic", positive},
		{"ical", "ic", positive}, {"ful", "", positive}, {"ness", "", positive},
	}
	step4Rules = []rule{
		{"al", "", aboveOne}, {"ance", "", aboveOne}, {"ence", "", aboveOne}, {"er", "", aboveOne},
		{"ic", "", aboveOne},
		{"able", "", aboveOne}, {"ible", "", aboveOne}, {"ant", "", aboveOne}, {"ement", "", aboveOne},
		{"ment", "", aboveOne},
		{"ent", "", aboveOne}, {"ion", "", ionStem}, {"ou", "", aboveOne}, {"ism", "", aboveOne}, {"ate", "", aboveOne},
		{"iti", "", aboveOne}, {"ous", "", aboveOne}, {"ive", "", aboveOne}, {"ize", "", aboveOne},
	}
	step5Rules = []rule{{"ll", "l", longLStem}}
)

// step1a removes plurals.
func step1a(w string) string {
	if len(w) == 4 && strings.HasSuffix(w, "ies") {
		return w[:3] // NLTK: dies -> die
	}
	return firstRule(w, step1aRules)
}

// step1b removes -ed and -ing, and restores the stem.
func step1b(w string) string {
	if stem, ok := strings.CutSuffix(w, "ied"); ok { // NLTK
		if len(w) == 4 {
			return stem + "ie"
		}
		return stem + "i"
	}
	if stem, ok := strings.CutSuffix(w, "eed"); ok {
		if positive(stem) {
			return stem + "ee"
		}
		return w
	}
	stem, ok := strings.CutSuffix(w, "ed")
	if !ok || !hasVowel(stem) {
		if stem, ok = strings.CutSuffix(w, "ing"); !ok || !hasVowel(stem) {
			return w
		}
	}
	if mended := firstRule(stem, step1bRules); mended != stem {
		return mended
	}
	switch last := stem[len(stem)-1]; {
	case doubleConsonant(stem):
		if last == 'l' || last == 's' || last == 'z' {
			return stem
		}
		return stem[:len(stem)-1]
	case shortStem(stem):
		return stem + "e"
	}
	return stem
}

// step2 shortens double suffixes.
func step2(w string) string {
	if stem, ok := strings.CutSuffix(w, "alli"); ok && positive(stem) {
		return step2(stem + "al") // NLTK: the step is repeated
	}
	return firstRule(w, step2Rules)
}

// step5 removes a final e and one of a final double l.
func step5(w string) string {
	if stem, ok := strings.CutSuffix(w, "e"); ok && (aboveOne(stem) || measure(stem) == 1 && !endsCVC(stem)) {
		w = stem
	}
	return firstRule(w, step5Rules)
}
