package text

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/lab/golden"
	"vsetrain/lab/try"
)

func TestGoldenWordSplitter(t *testing.T) {
	var file struct {
		Cases []struct {
			Caption   string   `json:"caption"`
			Sentences []string `json:"sentences"`
			Tokens    []string `json:"tokens"`
			Single    []string `json:"tokens_single_sentence_mode"`
		}
	}
	golden.Load(t, "tokenizer.json", &file)
	if len(file.Cases) == 0 {
		t.Fatal("no cases")
	}
	for _, c := range file.Cases {
		if got := sentencesOf(c.Caption); !slices.Equal(got, c.Sentences) {
			t.Errorf("%q: sentences %q, want %q", c.Caption, got, c.Sentences)
		}
		if got := wordTokenize(c.Caption); !slices.Equal(got, c.Tokens) {
			t.Errorf("%q: words %q, want %q", c.Caption, got, c.Tokens)
		}
		var tok WordSplitter
		tok.rw.treebank(appendLower(nil, c.Caption))
		if got := strings.Fields(string(tok.rw.text)); !slices.Equal(got, c.Single) {
			t.Errorf("%q: words of one sentence %q, want %q", c.Caption, got, c.Single)
		}
	}
}

func TestGoldenWordSplitterIDs(t *testing.T) {
	root := os.Getenv("VSETRAIN_DATA")
	if root == "" {
		t.Skip("VSETRAIN_DATA is unset: the published vocabularies are not part of the project")
	}
	var file struct{ Cases []map[string]json.RawMessage }
	golden.Load(t, "tokenizer.json", &file)
	for _, set := range []string{"f30k", "coco"} {
		v := publicVocab(t, filepath.Join(root, "text", "vocab", set+"_precomp_vocab.json.gz"))
		checked := 0
		for _, c := range file.Cases {
			raw, ok := c["ids_"+set+"_vocab"]
			if !ok {
				continue
			}
			var want []int32
			var caption string
			try.Do(t, json.Unmarshal(raw, &want))
			try.Do(t, json.Unmarshal(c["caption"], &caption))
			got, unknown := v.AppendCaption(nil, new(WordSplitter), caption)
			if !slices.Equal(got, want) || !slices.Equal(got, v.Encode(wordTokenize(caption))) {
				t.Errorf("%s %q: ids %v, want %v", set, caption, got, want)
			}
			if n := count(want, Unk); unknown != n {
				t.Errorf("%s %q: %d unknown words, want %d", set, caption, unknown, n)
			}
			checked++
		}
		if checked == 0 {
			t.Errorf("no ids for %s", set)
		}
	}
}

func count(ids []int32, id int32) (n int) {
	for _, x := range ids {
		if x == id {
			n++
		}
	}
	return n
}

// publicVocab reads a compressed vocabulary file and checks that saving and loading keep it.
func publicVocab(t *testing.T, path string) *Vocabulary {
	t.Helper()
	f := try.Get(os.Open(path))(t)
	defer f.Close()
	z := try.Get(gzip.NewReader(f))(t)
	b := try.Get(io.ReadAll(z))(t)
	v := try.Get(decodeVocab(b))(t)
	copied := filepath.Join(t.TempDir(), "vocab.json")
	try.Do(t, v.Save(copied))
	again := try.Get(LoadVocabulary(copied))(t)
	if again.Hash() != v.Hash() || again.Len() != v.Len() {
		t.Errorf("%s changed by saving: %d words, had %d", path, again.Len(), v.Len())
	}
	return v
}

func TestGoldenPunktLists(t *testing.T) {
	var file struct {
		Abbreviations []string
		Collocations  [][]string
	}
	golden.Load(t, "punkt_english_lists.json", &file)
	for _, a := range file.Abbreviations {
		if !abbreviations[a] {
			t.Errorf("abbreviation %q is missing", a)
		}
	}
	for _, c := range file.Collocations {
		if !collocations[strings.Join(c, " ")] {
			t.Errorf("collocation %q is missing", c)
		}
	}
	if len(abbreviations) != len(file.Abbreviations) || len(collocations) != len(file.Collocations) {
		t.Errorf("%d abbreviations and %d collocations, want %d and %d",
			len(abbreviations), len(collocations), len(file.Abbreviations), len(file.Collocations))
	}
}

