package data

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// Where word ids exist and are asked for, they replace the captions' words.
func TestWordIDs(t *testing.T) {
	w := newWorld(t, 2, 5, false, "train")
	v := vocab(t)
	own := func(o OpenOptions) []string {
		words := make([]string, 10)
		for b := range batchesOf(NewLoader(w.open(t, "train", o), v, LoaderOptions{Batch: 10, Epochs: 1}))(t) {
			for i, c := range b.Indices {
				words[c] = fmt.Sprint(b.Words[i])
			}
		}
		return words
	}
	before := own(OpenOptions{WordIDs: true})
	w.write(t, "train_precaps_stan.txt", strings.Repeat("5,6, 3\n1,7,2\n", 5))
	if got := own(OpenOptions{}); !slices.Equal(got, before) {
		t.Errorf("word ids that nobody asked for: %v", got)
	}
	got := own(OpenOptions{WordIDs: true})
	if got[2] != "[1 5 6 3 2]" || got[3] != "[1 7 2]" {
		t.Errorf("words %q", got)
	}
	try.Refuses(NewLoader(w.open(t, "train", OpenOptions{WordIDs: true}), v, LoaderOptions{Batch: 1,
		Fields: []Field{FieldAugmentation}}))(t, "stored word ids cannot be augmented")
	if order := LengthOrder(w.open(t, "train", OpenOptions{WordIDs: true}), v); order[0] != 0 || order[1] != 2 ||
		order[5] != 1 {
		t.Errorf("order %v", order)
	}
	for content, want := range map[string]string{
		"1,2\n":                      "word ids of 1 captions, but",
		strings.Repeat("5,x\n", 10):  `train_precaps_stan.txt:1: "x"; expected word ids`,
		strings.Repeat("5,-1\n", 10): `"-1"; expected word ids`,
	} {
		w.write(t, "train_precaps_stan.txt", content)
		try.Refuses(Open(w.dir, "train", OpenOptions{WordIDs: true}))(t, want)
	}
	w.write(t, "train_precaps_stan.txt", strings.Repeat("5\n", 9)+"99\n")
	s := w.open(t, "train", OpenOptions{WordIDs: true})
	try.Refuses(NewLoader(s, v, LoaderOptions{Batch: 1}))(t,
		"train_precaps_stan.txt:10: word id 99, but the vocabulary has 12 words")
}
