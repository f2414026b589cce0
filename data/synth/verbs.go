package synth

import "strings"

// English verbs and nouns are inflected by the regular rules, with exceptions for words of the lexicon.

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
	return strings.HasSuffix(w, "ch") || strings.HasSuffix(w, "sh") || strings.ContainsAny(w[len(w)-1:], "sxz")
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
