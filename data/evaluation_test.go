package data

import (
	"slices"
	"testing"
)

func TestImageLoaderReadsEachImageOnce(t *testing.T) {
	for _, repeated := range []bool{false, true} {
		w := newWorld(t, 7, 5, repeated, "test")
		s := w.open(t, "test", OpenOptions{})
		var images []int32
		for b := range batchesOf(NewImageLoader(s, LoaderOptions{Batch: 3}))(t) {
			for i, image := range b.ImageIndices {
				images = append(images, image)
				if int(b.FeatureRows[i]) != s.RowOf(int(image)) || b.Features[i*12+11] != w.feature(int(image), 11) {
					t.Errorf("repeated %v, image %d: row %d, features %v", repeated, image, b.FeatureRows[i],
						b.Features[i*12:i*12+12])
				}
			}
			if len(b.Words) != 0 || b.L != 0 {
				t.Errorf("an image batch has words")
			}
		}
		if !slices.Equal(images, []int32{0, 1, 2, 3, 4, 5, 6}) {
			t.Errorf("repeated %v: images %v", repeated, images)
		}
	}
}

func TestCaptionLoaderReadsEachCaptionOnce(t *testing.T) {
	w := newWorld(t, 7, 5, true, "test")
	s, v := w.open(t, "test", OpenOptions{}), vocab(t)
	order := LengthOrder(s, v)
	if len(order) != 35 {
		t.Fatalf("%d captions in order", len(order))
	}
	for i := 1; i < len(order); i++ {
		a, b := int(order[i-1])%7, int(order[i])%7 // words of the caption
		if a < b || a == b && order[i-1] > order[i] {
			t.Errorf("captions %d, %d are out of order", order[i-1], order[i])
		}
	}
	padded := map[bool]int{}
	for sorted, use := range map[bool][]int32{false: nil, true: order} {
		seen := make([]int, 35)
		for b := range batchesOf(NewCaptionLoader(s, v, use, LoaderOptions{Batch: 4}))(t) {
			for i, c := range b.Indices {
				seen[c]++
				if want := int(c)%7 + 1 + 1 + 2; int(b.Lengths[i]) != want {
					t.Errorf("caption %d has length %d, want %d", c, b.Lengths[i], want)
				}
				if b.ImageIndices[i] != c/5 {
					t.Errorf("caption %d belongs to image %d", c, b.ImageIndices[i])
				}
			}
			padded[sorted] += b.N * b.L
			if len(b.Features) != 0 {
				t.Error("a caption batch has images")
			}
		}
		for c, n := range seen {
			if n != 1 {
				t.Errorf("caption %d was read %d times", c, n)
			}
		}
	}
	if padded[true] >= padded[false] {
		t.Errorf("length order pads to %d words, file order to %d", padded[true], padded[false])
	}
}
