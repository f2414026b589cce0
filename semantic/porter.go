package semantic

// The Porter stemmer in the mode NLTK uses by default (nltk.stem.porter.PorterStemmer, NLTK_EXTENSIONS):
// Porter, "An algorithm for suffix stripping", Program 14(3), 1980, plus a table of irregular words and the
// departures marked "NLTK" below. A word is seen as [C](VC)^m[V] with runs C of consonants and V of vowels; m is
// its measure. The rules work on bytes; every byte but a, e, i, o, u and some y is a consonant.

// irregular words are looked up before anything else (NLTK).
var irregular = map[string]string{
	"sky": "sky", "skies": "sky", "dying": "die", "lying": "lie", "tying": "tie", "news": "news",
	"innings": "inning", "inning": "inning", "outings": "outing", "outing": "outing",
	"cannings": "canning", "canning": "canning", "howe": "howe",
	"proceed": "proceed", "exceed": "exceed", "succeed": "succeed",
}

// stem returns the stem of a lower-case word.
func stem(word string) string {
	if s, ok := irregular[word]; ok {
		return s
	}
	if len(word) <= 2 {
		return word
	}
	word = step1a(word)
	word = step1b(word)
	word = firstRule(word, step1cRules)
	word = step2(word)
	word = firstRule(word, step3Rules)
	word = firstRule(word, step4Rules)
	return step5(word)
}

// consonant reports whether byte i of w is a consonant; y is one at the start of the word and after a vowel.
func consonant(w string, i int) bool {
	switch w[i] {
	case 'a', 'e', 'i', 'o', 'u':
		return false
	case 'y':
		return i == 0 || !consonant(w, i-1)
	}
	return true
}

// measure counts the places where a vowel is followed by a consonant.
func measure(w string) int {
	m, vowel := 0, false
	for i := range len(w) {
		c := consonant(w, i)
		if c && vowel {
			m++
		}
		vowel = !c
	}
	return m
}

func hasVowel(w string) bool {
	for i := range len(w) {
		if !consonant(w, i) {
			return true
		}
	}
	return false
}

func doubleConsonant(w string) bool {
	n := len(w)
	return n >= 2 && w[n-1] == w[n-2] && consonant(w, n-1)
}

// endsCVC is condition *o: consonant, vowel, consonant other than w, x, y; or, in a word of two letters, vowel and
// consonant (NLTK).
func endsCVC(w string) bool {
	n := len(w)
	if n == 2 {
		return !consonant(w, 0) && consonant(w, 1)
	}
	if n < 3 || !consonant(w, n-3) || consonant(w, n-2) || !consonant(w, n-1) {
		return false
	}
	return w[n-1] != 'w' && w[n-1] != 'x' && w[n-1] != 'y'
}
