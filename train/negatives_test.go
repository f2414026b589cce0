package train

import (
	"testing"

	"vsetrain/internal/device/cpu"
	"vsetrain/loss"
)

// The count of different hard negatives against one made from the scores of the step.
func TestHardNegatives(t *testing.T) {
	s := tinyStep(t, cpu.FP32, loss.LMH, 0)
	if c, i := s.HardNegatives(); c != 0 || i != 0 {
		t.Errorf("before the first step: %d, %d", c, i)
	}
	run(t, s, tinyBatch(1, 6, 12))
	scores := s.last.vm.Doubles(s.last.scores)
	n := 6
	captions, images := map[int]bool{}, map[int]bool{}
	for i := range n {
		bestRow, bestCol := -1, -1
		var row, col float64
		for j := range n {
			if j == i {
				continue
			}
			if c := s.loss.Margin + scores[i*n+j] - scores[i*n+i]; c > row {
				bestRow, row = j, c
			}
			if c := s.loss.Margin + scores[j*n+i] - scores[i*n+i]; c > col {
				bestCol, col = j, c
			}
		}
		captions[max(0, bestRow)], images[max(0, bestCol)] = true, true // without a violation the lowest index counts
	}
	if c, i := s.HardNegatives(); c != len(captions) || i != len(images) {
		t.Errorf("%d captions and %d images, want %d and %d", c, i, len(captions), len(images))
	}
	if len(captions) < 2 || len(images) < 2 {
		t.Fatalf("a batch with %d and %d different negatives tests nothing", len(captions), len(images))
	}
}
