package text

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Captions that exercise one rule each; the expected sentences (separated by |) and words (by blanks) are the output of
// NLTK 3.9.1.
var tokenizerCases = []struct{ caption, sentences, words string }{
	{"(A boy.) A girl waves", "(a boy.)|a girl waves", "( a boy . ) a girl waves"},
	{"He said \"stop.\" Then he ran.", "he said \"stop.\"|then he ran.", "he said `` stop . '' then he ran ."},
	{"what ?! no", "what ?|!|no", "what ? ! no"},
	{"Two 'x' marks and 'hello' there", "two 'x' marks and 'hello' there", "two ' x ' marks and 'hello ' there"},
	{"5. dogs run", "5. dogs run", "5. dogs run"},
	{"At no. 5. Dogs run.", "at no.|5. dogs run.", "at no . 5. dogs run ."},
	{"a. dogs", "a. dogs", "a. dogs"},
	{"J. Walter sings", "j. walter sings", "j. walter sings"},
	{"the u.s. flag. it waves", "the u.s. flag.|it waves", "the u.s. flag . it waves"},
	{"top-mr. smith waits", "top-mr. smith waits", "top-mr. smith waits"},
	{"one . . . two", "one .|.|.|two", "one . . . two"},
	{"one .. two", "one .. two", "one .. two"},
	{"wait... what", "wait... what", "wait ... what"},
	{"a,b 3,4 5:30 x:y,", "a,b 3,4 5:30 x:y,", "a , b 3,4 5:30 x : y ,"},
	{"ends with comma,", "ends with comma,", "ends with comma ,"},
	{"a -- b---c", "a -- b---c", "a -- b -- -c"},
	{"“quoted” ‘words’ «here»", "“quoted” ‘words’ «here»", "“ quoted ” ‘ words ’ « here »"},
	{"``x`` `y` \"z\" ''w''", "``x`` `y` \"z\" ''w''", "`` x `` ` y ` `` z '' `` w ''"},
	{"say `` no ``", "say `` no ``", "say `` no ``"},
	{"(\"hi\")", "(\"hi\")", "( `` hi '' )"},
	{"the dogs' toys and boss's hat", "the dogs' toys and boss's hat", "the dogs ' toys and boss 's hat"},
	{"I'd we'll they're you've can't", "i'd we'll they're you've can't", "i 'd we 'll they 're you 've ca n't"},
	{"cannot gonna gotta gimme lemme wanna go d'ye more'n", "cannot gonna gotta gimme lemme wanna go d'ye more'n",
		"can not gon na got ta gim me lem me wan na go d 'ye more 'n"},
	{"wanna-be cannot-do uncannot", "wanna-be cannot-do uncannot", "wanna-be can not -do uncannot"},
	{"'Tis cold , 'twas warm", "'tis cold , 'twas warm", "'t is cold , 't was warm"},
	{"mix*of#all@signs&more%100$5;", "mix*of#all@signs&more%100$5;", "mix * of # all @ signs & more % 100 $ 5 ;"},
	{"[a]{b}<c>", "[a]{b}<c>", "[ a ] { b } < c >"},
	{"tab\there\u00a0and nbsp", "tab\there\u00a0and nbsp", "tab here and nbsp"},
	{"stop.) now", "stop.)|now", "stop . ) now"},
	{"x.' y", "x.'|y", "x . ' y"},
	{"rock 'n' roll", "rock 'n' roll", "rock 'n ' roll"},
	{"Été à la plage.", "été à la plage.", "été à la plage ."},
	{"end.\"", "end.\"", "end . ''"},
	{"end .  ' ", "end .  '", "end . '"},
	{"!!! ???", "!|!!|?|?|?", "! ! ! ? ? ?"},
	{".", ".", "."},
	{"'", "'", "'"},
	{"\"", "\"", "``"},
	{"a.b. c", "a.b.|c", "a.b . c"},
	{"-3.5. next", "-3.5. next", "-3.5. next"},
	{"what?\"he said", "what?|\"he said", "what ? `` he said"},
	{"done!--then", "done!--then", "done ! -- then"},
	{"yes!) --no", "yes!)|--no", "yes ! ) -- no"},
	{"at 10. , dogs", "at 10. , dogs", "at 10. , dogs"},
	{"route 5. ; end", "route 5. ; end", "route 5. ; end"},
	{"the boss's' hat", "the boss's' hat", "the boss 's ' hat"},
	{"the dogs'\ttoys", "the dogs'\ttoys", "the dogs ' toys"},
	{"x.\u00a0.\u00a0. y", "x.\u00a0.\u00a0.|y", "x. . . y"},
	{"a\u00a0.\u00a0.\u00a0.\u00a0. y", "a\u00a0.\u00a0.\u00a0.\u00a0.|y", "a . . . . y"},
	{".\u00a0.\u00a0.) y", ".|.\u00a0.)|y", ". . . ) y"},
	{"dogs!\u00a0.\u00a0.\u00a0. y", "dogs!\u00a0.\u00a0.\u00a0.|y", "dogs ! . . . y"},
	{"", "", ""},
}

