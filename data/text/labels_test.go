package text

import (
	"slices"
	"testing"
)

func TestCaptionLabelsBounds(t *testing.T) {
	for n := range 12 {
		words := make([]int32, n)
		for i := range words {
			words[i] = int32(10 + i)
		}
		labels, mask := make([]int32, 7), make([]int32, 7)
		FillCaptionLabels(labels, mask, words)
		end := slices.Index(labels, End)
		if want := min(n+1, 5); len(labels) != 7 || end != want || !slices.Equal(labels[1:end], words[:end-1]) {
			t.Errorf("%d words: labels %v", n, labels)
		}
		for i, m := range mask {
			if want := i <= end+1; (m == 1) != want {
				t.Errorf("%d words: labels %v mask %v", n, labels, mask)
			}
		}
	}
}

func TestAugmentationKeepsSomething(t *testing.T) {
	drop := &draws{t, "drop", slices.Repeat([]float64{0.19}, 8), nil}
	if got := AugmentIDs([]int32{5}, []int32{7, 8}, 9, 10, drop); !slices.Equal(got, []int32{5, 7}) {
		t.Errorf("ids %v", got)
	}
	pieces := [][]int32{{7, 8}, {6}}
	piece := func(i int) []int32 { return pieces[i] }
	if got := augment(nil, 2, piece, 9, 10, drop); !slices.Equal(got, []int32{7, 8}) {
		t.Errorf("pieces %v", got)
	}
	if got := KeepRegions(nil, 4, drop); !slices.Equal(got, []int32{0}) {
		t.Errorf("regions %v", got)
	}
	if got := KeepRegions(nil, 0, drop); len(got) != 0 {
		t.Errorf("no regions: %v", got)
	}
}

func TestAugmentationThresholds(t *testing.T) {
	for _, c := range []struct {
		draw float64
		want outcome
	}{{0, masked}, {0.0999, masked}, {0.1001, replaced}, {0.1199, replaced}, {0.1201, dropped}, {0.1999, dropped},
		{0.2, keep}, {0.99, keep}} {
		if got := fate(c.draw); got != c.want {
			t.Errorf("draw %v: outcome %d, want %d", c.draw, got, c.want)
		}
	}
}
