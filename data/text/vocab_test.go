package text

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/files/pickle"
	"vsetrain/lab/try"
)

func small(t testing.TB) *Vocabulary {
	t.Helper()
	return try.Get(BuildVocabulary(slices.Values([]string{"A dog runs .", "The dog sleeps .", "the cat runs ."}), 2))(t)
}

func TestBuildVocabularyOrderAndThreshold(t *testing.T) {
	v := small(t)
	want := []string{"<pad>", "<start>", "<end>", "<unk>", "dog", "runs", ".", "the"}
	if !slices.Equal(v.words, want) {
		t.Errorf("words %q, want %q", v.words, want)
	}
	if got, unknown := v.AppendCaption(nil, new(WordSplitter), "the cat runs"); unknown != 1 ||
		!slices.Equal(got, []int32{1, 7, 3, 5, 2}) {
		t.Errorf("encoded %v", got)
	}
	if _, err := BuildVocabulary(slices.Values([]string{"x"}), 0); err == nil {
		t.Error("a threshold of 0 was accepted")
	}
}

func TestVocabularyHash(t *testing.T) {
	a := small(t)
	words := slices.Clone(a.words)
	words[4], words[5] = words[5], words[4]
	if c := try.Get(newVocabulary(words))(t); c.Hash() == a.Hash() {
		t.Error("exchanged ids have the same hash")
	}
}

func TestVocabularyFileRoundTrip(t *testing.T) {
	v := small(t)
	words := append(slices.Clone(v.words), `quo"te`, "naïve", "<b>", "back\\slash")
	v = try.Get(newVocabulary(words))(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "vocab.json")
	for range 2 { // the second time over an existing file
		try.Do(t, v.Save(path))
	}
	got := try.Get(LoadVocabulary(path))(t)
	if !slices.Equal(got.words, v.words) {
		t.Errorf("words %q, want %q", got.words, v.words)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".vocab-*")); len(left) > 0 {
		t.Errorf("temporary files are left: %q", left)
	}
	try.Fails(t, v.Save(filepath.Join(dir, "missing", "vocab.json")), "missing")
}

// pickled is a vocabulary as VSE++ stores it.
func pickled(t testing.TB, words []string, class string) []byte {
	t.Helper()
	w2i, i2w := &pickle.Dict{}, &pickle.Dict{}
	for i, w := range words {
		w2i.Set(w, int64(i))
		i2w.Set(int64(i), w)
	}
	o := &pickle.Object{Class: class}
	o.Attrs.Set("word2idx", w2i)
	o.Attrs.Set("idx2word", i2w)
	o.Attrs.Set("idx", int64(len(words)))
	var b bytes.Buffer
	try.Do(t, pickle.Encode(&b, o, nil))
	return b.Bytes()
}

func TestLoadPickleVocabulary(t *testing.T) {
	v := small(t)
	path := filepath.Join(t.TempDir(), "vocab.pkl")
	for _, class := range []string{"__main__.Vocabulary", "vocab.Vocabulary", "lib.vocab.Vocabulary", "a.b.c.Words"} {
		try.Do(t, os.WriteFile(path, pickled(t, v.words, class), 0o644))
		got := try.Get(LoadVocabulary(path))(t)
		if got.Hash() != v.Hash() {
			t.Errorf("%s: words %q, want %q", class, got.words, v.words)
		}
	}
	try.Do(t, os.WriteFile(path, []byte("cos\nsystem\n(S'touch x'\ntR."), 0o644))
	try.Refuses(LoadVocabulary(path))(t, "os.system", "nothing was executed")
}

// Python 3.8 and later write HIGHEST_PROTOCOL as 5: testdata/vocab_python311.pkl is a class Vocabulary of seven words
// by Python 3.11.
func TestLoadVocabularyOfPython311(t *testing.T) {
	v := try.Get(LoadVocabulary("testdata/vocab_python311.pkl"))(t)
	if want := []string{"<pad>", "<start>", "<end>", "<unk>", "a", "dog", "café"}; !slices.Equal(v.words, want) {
		t.Errorf("words %q, want %q", v.words, want)
	}
}

func TestWithoutMask(t *testing.T) {
	v := small(t)
	masked := try.Get(newVocabulary(append(slices.Clone(v.words), MaskWord)))(t)
	got := masked.WithoutMask()
	if got.Hash() != v.Hash() || got.Len() != v.Len() {
		t.Errorf("%q without its mask is %q", masked.words, got.words)
	}
	if masked.ids[MaskWord] != int32(v.Len()) {
		t.Error("the vocabulary itself has lost its mask")
	}
	inside := try.Get(newVocabulary(append(slices.Clone(special[:]), MaskWord, "dog")))(t)
	if v.WithoutMask() != v || inside.WithoutMask() != inside {
		t.Error("a vocabulary that does not end in <mask> has changed")
	}
}

