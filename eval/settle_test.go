package eval

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"vsetrain/data"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// matrixSettling settles a matrix of scores in bf16 by another one in fp32.
func matrixSettling(first, exact *Dense[float32], own data.Groups) *settling {
	return &settling{d: first, own: own, exact: func(dst []float32, images, captions []int32) error {
		for i, image := range images {
			for j, c := range captions {
				dst[i*len(captions)+j] = exact.Data[int(image)*exact.Captions+int(c)]
			}
		}
		return nil
	}}
}

// All ranks and ties of 10,000 random matrices are those of all pairs in fp32, with equal scores too, or too many pairs
// are near a match.
func TestSettledRanksAreThoseOfAllPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	settled, again, pairs, others := 0, 0, 0, 0
	for range 10000 {
		n := 2 + r.IntN(20)
		counts := make([]int, n)
		for i := range counts {
			counts[i] = 1 + r.IntN(3)
		}
		own := data.GroupsOf(counts)
		exact := try.Get(newDense[float32](n, own.Items()))(t)
		first := try.Get(newDense[float32](n, own.Items()))(t)
		steps, noise := math.Pow(10, 4*r.Float64()), math.Pow(10, -1-3*r.Float64()) // few steps make ties
		for k := range exact.Data {
			i, c := k/own.Items(), k%own.Items()
			v := r.Float64()
			if own.ImageOf(c) == i {
				v += r.Float64()
			}
			exact.Data[k] = float32(math.Round(v*steps) / steps)
			first.Data[k] = exact.Data[k] + float32(noise*(2*r.Float64()-1))
		}
		wantI, wantC, wantTies, err := ranksAndTies(usualTiles(), nil, exact, own)
		try.Do(t, err)
		firstI, firstC, _, err := ranksAndTies(usualTiles(), nil, first, own)
		try.Do(t, err)
		s := matrixSettling(first, exact, own)
		try.Do(t, s.scoreMatches(t.Context()))
		s.largest = noise / 2 // what a sample would have shown
		if !try.Get(s.run(t.Context()))(t) {
			continue
		}
		settled++
		again, pairs = again+s.again, pairs+len(first.Data)
		if !slices.Equal(firstI, wantI) || !slices.Equal(firstC, wantC) {
			others++
		}
		gotI, gotC, ties, err := ranksAndTies(usualTiles(), nil, first, own)
		try.Do(t, err)
		if !slices.Equal(gotI, wantI) || !slices.Equal(gotC, wantC) || ties != wantTies {
			t.Fatalf("%d images, noise %g: ranks %v %v, ties %v; want %v %v, %v", n, noise, gotI, gotC, ties, wantI,
				wantC, wantTies)
		}
	}
	t.Logf("%d settled, %d of %d pairs scored again; %d would have had other ranks", settled, again, pairs, others)
	if settled < 2000 || others < 200 || again > pairs/3 {
		t.Error("the matrices try too little")
	}
}

// A difference larger than those seen before widens the bound, until all pairs within it are settled; NaN leaves none
// to bf16.
func TestSettlingWidensItsBound(t *testing.T) {
	const n = 40
	own := data.EqualGroups(n, 1)
	for _, bad := range []float32{0, float32(math.NaN())} {
		exact, first := try.Get(newDense[float32](n, n))(t), try.Get(newDense[float32](n, n))(t)
		for k := range exact.Data {
			if exact.Data[k] = float32(k%n) / (4 * n); k/n == k%n {
				exact.Data[k] = 0.5
			}
			first.Data[k] = exact.Data[k]
		}
		exact.Data[1], first.Data[1] = 0.505, 0.499 // near, and off by more than any other
		exact.Data[2], first.Data[2] = 0.466, 0.46  // near by the bound that follows from it
		first.Data[3] = bad
		if bad == bad {
			first.Data[3] = exact.Data[3]
		}
		s := matrixSettling(first, exact, own)
		s.largest = 0.0005
		try.Do(t, s.scoreMatches(t.Context()))
		ok := try.Get(s.run(t.Context()))(t)
		if want := bad == bad; ok != want {
			t.Fatalf("bad %v: settled %v", bad, ok)
		}
		if ok && (first.Data[2] != exact.Data[2] || s.largest < 0.005) {
			t.Errorf("pair 2 has score %v, largest difference %v", first.Data[2], s.largest)
		}
	}
}

