package text

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// bertFolder is the folder of the public vocabulary and its fixtures.
func bertFolder(t *testing.T) string {
	t.Helper()
	root := os.Getenv("VSETRAIN_DATA")
	if root == "" {
		t.Skip("VSETRAIN_DATA is unset: the vocabulary of BERT is not part of the project")
	}
	return filepath.Join(root, "text", "bert")
}

func TestWordPieceConformsToBERT(t *testing.T) {
	dir := bertFolder(t)
	v := try.Get(LoadBertTokenizer(filepath.Join(dir, "vocab.txt"), math.MaxInt32))(t)
	if v.Len() != 30522 || v.Pad != 0 || v.Unk != 100 || v.Cls != 101 || v.Sep != 102 || v.Mask != 103 {
		t.Errorf("%d pieces, special ones %d %d %d %d %d", v.Len(), v.Pad, v.Unk, v.Cls, v.Sep, v.Mask)
	}
	read := func(name string) []byte {
		return try.Get(os.ReadFile(filepath.Join(dir, name)))(t)
	}
	var cases []struct {
		Text string
		IDs  []int32 `json:"ids"`
	}
	try.Do(t, json.Unmarshal(read("wordpiece_expected.json"), &cases))
	encoder := v.NewEncoder()
	for _, c := range cases {
		if got, _, _ := encoder.Append(nil, c.Text); !slices.Equal(got, c.IDs) {
			t.Errorf("%q: %v, want %v", c.Text, got, c.IDs)
		}
	}
	texts := strings.Split(string(read("bge_tokenizer.inp")), "\n__ggml_vocab_test__\n")
	lines := strings.Split(string(read("bge_tokenizer.out")), "\n")
	if len(cases) == 0 || len(texts) < 2 || len(lines) < len(texts) {
		t.Fatalf("%d cases, %d texts, %d lines of ids", len(cases), len(texts), len(lines))
	}
	for i, text := range texts {
		var want []int32
		for _, f := range strings.Fields(lines[i]) {
			id := try.Get(strconv.Atoi(f))(t)
			want = append(want, int32(id))
		}
		if got, _, _ := encoder.Append(nil, text); !slices.Equal(got[1:len(got)-1], want) {
			t.Errorf("text %d, %q: %v, want %v", i, text, got, want)
		}
	}
}

const tinyPieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\ndog\n##s\nrun\n##ning\n##n\n.\nun\n##aff\n##able\nel\n" +
	"##e\n犬\nß\n##\n#\n"

func TestWordPieceSplits(t *testing.T) {
	v := try.Get(decodePieces([]byte(tinyPieces)))(t)
	for text, want := range map[string][][]int32{
		"A dog.":                         {{5}, {6}, {11}},
		"  dogs\trunning\r\n":            {{6, 7}, {8, 9}},
		"Unaffable élé":                  {{12, 13, 14}, {15, 16}},
		"do\u200dg\x00\x7f\ufffdS\u0301": {{6, 7}},         // joiner, controls, replacement character and accent vanish
		"dog犬dog":                        {{6}, {17}, {6}}, // a Chinese character stands alone
		"dog\u2028a\u00a0a\u3000a":       {{6}, {5}, {5}, {5}},
		"doggy ruß ß":                    {{1}, {1}, {18}},
		"\xffdog\xc3":                    {{6}},
		"##":                             {{20}, {20}},
		"":                               nil,
		strings.Repeat("a", 101):         {{1}},
	} {
		unknown := 0
		for _, w := range want {
			if slices.Equal(w, []int32{1}) {
				unknown++
			}
		}
		got, n := (&pieceEncoder{v: v}).split(text)
		if !slices.EqualFunc(got, want, slices.Equal[[]int32]) || n != unknown {
			t.Errorf("%q: %v with %d unknown, want %v with %d", text, got, n, want, unknown)
		}
	}
	long := strings.Repeat("é", 99)
	v.later["e"] = 16
	v.first["e"] = 16
	if got, n := (&pieceEncoder{v: v}).split(long + "é"); n != 0 || len(got[0]) != 100 {
		t.Errorf("100 characters: %d pieces, %d unknown", len(got[0]), n)
	}
}

func TestWordPieceRefusesBadFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "no piece [PAD] among 0",
		tinyPieces + "dog\n":  `line 22: piece "dog" stands in line 7 already`,
		tinyPieces + "##s\n":  `line 22: piece "##s" stands in line 8 already`,
		tinyPieces + "\nx\n":  `line 22: expected a piece in UTF-8, found ""`,
		tinyPieces + "\xff\n": "line 22: expected a piece in UTF-8",
		strings.Replace(tinyPieces, "[MASK]", "mask", 1): "no piece [MASK] among 21; expected the vocab.txt of a " +
			"BERT model",
	} {
		try.Refuses(decodePieces([]byte(text)))(t, want)
	}
	try.Refuses(LoadBertTokenizer(filepath.Join(t.TempDir(), "vocab.txt"), 9))(t, "vocab.txt")
}

// Whatever the text, every id is one of the vocabulary, and a text of its own words gives the same pieces.
func FuzzWordPiece(f *testing.F) {
	f.Add("A dog, unaffable élé 犬 running.", "")
	f.Add("İs th!s 𩸽 Ϻ Šœ Ugljšić dấu nặng", tinyPieces)
	f.Add("\xff\u0301\u200d", "[PAD]\n##x\n")
	f.Add("\xf5â", "")
	v := try.Get(decodePieces([]byte(tinyPieces)))(f)
	f.Fuzz(func(t *testing.T, text, vocab string) {
		other, err := decodePieces([]byte(vocab))
		if err == nil {
			(&pieceEncoder{v: other}).split(text)
		}
		p := &pieceEncoder{v: v}
		words, _ := p.split(text)
		var again []string
		for i, w := range words {
			if len(w) == 0 || slices.Max(w) >= int32(v.Len()) || slices.Min(w) < 0 {
				t.Fatalf("%q: ids %v", text, w)
			}
			again = append(again, string(p.basic.word(i)))
		}
		same, _ := (&pieceEncoder{v: v}).split(strings.Join(again, " "))
		if !slices.EqualFunc(same, words, slices.Equal[[]int32]) {
			t.Errorf("%q: pieces %v, of its words %q %v", text, words, again, same)
		}
	})
}

// The words of a text are the same as from Hugging Face's BasicTokenizer, for all settings:
// testdata/basic_tokenizer.json, by scripts/make_tokenizer_cases.py.
func TestBasicWordSplitterConforms(t *testing.T) {
	var cases []struct {
		Text  string
		Lower bool  `json:"do_lower_case"`
		Strip *bool `json:"strip_accents"`

		Chinese bool `json:"tokenize_chinese_chars"`
		Words   []string
	}
	try.Do(t, json.Unmarshal(try.Get(os.ReadFile("testdata/basic_tokenizer.json"))(t), &cases))
	for _, c := range cases {
		n := Normalizer{c.Lower, c.Lower, c.Chinese}
		if c.Strip != nil {
			n.StripAccents = *c.Strip
		}
		var b basic
		b.split(c.Text, n)
		var got []string
		for i := range b.ends {
			got = append(got, string(b.word(i)))
		}
		if !slices.Equal(got, c.Words) {
			t.Errorf("%q with %+v: %q, want %q", c.Text, n, got, c.Words)
		}
	}
	if len(cases) < 200 {
		t.Errorf("%d cases", len(cases))
	}
}