func TestWordTokenize(t *testing.T) {
	for _, c := range tokenizerCases {
		if got := strings.Join(sentencesOf(c.caption), "|"); got != c.sentences {
			t.Errorf("%q: sentences %q, want %q", c.caption, got, c.sentences)
		}
		if got := strings.Join(wordsOf(c.caption), " "); got != c.words {
			t.Errorf("%q: words %q, want %q", c.caption, got, c.words)
		}
	}
}

func TestMultiCharacterPunctuation(t *testing.T) {
	for s, want := range map[string]int{"..": 2, "...x": 3, "-- ": 2, "-": 0, ".": 0, ". .": 0, ". . .": 5,
		". . . x": 5, ".\u00a0. .": 6, ". . x": 0, "--.": 2} {
		if multiChar([]byte(s), 0) != want {
			t.Errorf("%q: end %d, want %d", s, multiChar([]byte(s), 0), want)
		}
	}
}

func TestCollocationIsNoSentenceBreak(t *testing.T) {
	const caption = "a dog. walter waits"
	if got := len(sentencesOf(caption)); got != 2 {
		t.Errorf("%d sentences, want 2", got)
	}
	collocations["dog walter"] = true
	defer delete(collocations, "dog walter")
	if got := len(sentencesOf(caption)); got != 1 {
		t.Errorf("%d sentences with the pair listed, want 1", got)
	}
}

func FuzzWordTokenize(f *testing.F) {
	for _, c := range tokenizerCases {
		f.Add(c.caption)
	}
	f.Add("\xff\xfe. \xe2\x80")
	f.Add("\u3000.\u2003'\u00a0")
	f.Fuzz(func(t *testing.T, caption string) {
		words := wordsOf(caption)
		for _, w := range words {
			if w == "" || !utf8.ValidString(w) || strings.ContainsFunc(w, IsSpace) {
				t.Errorf("%q: bad word %q in %q", caption, w, words)
			}
		}
		// Nothing but white space and the form of quotes may change.
		squeeze := func(s string) string {
			return strings.Map(func(r rune) rune {
				if IsSpace(r) || strings.ContainsRune("\"'`", r) {
					return -1
				}
				return r
			}, s)
		}
		lower := string(appendLower(nil, caption))
		if got, want := squeeze(strings.Join(words, " ")), squeeze(lower); got != want {
			t.Errorf("%q: words hold %q, want %q", caption, got, want)
		}
	})
}

func BenchmarkWords(b *testing.B) {
	captions := []string{
		"Two young guys with shaggy hair look at their hands while hanging out in the yard .",
		"A man in a blue shirt is standing on a ladder cleaning a window .",
		"A well-dressed man (in a suit) doesn't walk; a woman waits. They talk.",
		"Several children , wearing red hats , run through the shallow water of a lake .",
	}
	var tok WordSplitter
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		tok.Words(captions[i%len(captions)])
	}
}

// wordsOf returns the words of a caption.
func wordsOf(caption string) (words []string) {
	for _, w := range new(WordSplitter).Words(caption) {
		words = append(words, string(w))
	}
	return words
}

// sentencesOf returns the sentences of a caption, lower-cased.
func sentencesOf(caption string) []string {
	s := appendLower(nil, caption)
	var out []string
	for _, p := range sentences(nil, s) {
		out = append(out, string(s[p.lo:p.hi]))
	}
	return out
}

// The white space of Python's re module below 128, and some above.
func TestSpaces(t *testing.T) {
	const spaces = "\t\n\v\f\r\x1c\x1d\x1e\x1f \u0085\u00a0\u1680\u2028\u3000"
	for r := range rune(0x3100) {
		want := 0
		if strings.ContainsRune(spaces, r) || r >= 0x2000 && r <= 0x200a || r == 0x2029 || r == 0x202f || r == 0x205f {
			want = utf8.RuneLen(r)
		}
		if got := spaceAt([]byte("a"+string(r)+"b"), 1); got != want {
			t.Errorf("%U is white space of %d bytes, want %d", r, got, want)
		}
	}
	if spaceAt([]byte(" "), 1) != 0 {
		t.Error("white space behind the end")
	}
}