// A sample with too many pairs near their matches, and one whose scores depend on the tile, ask for all pairs.
func TestSampleTellsWhetherToSettle(t *testing.T) {
	const n = 300
	own := data.EqualGroups(n, 1)
	for _, c := range []struct {
		name        string
		match, tile float32
		took        [2]int // by a tile in fp32, and in bf16
		want        bool
	}{{"apart", 2, 0, [2]int{20, 12}, true}, {"alike", 0.5, 0, [2]int{20, 12}, false},
		{"other tiles", 2, 1e-6, [2]int{20, 12}, false}, {"slow", 2, 0, [2]int{20, 19}, false}} {
		r := rand.New(rand.NewPCG(1, 2))
		exact, first := try.Get(newDense[float32](n, n))(t), try.Get(newDense[float32](n, n))(t)
		for k := range exact.Data {
			if exact.Data[k] = r.Float32(); k/n == k%n {
				exact.Data[k] = c.match
			}
			first.Data[k] = exact.Data[k] + 0.1*(r.Float32()-0.5)
		}
		s := matrixSettling(first, exact, own)
		try.Do(t, s.scoreMatches(t.Context()))
		var clock time.Duration
		s.now = func() time.Duration { return clock }
		inner, quick := s.exact, matrixSettling(nil, first, own).exact
		s.exact = func(dst []float32, images, captions []int32) error {
			clock += time.Duration(c.took[0])
			err := inner(dst, images, captions)
			for i := range dst {
				dst[i] += c.tile
			}
			return err
		}
		if got := try.Get(s.sample(t.Context(), 64, func(dst []float32, of, with []int32) error {
			clock += time.Duration(c.took[1])
			return quick(dst, of, with)
		}))(t); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := matrixSettling(nil, nil, own)
	if err := s.scoreMatches(ctx); err == nil {
		t.Error("goes on after the end of its context")
	}
}

// Ranks of pairs that a network with slightly different weights scores first are the ranks of the network itself, with
// captions in another order than in the split and different numbers of captions per image.
func TestPairsOfAnotherNetworkFirst(t *testing.T) {
	for _, network := range []string{models.SAF, models.SGR} {
		t.Run(network, func(t *testing.T) {
			const n, total = 400, 799
			counts := make([]int, n)
			for i := range counts {
				counts[i] = 1 + i%3
			}
			own := data.GroupsOf(counts)
			w, other := pairWorldOf(t, onCPU(t), network, n, total), pairWorldOf(t, onCPU(t), network, n, total)
			r := rand.New(rand.NewPCG(3, 4))
			for _, p := range other.r.Model.Params() {
				dev, v := other.r.Model.Instance.Dev, other.r.Model.Instance.Params.Value(p.Name)
				x := make([]float32, v.N)
				dev.DownloadFloats(x, v)
				for i := range x {
					x[i] *= 1 + 1e-5*(r.Float32()-0.5)
				}
				dev.UploadFloats(v, x)
			}
			exact := try.Get(ScorePairs(t.Context(), w.r, w.images, w.captions, w.order, EncodeOptions{}))(t)
			var told Settled
			ticks, clock := 0, time.Duration(0)
			got := try.Get(settlePairs(t.Context(), w.r, w.images, w.captions, w.order, own, EncodeOptions{
				First: other.r, Settled: func(s Settled) { told = s },
				ProcessorTime: func() time.Duration { // a tile takes the network 10, and the other 1
					ticks++
					clock += time.Duration([]int{0, 10, 0, 1}[(ticks-1)%4])
					return clock
				}}))(t)
			wantI, wantC, wantTies, err := ranksAndTies(usualTiles(), nil, exact, own)
			try.Do(t, err)
			gotI, gotC, ties, err := ranksAndTies(usualTiles(), nil, got, own)
			try.Do(t, err)
			if !slices.Equal(gotI, wantI) || !slices.Equal(gotC, wantC) || ties != wantTies {
				t.Error("other ranks")
			}
			t.Logf("%+v", told)
			if told.Pairs != n*total || told.Again < total || told.Again > n*total/2 ||
				told.Bound != settleSlack*told.Largest {
				t.Errorf("settled %+v", told)
			}
			off := 0
			for k, v := range got.(*Dense[float32]).Data {
				off += b2i(v != exact.(*Dense[float32]).Data[k])
			}
			if off == 0 || off > n*total-told.Again {
				t.Errorf("%d scores differ, %d pairs were settled", off, told.Again)
			}
		})
	}
}