func TestLoadVocabularyErrors(t *testing.T) {
	head := `"<pad>":0,"<start>":1,"<end>":2,"<unk>":3`
	back := `"0":"<pad>","1":"<start>","2":"<end>","3":"<unk>"`
	cases := []struct{ name, file, want string }{
		{"empty", "", "empty"},
		{"not json", "hello", "expected JSON with word2idx"},
		{"other json", `{"a": {"b": 1}, "n": 2}`, `no word2idx in it, but "a", "n"; expected`},
		{"word pieces", "[PAD]\n[UNK]\n", "word pieces of a BERT"},
		{"ids from 1", `{"<pad>":1,"<start>":2,"<end>":3,"<unk>":4}`, `the id 4; ids must be 0 to 3`},
		{"words of torchtext", `{"itos":["<unk>","<pad>","a"]}`, `id 0 must be <pad>, found "<unk>"`},
		{"nested", strings.Repeat("[", 100) + strings.Repeat("]", 100), "nested too deep"},
		{"two values", `["a"] ["b"]`, "something follows"},
		{"idx", `{"word2idx":{` + head + `},"idx2word":{` + back + `},"idx":9}`, "idx is 9, but word2idx has 4 words"},
		{"doubled word", `{"word2idx":{` + head + `,"<end>":2},"idx2word":{` + back + `},"idx":4}`,
			`"<end>" stands twice`},
		{"doubled object", `{"word2idx":{` + head + `},"word2idx":{` + head + `},"idx":4}`, `"word2idx" stands twice`},
		{"gap", `{"word2idx":{` + head + `,"x":7},"idx":5}`, `"x" has the id 7; ids must be 0 to 4`},
		{"shared", `{"word2idx":{` + head + `,"x":3},"idx":5}`, `share the id 3`},
		{"inverse", `{"word2idx":{` + head + `,"x":4},"idx2word":{` + back + `,"4":"y"},"idx":5}`,
			`idx2word has "y" there`},
		{"short inverse", `{"word2idx":{` + head + `,"x":4},"idx2word":{` + back + `},"idx":5}`,
			"idx2word has 4 words, word2idx 5"},
		{"bad key", `{"word2idx":{` + head + `},"idx2word":{"zero":"<pad>"},"idx":4}`, `the key "zero"`},
		{"special", `{"word2idx":{"<start>":0,"<pad>":1,"<end>":2,"<unk>":3},"idx":4}`, "id 0 must be <pad>"},
		{"no words", `{"word2idx":{},"idx":0}`, "id 0 must be <pad>"},
		{"pickle of something else", "\x80\x02K\x05.", "it holds a int"},
		{"pickle of nothing", "\x80\x02]q\x00.", "id 0 must be <pad>, found no word"},
		{"truncated pickle", "\x80\x02c__main__\nVoc", "not a vocabulary pickle"},
	}
	path := filepath.Join(t.TempDir(), "vocab.json")
	for _, c := range cases {
		try.Do(t, os.WriteFile(path, []byte(c.file), 0o644))
		try.Refuses(LoadVocabulary(path))(t, c.want, path)
	}
	try.Refuses(LoadVocabulary(path+".none"))(t, "vsetrain data vocab")
}

func FuzzLoadVocabulary(f *testing.F) {
	f.Add([]byte(`{"word2idx":{"<pad>":0,"<start>":1,"<end>":2,"<unk>":3},"idx2word":{"0":"<pad>"},"idx":4}`))
	f.Add(pickled(f, special[:], "__main__.Vocabulary"))
	python := try.Get(os.ReadFile("testdata/vocab_python311.pkl"))(f)
	f.Add(python)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, decode := range []func([]byte) (*Vocabulary, error){decodeVocab, decodePickleVocab} {
			v, err := decode(b)
			if err != nil {
				continue
			}
			var file bytes.Buffer
			try.Do(t, v.encode(&file))
			again, err := decodeVocab(file.Bytes())
			if err != nil || again.Hash() != v.Hash() {
				// JSON cannot hold words that are not UTF-8.
				if s := strings.Join(v.words, ""); strings.ToValidUTF8(s, "") == s {
					t.Errorf("%q does not survive saving: %v", v.words, err)
				}
			}
		}
	})
}

// A vocabulary is read by its content: whatever the class, the protocol, the containers and the types of ids are, and
// in every form that holds words with their ids. testdata/vocabularies.pkls are such pickles by CPython, one after the
// other, of the words of small(t): scripts/make_torch_fixtures.py.
func TestVocabularyOfOtherForms(t *testing.T) {
	want := small(t)
	load := func(name string, b []byte) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "v")
		try.Do(t, os.WriteFile(path, b, 0o644))
		if v, err := LoadVocabulary(path); err != nil || v.Hash() != want.Hash() {
			t.Errorf("%s: %v", name, err)
		}
	}
	ids, words := map[string]int{}, map[int]string{}
	for i, w := range want.words {
		ids[w], words[i] = i, w
	}
	for name, v := range map[string]any{"ids alone": map[string]any{"word2idx": ids}, "words and ids": ids,
		"list": want.words, "words by id": map[string]any{"idx2word": words},
		"words in a list": map[string]any{"idx2word": want.words, "word2idx": ids},
		"torchtext":       map[string]any{"itos": want.words, "stoi": ids, "freqs": nil},
		"neuraltalk2":     map[string]any{"ix_to_word": words, "images": nil}} {
		load(name, try.Get(json.Marshal(v))(t))
	}
	all := try.Get(os.ReadFile("testdata/vocabularies.pkls"))(t)
	n := 0
	for len(all) > 0 {
		size := binary.LittleEndian.Uint32(all)
		n++
		load(fmt.Sprint("pickle ", n), all[4:4+size])
		all = all[4+size:]
	}
	if n < 60 {
		t.Errorf("%d pickles", n)
	}
}
