package data

import (
	"fmt"
	"slices"
	"testing"

	"vsetrain/lab/try"
)

// A loader of one of several ranks brings every so manieth image of what a loader of one brings, and all captions, with
// dropped regions and divided boxes too.
func TestLoaderOfARank(t *testing.T) {
	w := newWorld(t, 9, 5, false, "train")
	w.boxes(t)
	for _, fields := range [][]Field{{FieldFeatures, FieldBoxes, FieldSemantics}, {FieldFeatures, FieldAugmentation},
		{FieldAugmentation}, {FieldDecayedBoxes}} {
		s, v := w.open(t, "train", OpenOptions{Boxes: true}), vocab(t)
		open := func(rank, ranks int) *Loader {
			l := try.Get(NewLoader(s, v, LoaderOptions{Batch: 8, Seed: 3, Shuffle: true, Fields: fields, Rank: rank,
				Ranks: ranks}))(t)
			t.Cleanup(l.Close)
			return l
		}
		one := open(0, 0)
		parts := []*Loader{open(0, 3), open(1, 3), open(2, 3)}
		for range 9 { // more than an epoch, whose last batch is smaller
			b := mustNext(t, one)
			images := imagesOf(b)
			if b.Pairs() != b.N {
				t.Errorf("%d pairs, expected %d", b.Pairs(), b.N)
			}
			for rank, l := range parts {
				p := mustNext(t, l)
				var want []string
				for i := rank; i < b.N; i += 3 {
					want = append(want, images[i])
				}
				if got := imagesOf(p); !slices.Equal(got, want) || p.N != len(want) {
					t.Errorf("%v: rank %d of batch %d.%d has the images %q, expected %q", fields, rank, b.Epoch, b.Iter,
						got, want)
				}
				if !slices.EqualFunc(p.Words, b.Words, slices.Equal[[]int32]) || p.Pairs() != b.N ||
					!slices.Equal(p.Lengths, b.Lengths) || !slices.Equal(p.Indices, b.Indices) ||
					!slices.Equal(p.ImageIndices, b.ImageIndices) {
					t.Errorf("%v: rank %d does not know all captions", fields, rank)
				}
				if len(b.Counts) > 0 && p.MostRegions != slices.Max(b.Counts) {
					t.Errorf("rank %d knows of %d regions, there are %d", rank, p.MostRegions, slices.Max(b.Counts))
				}
				l.Release(p)
			}
			one.Release(b)
		}
	}
}

// imagesOf is what a batch says of each image.
func imagesOf(b *Batch) (all []string) {
	features, regions, boxes := b.Features, b.RegionRows, b.Boxes
	for i := range b.N {
		n := b.Regions
		if len(b.Counts) > 0 {
			n = int(b.Counts[i])
		}
		text := fmt.Sprint(b.FeatureRows[i], n)
		if len(features) > 0 {
			text, features = text+fmt.Sprint(features[:n*b.Dim]), features[n*b.Dim:]
		}
		if len(regions) > 0 {
			text, regions = text+fmt.Sprint(regions[:n]), regions[n:]
		}
		if len(boxes) > 0 {
			text, boxes = text+fmt.Sprint(boxes[:4*b.Regions]), boxes[4*b.Regions:]
		}
		all = append(all, text)
	}
	return all
}

func TestLoaderOfARankRefuses(t *testing.T) {
	s, v := newWorld(t, 9, 5, false, "train").open(t, "train", OpenOptions{}), vocab(t)
	for want, o := range map[string]LoaderOptions{
		"a batch has 1 pairs, fewer than the 2 ranks": {Batch: 4, Ranks: 2},
		"a batch has 2 pairs, fewer than the 3 ranks": {Batch: 2, Ranks: 3, DropLast: true},
		"rank 3 of 3": {Batch: 8, Rank: 3, Ranks: 3},
	} {
		try.Refuses(NewLoader(s, v, o))(t, want)
	}
	l := try.Get(NewLoader(s, v, LoaderOptions{Batch: 4, Ranks: 2, DropLast: true}))(t)
	l.Close()
}
