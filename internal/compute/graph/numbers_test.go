package graph_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/compute/philox"
	"vsetrain/lab/try"
)

// Packed, padded and concatenated, whole and divided into any pieces, a batch draws one mask: column k of position t of
// item i is kept where word k mod 4 of the block of (step, (i·2¹⁴ + t)·2³⁰ + k div 4) is great enough.
func TestDropoutByPlace(t *testing.T) {
	const width, seed, step = 6, 9, 3
	rate := 0.4
	rng, key := rand.New(rand.NewPCG(1, 2)), philox.NewKey(seed, "dropout/here")
	for round := range 20 {
		lengths := make([]int32, 1+rng.IntN(9))
		for i := range lengths {
			lengths[i] = 1 + rng.Int32N(7)
		}
		slices.Sort(lengths)
		slices.Reverse(lengths)
		ranks := 1 + rng.IntN(3)
		for rank := range ranks {
			var items, own []int32
			for i := rank; i < len(lengths); i += ranks {
				items, own = append(items, int32(i)), append(own, lengths[i])
			}
			if len(own) == 0 {
				continue
			}
			for _, layout := range []string{"packed", "concatenated", "padded"} {
				what := fmt.Sprintf("round %d, items %v of lengths %v, %s", round, items, own, layout)
				got, rows := dropped(t, layout, items, own, width, rate, seed, step)
				for r, row := range rows {
					for k := range width {
						want := 0.0
						if row.item >= 0 {
							block := key.Block(step, uint64(row.item*1<<14+row.t)<<30|uint64(k/4))
							if block[k%4] >= uint32(rate*(1<<32)) {
								want = 1 / (1 - rate)
							}
						}
						if v := got[r*width+k]; v-want > 1e-6 || want-v > 1e-6 {
							t.Fatalf("%s: column %d of row %d, %+v, is %v, expected %v", what, k, r, row, v, want)
						}
					}
				}
			}
		}
	}
}

// place is what lies in a row: a position of an item, or nothing, item -1.
type place struct{ item, t int }

// dropped gives ones in a layout to dropout, and lists what lies in each row.
func dropped(t *testing.T, layout string, items, lengths []int32, width int, rate float64, seed uint64,
	step int32) ([]float64, []place) {
	t.Helper()
	s, b, longest := newSession(t, cpu.FP32, 1), len(lengths), int(lengths[0])
	rows := b*longest + 2
	var want []place
	put := func(i, t int) {
		if t < int(lengths[i]) {
			want = append(want, place{int(items[i]), t})
		} else if layout == "padded" {
			want = append(want, place{item: -1})
		}
	}
	if layout == "concatenated" {
		for i := range b {
			for t := range longest {
				put(i, t)
			}
		}
	} else {
		for t := range longest {
			for i := range b {
				put(i, t)
			}
		}
	}
	for len(want) < rows {
		want = append(want, place{item: -1})
	}

	g := s.Graph()
	g.Training, g.Seed = true, seed
	of := g.InputInts("lengths", b)
	numbers := g.RowIndices(rows, graph.Packed, of, nil)
	switch layout {
	case "concatenated":
		numbers = g.RowIndices(rows, graph.Concatenated, of, nil)
	case "padded":
		numbers = g.RowIndices(rows, graph.Packed, g.InputInts("steps", b), of)
		try.Do(t, s.FeedInts("steps", slices.Repeat([]int32{int32(longest)}, b)))
	}
	out := g.Dropout(g.Input("x", rows, width), numbers, rate, "here")
	prog := try.Get(graph.Compile(s, g, []*graph.Node{out}, nil))(t)
	try.Do(t, s.FeedDoubles("x", slices.Repeat([]float64{1}, rows*width)))
	try.Do(t, s.FeedInts("lengths", lengths))
	try.Do(t, s.FeedInts(graph.InputStep, []int32{step, 0}))
	s.SetPositions(items)
	try.Do(t, prog.RunAll())
	return prog.Doubles(out), want
}

// Two programs of one instance read the same numbers. They are fed when they change, whichever program runs.
func TestRowIndicesFollowLengths(t *testing.T) {
	const rows, seed, step = 6, 4, 1<<32 + 8
	s, key := newSession(t, cpu.FP32, 1), philox.NewKey(seed, "dropout/there")
	try.Do(t, s.FeedDoubles("x", slices.Repeat([]float64{1}, rows)))
	try.Do(t, s.FeedInts(graph.InputStep, []int32{8, 1}))
	var programs [2]*graph.Program
	var outs [2]*graph.Node
	for i := range programs {
		g := s.Graph()
		g.Training, g.Seed = true, seed
		numbers := g.RowIndices(rows, graph.Concatenated, g.InputInts("lengths", 2), nil)
		outs[i] = g.Dropout(g.Input("x", rows, 1), numbers, 0.25, "there")
		var err error
		programs[i], err = graph.Compile(s, g, []*graph.Node{outs[i]}, nil)
		try.Do(t, err)
	}
	for round, c := range []struct {
		program int
		lengths []int32
	}{{0, []int32{3, 3}}, {1, []int32{2, 1}}, {0, []int32{3, 3}}, {1, []int32{3, 3}}, {1, []int32{2, 1}},
		{0, []int32{2, 1}}, {0, []int32{3, 3}}} {
		try.Do(t, s.FeedInts("lengths", c.lengths))
		try.Do(t, programs[c.program].RunAll())
		want := make([]float64, rows)
		for at, i := 0, 0; i < 2; i++ {
			for p := range int(c.lengths[i]) {
				if key.Block(step, uint64(i*1<<14+p)<<30)[0] >= 1<<30 {
					want[at] = 4. / 3
				}
				at++
			}
		}
		if got := programs[c.program].Doubles(outs[c.program]); !slices.EqualFunc(got, want, func(x, y float64) bool {
			return math.Abs(x-y) < 1e-6
		}) {
			t.Errorf("round %d: %v, expected %v", round, got, want)
		}
	}
}

// What has no number is refused, not wrapped around.
func TestRowIndicesRefuse(t *testing.T) {
	for _, c := range map[string]struct {
		lengths, items []int32
		want           string
	}{
		"an item too long":  {[]int32{1<<14 + 1}, nil, "the longest item has 16385: expected at most"},
		"an item too far":   {[]int32{1}, []int32{1 << 17}, "item 131072, expected fewer than 131072"},
		"a negative item":   {[]int32{1}, []int32{-1}, "item -1"},
		"rows without room": {[]int32{20_000}, nil, "20000 rows"},
		"items missing":     {[]int32{1}, []int32{0, 1}, "1 lengths for 2 items"},
	} {
		s := newSession(t, cpu.FP32, 1)
		g := s.Graph()
		g.Training = true
		const rows = 17_000
		out := g.Dropout(g.Input("x", rows, 1), g.RowIndices(rows, graph.Packed, g.InputInts("lengths", 1), nil), 0.5,
			"here")
		prog := try.Get(graph.Compile(s, g, []*graph.Node{out}, nil))(t)
		try.Do(t, s.FeedDoubles("x", make([]float64, rows)))
		try.Do(t, s.FeedInts("lengths", c.lengths))
		try.Do(t, s.FeedInts(graph.InputStep, []int32{0, 0}))
		s.SetPositions(c.items)
		try.Fails(t, prog.RunAll(), c.want)
	}
}
