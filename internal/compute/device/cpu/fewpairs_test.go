package cpu_test

import (
	"math"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/try"
)

// fewPairs are the sizes of a batch of which one pair alone has a gradient, and views of random values in which what
// belongs to the other pairs is NaN.
type fewPairs struct {
	d        device.Device
	t        *testing.T
	b, r, s  int
	lengths  []int32
	image, c int // of the pair with the gradient
}

const (
	poisoned = iota // NaN outside the pair
	gradient        // 0 outside the pair
	whole           // nothing of pairs
)

func (f *fewPairs) words() (t int) {
	for _, n := range f.lengths {
		t += int(n)
	}
	return t
}

// view is a buffer of n values; of tells whether an element belongs to the pair.
func (f *fewPairs) view(n, what int, of func(i int) bool) device.View {
	f.t.Helper()
	buf := try.Get(f.d.Alloc(device.Float, n))(f.t)
	x := make([]float64, n)
	for i := range x {
		switch x[i] = 0.2 + math.Mod(float64(i)*0.377, 1); {
		case what == poisoned && !of(i):
			x[i] = math.NaN()
		case what == gradient && !of(i):
			x[i] = 0
		}
	}
	v := device.ViewOf(buf)
	f.d.UploadDoubles(v, x)
	return v
}

func (f *fewPairs) whole(n int) device.View { return f.view(n, whole, nil) }

// span returns the rows of the pair's caption, of which each has more than its words.
func (f *fewPairs) span(more int) (lo, hi int) {
	for c := range f.c {
		lo += int(f.lengths[c]) + more
	}
	return lo, lo + int(f.lengths[f.c]) + more
}

// node tells of rows of the given width, image after image, more than the words of each caption, whether they are the
// pair's.
func (f *fewPairs) node(width, more int) func(i int) bool {
	lo, hi := f.span(more)
	per := f.words() + more*len(f.lengths)
	return func(i int) bool { row := i / width; return row/per == f.image && row%per >= lo && row%per < hi }
}

// pair is the same of a row for each pair.
func (f *fewPairs) pair(width int) func(i int) bool {
	return func(i int) bool { return i/width == f.image*len(f.lengths)+f.c }
}

// row is the same of rows of captions, or of their words.
func (f *fewPairs) row(captions bool, width int) func(i int) bool {
	lo, hi := f.span(0)
	if captions {
		lo, hi = f.c, f.c+1
	}
	return func(i int) bool { return i/width >= lo && i/width < hi }
}

// column is the same of matrices [T, B·R].
func (f *fewPairs) column(i int) bool {
	lo, hi := f.span(0)
	row, col := i/(f.b*f.r), i%(f.b*f.r)
	return row >= lo && row < hi && col/f.r == f.image
}

// finite fails where a result was touched by what belongs to other pairs.
func (f *fewPairs) finite(what string, views ...device.View) {
	f.t.Helper()
	for n, v := range views {
		x := make([]float64, v.N)
		f.d.DownloadDoubles(x, v)
		some := false
		for i, v := range x {
			if some = some || v != 0; v-v != 0 {
				f.t.Errorf("%s: result %d: element %d is %v: a pair that is not wanted was worked on", what, n, i, v)
				break
			}
		}
		if !some {
			f.t.Errorf("%s: result %d is all 0", what, n)
		}
	}
}

