package cuda_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/philox"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// pairCase is a device with captions, and the results so far.
type pairCase struct {
	*bench
	rng     *philox.Stream
	lengths device.Ints
	results [][]float64
}

// 5 images of 3 regions, and 4 captions.
const caseB, caseR, caseE, caseS, caseWords, caseCaptions, caseNodes = 5, 3, 7, 4, 11, 4, 15

func newPairCase(t *testing.T, d device.Device) *pairCase {
	t.Helper()
	return pairCaseOf(t, d, philox.NewKey(3, "pairs"), 5, 3, 2, 1)
}

func pairCaseOf(t *testing.T, d device.Device, draws philox.Key, lengths ...int32) *pairCase {
	t.Helper()
	b := &bench{t, d}
	return &pairCase{bench: b, rng: draws.Stream(0), lengths: b.known(lengths...)}
}

// in is an input of n values around 0.5.
func (c *pairCase) in(n int) device.View {
	x, v := make([]float64, n), c.alloc(device.Float, n)
	for i := range x {
		x[i] = 0.5 + 0.3*c.rng.Norm()
	}
	c.UploadDoubles(v, x)
	return v
}

func (c *pairCase) read(views ...device.View) {
	for _, v := range views {
		c.results = append(c.results, c.doubles(v))
	}
}

func (c *pairCase) attention(overWords bool) {
	n := caseWords * caseB * caseR
	a := device.PairAttention{B: caseB, R: caseR, Lambda: 9, OverWords: overWords, Lengths: c.lengths,
		Scores: c.in(n), Weights: c.nan(n), DWeights: c.in(n), DScores: c.nan(n)}
	device.Do(c.Device, a)
	device.DoGrad(c.Device, a)
	c.read(a.Weights, a.DScores)
}

// similarities returns the nodes of all pairs.
func (c *pairCase) similarities(filtered bool) device.View {
	const b, r, e, s, words, captions = caseB, caseR, caseE, caseS, caseWords, caseCaptions
	x := c.nan(b * caseNodes * s)
	local := device.Similarities{B: b, R: r, E: e, S: s, Lengths: c.lengths, Images: c.in(b * r * e),
		Weights: c.in(words * b * r), Rows: c.in(words * e), W: c.in(s * e),
		Bias: c.in(s), Nodes: x, Norms: c.nan(b * words), Contexts: c.nan(b * words), DNodes: c.in(b * caseNodes * s),
		DImages: c.nan(b * r * e), DRows: c.nan(words * e),
		DWeights: c.nan(words * b * r), DW: c.nan(s * e), DBias: c.nan(s)}
	global := local
	global.Global, global.Images, global.Rows, global.Norms = true, c.in(b*e), c.in(captions*e), c.nan(b*captions)
	global.DImages, global.DRows, global.DW, global.DBias = c.nan(b*e), c.nan(captions*e), c.nan(s*e), c.nan(s)
	if filtered {
		local.Filter = device.Filter{W: c.in(s), Bias: c.in(1), Logits: c.nan(b * caseNodes),
			Weights: c.in(b * caseNodes), DSums: c.in(b * captions * s), DLogits: c.in(b * caseNodes)}
		global.Filter = local.Filter
		local.Filter.DW, global.Filter.DW = c.nan(s), c.nan(s)
	}
	for _, a := range []device.Similarities{local, global} {
		device.Do(c.Device, a)
	}
	for _, a := range []device.Similarities{local, global} {
		device.DoGrad(c.Device, a)
		c.read(a.Norms, a.DImages, a.DRows, a.DW, a.DBias)
		if filtered {
			c.read(a.Filter.Logits, a.Filter.DW)
		}
	}
	c.read(x, local.DWeights)
	return x
}

func (c *pairCase) reason(x device.View, first, keep bool) {
	const s = caseS
	queries := caseB * caseNodes
	if first {
		queries = caseB * caseCaptions
	}
	a := device.GraphReason{B: caseB, S: s, First: first, Lengths: c.lengths, X: x, M: c.in(s * s), V: c.in(s),
		W: c.in(s * s), Bias: c.in(s), Out: c.nan(queries * s),
		DOut: c.in(queries * s), DX: c.nan(caseB * caseNodes * s), DM: c.nan(s * s), DV: c.nan(s), DW: c.nan(s * s),
		DBias: c.nan(s)}
	if keep {
		a.Y = c.nan(caseB * caseNodes * s)
	}
	device.Do(c.Device, a)
	device.DoGrad(c.Device, a)
	c.read(a.Out, a.DX, a.DM, a.DV, a.DW, a.DBias)
}