// What becomes of letters follows from the files of the folder: drawn entries of tokenizer_config.json and
// tokenizer.json, beside vocabularies with and without capitals and accents.
func TestNormalizerOfAFolder(t *testing.T) {
	r := rand.New(rand.NewPCG(50, 7))
	maybe := func(entries map[string]any, key string) *bool {
		var v *bool
		switch k := r.IntN(4); k {
		case 0, 1:
			b := k == 0
			v = &b
			entries[key] = b
		case 2:
			entries[key] = nil
		}
		return v
	}
	refused := 0
	for range 150 {
		files := map[string]string{"vocab.txt": tinyPieces}
		foreign := r.IntN(2) == 0
		if foreign {
			files["vocab.txt"] += []string{"Dog\n", "##Ly\n", "é\n", "が\n", "ÿ\n"}[r.IntN(5)]
		} else {
			files["vocab.txt"] += "[unused1]\n<S>\n"
		}
		var lower, strip, chinese *bool
		if r.IntN(3) > 0 {
			class := []any{nil, "BertTokenizer", "DistilBertTokenizerFast"}[r.IntN(3)]
			config := map[string]any{"tokenizer_class": class, "do_basic_tokenize": true,
				"never_split": nil, "cls_token": map[string]any{"content": "[CLS]"}}
			lower, strip, chinese = maybe(config, "do_lower_case"), maybe(config, "strip_accents"),
				maybe(config, "tokenize_chinese_chars")
			files[TokenizerConfig] = string(try.Get(json.Marshal(config))(t))
		}
		if r.IntN(3) > 0 {
			own := map[string]any{"type": "BertNormalizer", "clean_text": true}
			l, s, c := maybe(own, "lowercase"), maybe(own, "strip_accents"), maybe(own, "handle_chinese_chars")
			if lower == nil {
				if lower = l; strip == nil {
					strip = s
				}
			}
			if chinese == nil {
				chinese = c
			}
			var n any = own
			if r.IntN(2) == 0 {
				n = map[string]any{"type": "Sequence", "normalizers": []any{map[string]any{"type": "NFC"}, own}}
			}
			files[tokenizerFile] = string(try.Get(json.Marshal(map[string]any{"normalizer": n, "version": "1.0",
				"model": map[string]any{"type": "WordPiece", "vocab": map[string]int{}}}))(t))
		}
		is := func(b *bool, unsaid bool) bool { return b == nil && unsaid || b != nil && *b }
		want := Normalizer{is(lower, true), is(strip, is(lower, true)), is(chinese, true)}
		path := filepath.Join(try.Files(t, files), "vocab.txt")
		v, err := LoadBertTokenizer(path, 9)
		if lower == nil && foreign {
			refused++
			try.Fails(t, err, "capitals or accents", TokenizerConfig, `{"do_lower_case": false}`)
			continue
		}
		if err != nil || v.Normalizer != want {
			t.Fatalf("%v: %+v, want %+v (%v)", files, v, want, err)
		}
		dir := t.TempDir()
		try.Do(t, SaveTokenizer(dir, v))
		again := try.Get(LoadBertTokenizer(filepath.Join(dir, "vocab.txt"), 9))(t)
		if again.Normalizer != want || again.Hash() != v.Hash() {
			t.Errorf("%+v, kept as %+v", want, again.Normalizer)
		}
		plain := try.Get(decodePieces([]byte(files["vocab.txt"])))(t)
		if (plain.Hash() == v.Hash()) != (want == uncased) {
			t.Errorf("%+v: the hash does not tell", want)
		}
	}
	if refused < 10 {
		t.Errorf("only %d refused", refused)
	}
	for file, want := range map[string]string{
		`{"tokenizer_class": "RobertaTokenizer"}`:        "RobertaTokenizer, which splits words in another way",
		`{"tokenizer_class": "BertJapaneseTokenizer"}`:   "BertJapaneseTokenizer",
		`{"do_basic_tokenize": false}`:                   "do_basic_tokenize",
		`{"never_split": ["[X]"]}`:                       "never_split",
		`{"do_lower_case": "no"}`:                        "do_lower_case",
		`{"tokenizer_class": "PreTrainedTokenizerFast"}`: `model type ""; expected WordPiece`,
		`{`: "ends within",
	} {
		dir := try.Files(t, map[string]string{"vocab.txt": tinyPieces, TokenizerConfig: file})
		try.Refuses(LoadBertTokenizer(filepath.Join(dir, "vocab.txt"), 9))(t, TokenizerConfig[:9], want)
	}
	dir := try.Files(t, map[string]string{"vocab.txt": tinyPieces,
		tokenizerFile: `{"model": {"type": "WordPiece"}, "normalizer": {"type": "Lowercase"}}`})
	try.Refuses(LoadBertTokenizer(filepath.Join(dir, "vocab.txt"), 9))(t, `normaliser "Lowercase"`, TokenizerConfig)
}
