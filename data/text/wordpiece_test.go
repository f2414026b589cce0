package text

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"vsetrain/internal/house/try"
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
	v := try.Get(LoadWordPiece(filepath.Join(dir, "vocab.txt")))(t)
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
	var p Pieces
	for _, c := range cases {
		if got, _ := v.AppendCaption(nil, &p, c.Text); !slices.Equal(got, c.IDs) {
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
		if got, _ := v.AppendCaption(nil, &p, text); !slices.Equal(got[1:len(got)-1], want) {
			t.Errorf("text %d, %q: %v, want %v", i, text, got, want)
		}
	}
}

const tinyPieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\ndog\n##s\nrun\n##ning\n##n\n.\nun\n##aff\n##able\nel\n" +
	"##e\n犬\nß\n##\n#\n"

func TestWordPieceSplits(t *testing.T) {
	v := try.Get(decodeWordPiece([]byte(tinyPieces)))(t)
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
		got, n := v.Split(new(Pieces), text)
		if !slices.EqualFunc(got, want, slices.Equal[[]int32]) || n != unknown {
			t.Errorf("%q: %v with %d unknown, want %v with %d", text, got, n, want, unknown)
		}
	}
	long := strings.Repeat("é", 99)
	v.later["e"] = 16
	v.first["e"] = 16
	if got, n := v.Split(new(Pieces), long+"é"); n != 0 || len(got[0]) != 100 {
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
		try.Refuses(decodeWordPiece([]byte(text)))(t, want)
	}
	try.Refuses(LoadWordPiece(filepath.Join(t.TempDir(), "vocab.txt")))(t, "vocab.txt")
	windows, err := decodeWordPiece([]byte(strings.ReplaceAll(tinyPieces, "\n", "\r\n")))
	if err != nil || windows.Len() != 21 {
		t.Errorf("lines that end in \\r\\n: %v", err)
	}
}

func TestWordPieceAllocatesNothing(t *testing.T) {
	v := try.Get(decodeWordPiece([]byte(tinyPieces)))(t)
	var p Pieces
	var ids []int32
	if n := testing.AllocsPerRun(100, func() {
		ids, _ = v.AppendCaption(ids[:0], &p, "A dog, unaffable, running zebras.")
	}); n != 0 {
		t.Errorf("%v allocations for a caption", n)
	}
}

// Whatever the text, every id is one of the vocabulary, and a text of its own words gives the same pieces.
func FuzzWordPiece(f *testing.F) {
	f.Add("A dog, unaffable élé 犬 running.", "")
	f.Add("İs th!s 𩸽 Ϻ Šœ Ugljšić dấu nặng", tinyPieces)
	f.Add("\xff\u0301\u200d", "[PAD]\n##x\n")
	f.Add("\xf5â", "")
	v := try.Get(decodeWordPiece([]byte(tinyPieces)))(f)
	f.Fuzz(func(t *testing.T, text, vocab string) {
		other, err := decodeWordPiece([]byte(vocab))
		if err == nil {
			other.Split(new(Pieces), text)
		}
		var p, q Pieces
		words, _ := v.Split(&p, text)
		var again []string
		for i, w := range words {
			if len(w) == 0 || slices.Max(w) >= int32(v.Len()) || slices.Min(w) < 0 {
				t.Fatalf("%q: ids %v", text, w)
			}
			again = append(again, string(p.basic.word(i)))
		}
		if same, _ := v.Split(&q, strings.Join(again, " ")); !slices.EqualFunc(same, words, slices.Equal[[]int32]) {
			t.Errorf("%q: pieces %v, of its words %q %v", text, words, again, same)
		}
	})
}
