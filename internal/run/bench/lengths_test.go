package bench

import (
	"slices"
	"testing"

	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
)

// Captions of synthetic batches have the lengths of the request, all of them.
func TestLengths(t *testing.T) {
	for _, lengths := range [][]int32{{7}, {4, 9, 13}} {
		c := runtest.TinyConfig()
		c.Train.Batch, c.Data.Dir = 32, ""
		b := newBench(Request{Config: c, Regions: 2, Feature: 8, Vocab: 50, Lengths: lengths})
		try.Get(b.open(t.Context()))(t)
		t.Cleanup(b.Close)
		for _, x := range b.batches {
			if x.L != int(slices.Max(lengths)) || len(x.Lengths) != 32 {
				t.Errorf("%v: %d captions, the longest of %d words", lengths, len(x.Lengths), x.L)
			}
			for i, l := range x.Lengths {
				if !slices.Contains(lengths, l) || len(x.Words[i]) != int(l) {
					t.Errorf("%v: a caption of %d words, said to be %d", lengths, len(x.Words[i]), l)
				}
			}
		}
	}
}