// TestPairsWithoutGradientAreLeftAlone puts NaN where the forward pass left the values of pairs whose gradient is 0: it
// reaches nothing, so no work is done on them.
func TestPairsWithoutGradientAreLeftAlone(t *testing.T) {
	for _, p := range []string{cpu.FP32, cpu.BF16, cpu.FP64} {
		d := open(t, cpu.Options{Threads: 2, Precision: p})
		defer d.Close()
		f := &fewPairs{d: d, t: t, b: 5, r: 3, s: 4, lengths: []int32{2, 3, 1, 4}, image: 3, c: 1}
		b, r, s, words, captions := f.b, f.r, f.s, f.words(), len(f.lengths)
		buf := try.Get(d.Alloc(device.Int32, captions))(t)
		d.UploadInts(device.ViewOf(buf), f.lengths)
		lengths := device.Ints{View: device.ViewOf(buf), Host: f.lengths}
		nodes := b * (words + captions) * s
		for _, first := range []bool{false, true} {
			out, of := nodes, f.node(s, 1)
			if first {
				out, of = b*captions*s, f.pair(s)
			}
			a := device.GraphReason{B: b, S: s, First: first, Lengths: lengths, X: f.view(nodes, poisoned, f.node(s,
				1)),
				M: f.whole(s * s), V: f.whole(s), W: f.whole(s * s),
				Bias: f.whole(s), Out: f.view(out, poisoned, of), DOut: f.view(out, gradient, of), DX: f.whole(nodes),
				DM: f.whole(s * s), DV: f.whole(s), DW: f.whole(s * s), DBias: f.whole(s)}
			device.DoGrad(d, a)
			f.finite(p+" GraphReasonGrad", a.DX, a.DM, a.DV, a.DW, a.DBias)
			if a.Wanted = f.view(b*captions, gradient, f.pair(1)); !first { // else what is not wanted becomes finite
				a.Out = f.whole(out)
			}
			device.Do(d, a)
			f.finite(p+" GraphReason", a.Out)
		}
		for _, global := range []bool{false, true} {
			rows, images := words, b*r*s
			if global {
				rows, images = captions, b*s
			}
			a := device.Similarities{B: b, R: r, E: s, S: s, Global: global, Lengths: lengths, Images: f.whole(images),
				Weights: f.view(words*b*r, poisoned, f.column), Rows: f.view(rows*s, poisoned, f.row(global, s)),
				W: f.whole(s * s), Bias: f.whole(s), Nodes: f.whole(nodes), Norms: f.whole(b * rows),
				Contexts: f.whole(b * words), Wanted: f.view(b*captions, gradient, f.pair(1))}
			device.Do(d, a)
			f.finite(p+" Similarities", a.Nodes, a.Norms)
		}
		for _, over := range []bool{false, true} {
			n := words * b * r
			a := device.PairAttention{B: b, R: r, Lambda: 4, OverWords: over, Lengths: lengths,
				Scores: f.view(n, poisoned, f.column), Weights: f.view(n, poisoned, f.column),
				DWeights: f.view(n, gradient, f.column), DScores: f.whole(n)}
			device.DoGrad(d, a)
			f.finite(p+" PairAttentionGrad", a.DScores)
		}
		results := b * captions
		filter := device.Filtrate{B: b, S: s, Train: true, Eps: 1e-5, Lengths: lengths,
			X: f.view(nodes, poisoned, f.node(s, 1)), Gamma: f.whole(1), Beta: f.whole(1),
			Out: f.view(results*s, poisoned, f.pair(s)), Logits: f.whole(nodes / s), Weights: f.view(nodes/s, poisoned,
				f.node(1, 1)), Mean: f.whole(captions), InvStd: f.whole(captions),
			Norms: f.view(results, poisoned, f.pair(1)), DOut: f.view(results*s, gradient, f.pair(s)),
			DSums: f.whole(results * s), DLogits: f.whole(nodes / s), DBias: f.whole(1), DGamma: f.whole(1),
			DBeta: f.whole(1)}
		device.DoGrad(d, filter)
		f.finite(p+" FiltrateGrad", filter.DSums, filter.DLogits, filter.DGamma, filter.DBeta)

		blocks, att := 2, words*b*r
		match := device.BlockMatch{B: b, R: r, E: 2 * s, Blocks: blocks, Lengths: lengths,
			Words: f.whole(words * 2 * s), Regions: f.whole(b * r * 2 * s),
			WordAttention: f.view(att, poisoned, f.column), RegionAttention: f.view(att, poisoned, f.column)}
		perWord, perRegion := f.node(blocks, 0), f.pair(r*blocks)
		match.WordMatch, match.WordNorm, match.DWordMatch = f.view(b*words*blocks, poisoned, perWord),
			f.view(b*words*blocks, poisoned, perWord), f.view(b*words*blocks, gradient, perWord)
		match.RegionMatch, match.RegionNorm = f.view(results*r*blocks, poisoned, perRegion), f.view(results*r*blocks,
			poisoned, perRegion)
		match.DRegionMatch = f.view(results*r*blocks, gradient, perRegion)
		match.DWords, match.DRegions, match.DWordAttention, match.DRegionAttention = f.whole(words*2*s),
			f.whole(b*r*2*s), f.whole(att), f.whole(att)
		device.DoGrad(d, match)
		f.finite(p+" BlockMatchGrad", match.DWords, match.DRegions, match.DWordAttention, match.DRegionAttention)

		scale := device.ScaleBlocks{A: b, B: captions, N: 2, H: s, X: f.view(results*2*s, poisoned, f.pair(2*s)),
			Factors: f.whole(b * 2), DY: f.view(results*2*s, gradient, f.pair(2*s)),
			DX: f.whole(results * 2 * s), DFactors: f.whole(b * 2)}
		device.DoGrad(d, scale)
		f.finite(p+" ScaleBlocksGrad", scale.DX, scale.DFactors)
	}
}
