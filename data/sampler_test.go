package data

import (
	"slices"
	"testing"

	"vsetrain/lab/try"
)

func TestSamplerVisitsEachCaptionOnce(t *testing.T) {
	for _, shuffle := range []bool{true, false} {
		for _, drop := range []bool{true, false} {
			s := try.Get(NewSampler(103, 10, 7, shuffle, drop))(t)
			want := map[bool]int{true: 10, false: 11}[drop]
			if s.BatchesPerEpoch() != want {
				t.Errorf("drop %v: %d batches", drop, s.BatchesPerEpoch())
			}
			var all []int32
			for i := range s.BatchesPerEpoch() {
				all = append(all, s.Batch(3, i)...)
			}
			if sorted := slices.IsSorted(all); sorted == shuffle {
				t.Errorf("shuffle %v gives %v", shuffle, all)
			}
			slices.Sort(all)
			if n := len(slices.Compact(all)); n != map[bool]int{true: 100, false: 103}[drop] {
				t.Errorf("shuffle %v, drop %v: %d distinct captions", shuffle, drop, n)
			}
		}
	}
}

func TestSamplerIsAFunctionOfSeedAndEpoch(t *testing.T) {
	get := func(seed uint64, epochs ...int) (b []int32) {
		s := try.Get(NewSampler(50, 8, seed, true, false))(t)
		for _, e := range epochs {
			b = s.Batch(e, 2)
		}
		return b
	}
	a := get(1, 5)
	if b := get(1, 0, 1, 9, 5); !slices.Equal(a, b) {
		t.Errorf("epoch 5 is %v after others, %v at once", b, a)
	}
	if slices.Equal(a, get(1, 6)) || slices.Equal(a, get(2, 5)) {
		t.Error("another epoch or seed gives the same batch")
	}
	var orders [][]int32
	for epoch := range 10 {
		order := get(1, epoch)
		if slices.ContainsFunc(orders, func(o []int32) bool { return slices.Equal(o, order) }) {
			t.Errorf("epoch %d has the batch of an epoch before it", epoch)
		}
		orders = append(orders, slices.Clone(order))
	}
	for _, bad := range [][2]int{{0, 4}, {4, 0}} {
		if _, err := NewSampler(bad[0], bad[1], 0, true, false); err == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
	if _, err := NewSampler(3, 4, 0, true, true); err == nil {
		t.Error("an epoch without a batch was accepted")
	}
}

// Repeated batches are the batches of the first epoch, in all epochs, which keep their length.
func TestSamplerRepeats(t *testing.T) {
	whole := try.Get(NewSampler(23, 5, 7, true, false))(t)
	s, err := NewSampler(23, 5, 7, true, false)
	if err != nil || s.Repeat(2) != nil || s.BatchesPerEpoch() != 5 {
		t.Fatal(s, err)
	}
	for epoch := range 3 {
		for i := range 5 {
			if got, want := s.Batch(epoch, i), whole.Batch(0, i%2); !slices.Equal(got, want) {
				t.Errorf("epoch %d, iteration %d: %v, want %v", epoch, i, got, want)
			}
		}
	}
	if s.Repeat(6) == nil || s.Repeat(0) == nil {
		t.Error("as many batches as there are not")
	}
}
