package train

import (
	"slices"
	"testing"

	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/devicetest"
	"vsetrain/models"
)

// What a step of each network sends, by the widths of its values: the rows of embeddings or of words that are gathered,
// and the channels of batch norms.
var budgets = map[string]struct {
	embedding  int   // of images and of captions; 0 where pairs are scored
	word, text int   // of each word, and of each caption, that images of other ranks meet
	norms      []int // channels
	filtration bool  // of SAF, over the images of a caption
}{
	"vsepp lmh":            {embedding: 8},
	"vsrn, captions false": {embedding: 8, norms: []int{8, 8, 8, 8, 8}}, // four layers of reasoning, the end
	"vseinf":               {embedding: 8, norms: []int{4}},
	"bert, 16 positions":   {embedding: 8, norms: []int{4}},
	models.SAF:             {word: 24, text: 24, norms: []int{tinyRegions, 24}, filtration: true},
	models.SGR:             {word: 24, text: 24, norms: []int{tinyRegions, 24}},
	"gsmn, sparse, others": {word: 64},
	models.SCAN:            {word: 16},
	models.CHAN:            {word: 16},
}

// A step moves no more between ranks than its shapes ask for, in no more collectives.
func TestRanksMoveLittle(t *testing.T) {
	const ranks, spare = 2, 16
	seen := 0
	for _, c := range recordedCases(t) {
		want, ok := budgets[c.name]
		if !ok {
			continue
		}
		seen++
		b := c.batch(0)
		pairs, words := b.N, [ranks]int{}
		for i, n := range b.Lengths {
			words[i%ranks] += int(n)
		}
		calls, values := 0, 0
		moves := func(times, n int) { calls, values = calls+times, values+times*n }
		if want.embedding > 0 {
			moves(2, pairs*want.embedding)
		} else {
			moves(2, ranks*max(words[0], words[1])*want.word) // there, and the gradients back
			moves(1, pairs*pairs)
		}
		if want.text > 0 {
			moves(2, pairs*want.text)
		}
		for _, channels := range want.norms {
			moves(2, ranks*(3+2*channels)) // three counts; means and squares, or two sums
		}
		if want.filtration {
			moves(2, ranks*(1+2*pairs))
		}
		devicetest.Ranks(ranks, func(w *devicetest.World) {
			s := c.step(rankedCPU(t, w, cpu.FP32))
			divide(t, s, 64)
			rank, _ := w.Rank()
			if _, err := s.Run(sharded(c.batch(0), rank, ranks), c.lr, false); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			s.ranks.complete() // as before a validation
			calls, values := calls+1, values+spare
			for i := range s.opt.parts {
				p := &s.opt.parts[i]
				half := ranks * ((p.hi - p.lo + 31) / 32 * 16) // the larger one counts for both
				calls, values = calls+3, values+3*half         // parameters, gradients, and parameters again
				if slices.Contains(s.last.divided, p) {        // inputs, products and their gradients in place of two
					calls, values = calls+1, values-2*half+pairs*(p.columns+2*(p.hi-p.lo)/p.columns)
				}
			}
			if len(s.opt.parts) < 3 || w.Calls != calls || w.Values != values {
				t.Errorf("%s: %d collectives of %d values, expected %d of %d", c.name, w.Calls, w.Values, calls, values)
			}
		})
	}
	if seen != len(budgets) {
		t.Errorf("%d networks of %d", seen, len(budgets))
	}
}
