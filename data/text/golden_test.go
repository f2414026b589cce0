package text

import (
	"bytes"
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
		if got := wordsOf(c.Caption); !slices.Equal(got, c.Tokens) {
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
			lacks := len(slices.DeleteFunc(slices.Clone(want), func(id int32) bool { return id != Unk }))
			if !slices.Equal(got, want) || unknown != lacks {
				t.Errorf("%s %q: ids %v, %d unknown, want %v, %d", set, caption, got, unknown, want, lacks)
			}
			checked++
		}
		if checked == 0 {
			t.Errorf("no ids for %s", set)
		}
	}
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

// draws hands out the draws of a case.
type draws struct {
	t      *testing.T
	name   string
	floats []float64
	ints   []int32
}

func (d *draws) Float64() float64 { return next(d, &d.floats) }
func (d *draws) IntN(int) int     { return int(next(d, &d.ints)) }

func next[T any](d *draws, values *[]T) (v T) {
	if len(*values) == 0 {
		d.t.Errorf("%s: more draws than the case has", d.name)
		return v
	}
	v, *values = (*values)[0], (*values)[1:]
	return v
}

func TestGoldenDataText(t *testing.T) {
	var file struct{ Cases []dataCase }
	golden.Load(t, "data.json", &file)
	ran := map[string]int{}
	for _, c := range file.Cases {
		kind, _ := strings.CutPrefix(c.Name, "size_augmentation_")
		d := &draws{t, c.Name, c.Draws, c.RandomIDs}
		var got any
		switch {
		case strings.HasPrefix(kind, "vsrn_caption_labels"):
			kind = "labels"
			labels, mask := make([]int32, c.MaxLen+1), make([]int32, c.MaxLen+1)
			FillCaptionLabels(labels, mask, c.WordIDs)
			got = map[string]any{"labels": labels, "mask": mask}
		case strings.HasPrefix(kind, "bert"):
			kind, got = "pieces", augmentNames(&c, d)
		case strings.HasPrefix(kind, "bigru"):
			kind, got = "ids", AugmentIDs(nil, c.IDs, c.MaskID, 1, d)
		case strings.HasPrefix(kind, "regions"):
			kind, got = "regions", KeepRegions(nil, len(c.Draws), d)
		default:
			continue
		}
		ran[kind]++
		var want any
		try.Do(t, json.Unmarshal(c.Expected, &want))
		if got, want := try.Get(json.Marshal(got))(t), try.Get(json.Marshal(want))(t); !bytes.Equal(got, want) {
			t.Errorf("%s: %s, want %s", c.Name, got, want)
		}
	}
	for _, kind := range []string{"labels", "pieces", "ids", "regions"} {
		if ran[kind] == 0 {
			t.Errorf("data.json has no case of %s", kind)
		}
	}
}

// augmentNames numbers the word pieces of a case in order of appearance, and augments them.
func augmentNames(c *dataCase, d *draws) []string {
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
	for _, r := range c.RandomTokens {
		d.ints = append(d.ints, id(r))
	}
	got := []string{"[CLS]"}
	for _, i := range augment(nil, len(pieces), func(i int) []int32 { return pieces[i] }, mask, 1, d) {
		got = append(got, names[i])
	}
	return append(got, "[SEP]")
}