func (c *pairCase) filtrate(x device.View, train bool) {
	const rows, pairs = caseB * caseNodes, caseB * caseCaptions
	a := device.Filtrate{B: caseB, S: caseS, Train: train, Eps: 1e-5, Momentum: 0.1, Lengths: c.lengths, X: x,
		Logits: c.in(rows), Gamma: c.in(1), Beta: c.in(1),
		RunningMean: c.in(1), RunningVar: c.in(1), Out: c.nan(pairs * caseS), Weights: c.nan(rows),
		Mean: c.nan(caseCaptions), InvStd: c.nan(caseCaptions),
		Norms: c.nan(pairs), DOut: c.in(pairs * caseS), DSums: c.nan(pairs * caseS), DLogits: c.nan(rows),
		DBias: c.nan(1), DGamma: c.nan(1), DBeta: c.nan(1)}
	device.Do(c.Device, a)
	device.DoGrad(c.Device, a)
	c.read(a.Out, a.RunningMean, a.RunningVar, a.DSums, a.DLogits, a.DGamma, a.DBeta)
}

func (c *pairCase) segments() {
	const e = caseE
	a := device.GatedPool{D: e, Counts: c.lengths, L: c.in(caseWords * e), X: c.in(caseWords * e),
		G: c.in(caseCaptions * e), W: c.in(e), Weights: c.nan(caseWords),
		Out: c.nan(caseCaptions * e), DOut: c.in(caseCaptions * e), DL: c.nan(caseWords * e),
		DG: c.nan(caseCaptions * e), DX: c.nan(caseWords * e), DW: c.nan(caseCaptions * e)}
	device.Do(c.Device, a)
	device.DoGrad(c.Device, a)
	means, spread, packed := c.nan(caseCaptions*e), c.nan(caseWords*e), c.nan(caseWords*e)
	device.Do(c.Device, device.SegmentMeans{Means: means, Rows: a.X, Counts: c.lengths, D: e})
	device.DoGrad(c.Device, device.SegmentMeans{Rows: spread, Means: means, Counts: c.lengths, D: e})
	device.Do(c.Device, device.UnpackWords{Dst: packed, Src: a.X, Lengths: c.lengths, D: e, Back: true})
	c.read(a.Out, a.DL, a.DG, a.DX, a.DW, means, spread, packed)
}

// everyPairKernel calls every kernel of device/pairs.go and device/segments.go, and returns all results.
func everyPairKernel(t *testing.T, d device.Device) [][]float64 {
	t.Helper()
	defer d.Close()
	c := newPairCase(t, d)
	c.attention(false)
	c.attention(true)
	c.similarities(true)
	x := c.similarities(false)
	c.reason(x, false, true)
	c.reason(x, false, false)
	c.reason(x, true, false)
	c.filtrate(x, true)
	c.filtrate(x, false)
	c.segments()
	try.Do(t, d.Sync())
	return c.results
}

// Tiles of pairs, down to one row of one image, give what the CPU gives, and every order of the threads gives the same
// bits.
func TestPairsInTilesAndOrders(t *testing.T) {
	host := try.Get(cpu.New(cpu.Options{Threads: 1}))(t)
	want := everyPairKernel(t, host)
	for _, bytes := range []int{1, 700, 4000, 1 << 20} {
		var forward [][]float64
		for order := range 3 {
			what := fmt.Sprintf("tiles of %d bytes, order %d", bytes, order)
			emulator.Set(t, "order", order, 0)
			got := everyPairKernel(t, open(t, cuda.Options{Limits: cuda.Limits{TileBytes: bytes}}))
			if order == 0 {
				forward = got
			}
			for n, w := range want {
				if !slices.Equal(got[n], forward[n]) {
					t.Fatalf("%s: result %d has other bits than in order 0", what, n)
				}
				for i, v := range w {
					if !(math.Abs(got[n][i]-v) <= 2e-5*(1+math.Abs(v))) {
						t.Fatalf("%s: element %d of result %d is %v, %v on the CPU", what, i, n, got[n][i], v)
					}
				}
			}
		}
	}
}