// dataCase is a case of data.json that concerns captions and regions.
type dataCase struct {
	Name         string
	WordIDs      []int32    `json:"word_ids"`
	MaxLen       int        `json:"max_len"`
	WordPieces   [][]string `json:"word_pieces"`
	IDs          []int32
	Draws        []float64
	MaskID       int32    `json:"mask_id"`
	RandomIDs    []int32  `json:"random_ids"`
	RandomTokens []string `json:"random_tokens"`
	Expected     json.RawMessage
}

func (c *dataCase) want(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(c.Expected, v); err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
}

func series[T any](t *testing.T, what string, values []T) func() T {
	return func() (v T) {
		if len(values) == 0 {
			t.Errorf("%s: more draws than the case has", what)
			return v
		}
		v, values = values[0], values[1:]
		return v
	}
}

func TestGoldenDataText(t *testing.T) {
	var file struct{ Cases []dataCase }
	golden.Load(t, "data.json", &file)
	ran := map[string]int{}
	for i := range file.Cases {
		c := &file.Cases[i]
		draw := Draw(series(t, c.Name, c.Draws))
		switch {
		case strings.HasPrefix(c.Name, "vsrn_caption_labels"):
			ran["labels"]++
			var want struct{ Labels, Mask []int32 }
			c.want(t, &want)
			labels, mask := make([]int32, c.MaxLen+1), make([]int32, c.MaxLen+1)
			FillCaptionLabels(labels, mask, c.WordIDs)
			if !slices.Equal(labels, want.Labels) || !slices.Equal(mask, want.Mask) {
				t.Errorf("%s: labels %v mask %v, want %v %v", c.Name, labels, mask, want.Labels, want.Mask)
			}
		case strings.HasPrefix(c.Name, "size_augmentation_bert"):
			ran["pieces"]++
			checkPieces(t, c, draw)
		case strings.HasPrefix(c.Name, "size_augmentation_bigru"):
			ran["ids"]++
			var want []int32
			c.want(t, &want)
			got := AugmentIDs(nil, c.IDs, c.MaskID, draw, series(t, c.Name, c.RandomIDs))
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", c.Name, got, want)
			}
		case strings.HasPrefix(c.Name, "size_augmentation_regions"):
			ran["regions"]++
			var want []int32
			c.want(t, &want)
			if got := KeepRegions(nil, len(c.Draws), draw); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", c.Name, got, want)
			}
		}
	}
	for _, kind := range []string{"labels", "pieces", "ids", "regions"} {
		if ran[kind] == 0 {
			t.Errorf("data.json has no case of %s", kind)
		}
	}
}

// checkPieces numbers the word pieces of the case in order of appearance.
func checkPieces(t *testing.T, c *dataCase, draw Draw) {
	t.Helper()
	ids := map[string]int32{}
	var names []string
	id := func(p string) int32 {
		if _, ok := ids[p]; !ok {
			ids[p] = int32(len(names))
			names = append(names, p)
		}
		return ids[p]
	}
	mask := id("[MASK]")
	var pieces [][]int32
	for _, word := range c.WordPieces {
		var p []int32
		for _, piece := range word {
			p = append(p, id(piece))
		}
		pieces = append(pieces, p)
	}
	var random []int32
	for _, r := range c.RandomTokens {
		random = append(random, id(r))
	}
	got := []string{"[CLS]"}
	for _, i := range augmentPieces(nil, pieces, mask, draw, series(t, c.Name, random)) {
		got = append(got, names[i])
	}
	got = append(got, "[SEP]")
	var want []string
	c.want(t, &want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", c.Name, got, want)
	}
}