// The sum of a segment and its greatest value are determined by its rows alone: other segments, other columns and the
// bound of lengths change no bit of them, so that a score does not depend on the tile that it is computed in.
func TestSegmentsStandAlone(t *testing.T) {
	c := newBench(t, cuda.Options{})
	rng := philox.NewKey(7, "segments").Stream(0)
	for range 30 {
		columns, counts := 1+rng.IntN(40), make([]int32, 1+rng.IntN(5))
		for i := range counts {
			counts[i] = 1 + int32(rng.IntN([]int{3, 40, 700}[rng.IntN(3)]))
		}
		x := make([]float64, device.Total(counts)*columns)
		for i := range x {
			x[i] = float64(float32(rng.Norm()))
		}
		for _, most := range []bool{false, true} {
			reduce := func(x []float64, columns int, counts, bound []int32) []float64 {
				a := device.Reduce{Max: most, D: columns, Counts: device.Ints{View: c.ints(counts...), Host: bound,
					Bounded: true}, X: c.alloc(device.Float, device.Total(bound)*columns),
					Y: c.nan(len(counts) * columns), Index: c.alloc(device.Int32, len(counts)*columns)}
				c.UploadDoubles(a.X, append(slices.Clone(x), make([]float64, a.X.N-len(x))...))
				device.Do(c.Device, a)
				return c.doubles(a.Y)
			}
			all, first := reduce(x, columns, counts, counts), 0
			for i, n := range counts {
				k := rng.IntN(columns)
				var own []float64
				want := 0.0
				for r := range int(n) {
					v := x[(first+r)*columns+k]
					if own = append(own, v); !most {
						want += v
					} else if r == 0 || v > want {
						want = v
					}
				}
				first += int(n)
				got := all[i*columns+k]
				bound := n + int32(rng.IntN(900))
				if alone := reduce(own, 1, []int32{n}, []int32{bound})[0]; alone != got {
					t.Fatalf("segment %d of %v, column %d of %d, max %v: %v, alone with a bound of %d rows %v", i,
						counts, k, columns, most, got, bound, alone)
				}
				if math.Abs(got-want) > 1e-4 {
					t.Fatalf("segment %d of %v, column %d of %d, max %v: %v, expected %v", i, counts, k, columns,
						most, got, want)
				}
			}
		}
	}
}

// Steps of reasoning on drawn graphs, of one node to three tiles of the kernels of the attention, with vectors of one
// to three pieces that can be read by fours or not, give what the CPU gives, and every order of the threads gives the
// same bits.
func TestReasoningOfDrawnGraphs(t *testing.T) {
	rng := philox.NewKey(11, "graphs").Stream(0)
	for n := range 12 {
		b, s, lengths := 1+rng.IntN(3), 1+rng.IntN(150), make([]int32, 1+rng.IntN(4))
		if n%2 == 0 {
			s = (s + 3) &^ 3
		}
		for i := range lengths {
			lengths[i] = int32(rng.IntN([]int{5, 20, 40, 80}[rng.IntN(4)]))
		}
		first, keep, tile := n%3 == 0, n%3 == 1, rng.IntN(100_000)
		what := fmt.Sprintf("draw %d: captions of %v words, %d images, %d values, first %v, Y kept %v, tiles of %d", n,
			lengths, b, s, first, keep, tile)
		on := func(d device.Device) [][]float64 {
			return pairCaseOf(t, d, philox.NewKey(3, "pairs"), lengths...).graphs(b, s, first, keep, false).bits
		}
		want := on(try.Get(cpu.New(cpu.Options{Threads: 1}))(t))
		var forward [][]float64
		for order := range 3 {
			emulator.Set(t, "order", order, 0)
			got := on(open(t, cuda.Options{Limits: cuda.Limits{TileBytes: tile}}))
			if order == 0 {
				forward = got
			} else if !slices.EqualFunc(got, forward, slices.Equal) {
				t.Errorf("%s: other bits in order %d", what, order)
			}
		}
		for i, w := range want {
			most := 0.0
			for _, v := range w {
				most = max(most, math.Abs(v))
			}
			for k, v := range w {
				if !(math.Abs(forward[i][k]-v) <= 1e-5*(most+1)) {
					t.Fatalf("%s: element %d of result %d is %v, %v on the CPU", what, k, i, forward[i][k], v)
				}
			}
		}
	}
}
