package cuda_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda"
	"vsetrain/internal/device/cuda/emulator"
	"vsetrain/internal/philox"
)

// tensorCase is a device on which kernels of compute capability 8.0 and the base kernels do the same call.
func tensorCase(t *testing.T, o cuda.Options, lengths ...int32) *pairCase {
	t.Helper()
	o.Precision = cuda.BF16
	c := &pairCase{t: t, d: open(t, o), rng: philox.NewKey(5, "tensor").Stream(0)}
	c.lengths.Host = lengths
	c.lengths.View = c.place(device.Int32, len(lengths))
	c.d.UploadInts(c.lengths.View, lengths)
	return c
}

// contexts are the results of Similarities and of its gradient with words.
func (c *pairCase) contexts(b, r, e, s int) [][]float64 {
	defer c.d.Close()
	words := 0
	for _, n := range c.lengths.Host {
		words += int(n)
	}
	nodes := b * (words + len(c.lengths.Host))
	a := device.SimilarityArgs{B: b, R: r, E: e, S: s, Lengths: c.lengths, Images: c.in(b * r * e),
		Weights: c.in(words * b * r), Rows: c.in(words * e), W: c.in(s * e), Bias: c.in(s), Nodes: c.out(nodes * s),
		Norms: c.out(b * words), Contexts: c.out(b * words), DNodes: c.in(nodes * s), DImages: c.out(b * r * e),
		DRows: c.out(words * e), DWeights: c.out(words * b * r), DW: c.out(s * e), DBias: c.out(s)}
	c.d.Fill(a.Nodes, 0) // captions have no row here
	c.d.Similarities(a)
	c.d.SimilaritiesGrad(a)
	c.read(a.Nodes, a.Norms, a.DImages, a.DRows, a.DWeights, a.DW, a.DBias)
	if err := c.d.Sync(); err != nil {
		c.t.Fatal(err)
	}
	return c.results
}

// gru is a GRU of one direction or of two, and its gradient: what they write, the states before each step too. A replay
// of both must give the same bits.
func (c *pairCase) gru(in, h int, both, reverse bool) [][]float64 {
	defer c.d.Close()
	rows := 0
	for _, n := range c.lengths.Host {
		rows += int(n)
	}
	direction := func() device.GRUDirection {
		scaled := func(n int) device.View {
			x, v := make([]float64, n), c.place(device.Float, n)
			for i := range x {
				x[i] = c.rng.Norm() / math.Sqrt(float64(h))
			}
			c.d.UploadDoubles(v, x)
			return v
		}
		return device.GRUDirection{WIH: scaled(3 * h * in), WHH: scaled(3 * h * h), BIH: scaled(3 * h),
			BHH: scaled(3 * h), Gates: c.out(rows * 4 * h), Prev: c.out(rows * h), DWIH: c.out(3 * h * in),
			DWHH: c.out(3 * h * h), DBIH: c.out(3 * h), DBHH: c.out(3 * h)}
	}
	batch := len(c.lengths.Host)
	a := device.GRUArgs{I: in, H: h, Lengths: c.lengths, Reverse: reverse, X: c.in(rows * in), Y: c.out(rows * h),
		Final: c.out(batch * h), DY: c.in(rows * h), DFinal: c.in(batch * h), DX: c.out(rows * in),
		GRUDirection: direction()}
	pass := func() {
		c.d.GRU(a)
		c.d.GRUGrad(a)
	}
	if both {
		b := device.BiGRUArgs{I: in, H: h, Lengths: c.lengths, X: a.X, Y: a.Y, DY: a.DY, DX: a.DX,
			Work: c.out(rows * (h + in)), Directions: [2]device.GRUDirection{a.GRUDirection, direction()}}
		pass = func() {
			c.d.BiGRU(b)
			c.d.BiGRUGrad(b)
		}
		pass()
		other := b.Directions[1]
		c.read(other.Prev, other.DWIH, other.DWHH, other.DBIH, other.DBHH)
	} else {
		pass()
		c.read(a.Final)
	}
	results := []device.View{a.Y, a.Prev, a.DX, a.DWIH, a.DWHH, a.DBIH, a.DBHH}
	c.read(results...)
	recorder := c.d.(device.Recorder)
	rec, err := recorder.Record(pass)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, v := range results {
		c.d.Fill(v, math.NaN())
	}
	recorder.Replay(rec)
	first := len(c.results)
	c.read(results...)
	if err := c.d.Sync(); err != nil {
		c.t.Fatal(err)
	}
	if got := c.results[first:]; !slices.EqualFunc(got, c.results[first-len(got):first], slices.Equal) {
		c.t.Errorf("GRU of %d units over %v: a replay gives other bits", h, c.lengths.Host)
	}
	return c.results[:first]
}

// A GRU whose steps are kernels on tensor cores gives what one of products and kernels for the gates gives. The bits
// are the same whether all steps are one kernel or each is one, as the GPU and its driver have it, however blocks
// divide the sequences and in every order of the threads. Other sizes are left to the base kernels.
func TestGRUOnTensorCores(t *testing.T) {
	long := func(n int, lengths ...int32) []int32 { // and others of one word
		for len(lengths) < n {
			lengths = append(lengths, 1)
		}
		return lengths
	}
	for _, c := range []struct {
		in, h         int
		lengths       []int32
		both, reverse bool
		same          bool // nothing is left to the tensor cores
	}{
		{5, 64, long(3, 4, 2), false, false, false}, {5, 96, long(18, 3, 3), false, true, false},
		{3, 64, slices.Repeat([]int32{2}, 70), true, false, false}, {3, 288, long(17, 3, 3, 2), true, false, false},
		{4, 40, long(3, 4, 2), true, false, true},
	} {
		var first [][]float64
		launched := 0
		steps := int(slices.Max(c.lengths))
		for n, v := range []struct {
			blocks, order, cooperative, multiprocessors int
			each                                        bool // step is a kernel
		}{{0, 0, 1, 16, false}, {1, 2, 1, 16, false}, {0, 1, 1, 16, false}, {1, 1, 0, 16, true}, {0, 2, 1, 0, true},
			{0, 0, 2, 16, false}} {
			what := fmt.Sprintf("%d to %d units, %v, both %v, reverse %v, %+v", c.in, c.h, c.lengths, c.both, c.reverse,
				v)
			o := cuda.Options{Limits: cuda.Limits{StepBlocks: v.blocks}}
			emulator.Set(t, "order", v.order, 0)
			emulator.Set(t, "cooperative", v.cooperative, 1)
			emulator.Set(t, "multiprocessors", v.multiprocessors, 4)
			before := emulator.Launches(t)
			got := tensorCase(t, o, c.lengths...).gru(c.in, c.h, c.both, c.reverse)
			count := emulator.Launches(t) - before
			if n > 0 {
				if !slices.EqualFunc(got, first, slices.Equal) {
					t.Errorf("%s: other bits", what)
				}
				want := launched // both ways, called and recorded
				if v.each && !c.same {
					want += 2 * 2 * (steps - 1)
				}
				if v.cooperative != 2 && count != want { // else the kernels that were recorded in vain count too
					t.Errorf("%s: %d launches, want %d", what, count, want)
				}
				continue
			}
			first, launched, o.BaseKernels = got, count, true
			want := tensorCase(t, o, c.lengths...).gru(c.in, c.h, c.both, c.reverse)
			nearly(t, what, got, want, 3e-3)
			if same := slices.EqualFunc(got, want, slices.Equal); same != c.same {
				t.Errorf("%s: the bits of the base kernels: %v", what, same)
			}
		}
	}
}

// nearly fails where a result of the kernels of 8.0 is further from that of the base kernels than the order of sums and
// what a rounded operand makes of it allow, by the size of the result.
func nearly(t *testing.T, what string, got, want [][]float64, bound float64) {
	t.Helper()
	for n := range want {
		size, most := 0.0, 0.0
		for i, v := range want[n] {
			size = max(size, math.Abs(v))
			if d := math.Abs(got[n][i] - v); !(d <= most) {
				most = d
			}
		}
		if !(most <= bound*size) || size == 0 {
			t.Errorf("%s: result %d is off by %.3g of %.3g", what, n, most, size)
		}
	}
}

// Contexts on tensor cores give what the product and the kernels behind it give, in tiles and in every order of the
// threads; one that is more than the kernel takes, and a GPU without such cores, are left to the base kernels.
func TestContextsOnTensorCores(t *testing.T) {
	for _, c := range []struct {
		b, r, e, s int
		lengths    []int32
		same       bool // nothing is left to the tensor cores
	}{
		{5, 36, 72, 8, []int32{17, 1, 4}, false}, {3, 1, 8, 4, []int32{2}, false},
		{2, 17, 40, 4, []int32{3, 40}, false}, {2, 17, 35, 4, []int32{3, 2}, true},
		{1, 3, 1024, 4, []int32{2, 1}, false}, {1, 3, 1025, 4, []int32{2, 1}, true},
	} {
		for _, from := range []int{1, math.MaxInt} {
			o := cuda.Options{RoundFrom: from}
			for i, tile := range []int{0, 40_000} {
				o.Limits.TileBytes = tile
				what := fmt.Sprintf("%+v, operands in memory from %d, tiles of %d", c, from, tile)
				emulator.Set(t, "order", 0, 0)
				got := tensorCase(t, o, c.lengths...).contexts(c.b, c.r, c.e, c.s)
				base := o
				base.BaseKernels = true
				want := tensorCase(t, base, c.lengths...).contexts(c.b, c.r, c.e, c.s)
				nearly(t, what, got, want, 3e-3)
				if same := slices.EqualFunc(got, want, slices.Equal); same != c.same {
					t.Errorf("%s: the bits of the base kernels: %v", what, same)
				}
				if i > 0 || c.e > 100 {
					continue
				}
				emulator.Set(t, "order", 2, 0)
				if other := tensorCase(t, o, c.lengths...).contexts(c.b, c.r, c.e, c.s); !slices.EqualFunc(other, got,
					slices.Equal) {
					t.Errorf("%s: other bits where threads run in another order", what)
				}
			}
		}
	}
	emulator.Set(t, "capability", 75, 90)
	turing := tensorCase(t, cuda.Options{}, 3, 2).contexts(2, 3, 8, 4)
	emulator.Set(t, "capability", 80, 90)
	t.Setenv("VSETRAIN_KERNELS", "base")
	refused := tensorCase(t, cuda.Options{}, 3, 2).contexts(2, 3, 8, 4)
	t.Setenv("VSETRAIN_KERNELS", "")
	ampere := tensorCase(t, cuda.Options{}, 3, 2).contexts(2, 3, 8, 4)
	if !slices.EqualFunc(turing, refused, slices.Equal) || slices.EqualFunc(turing, ampere, slices.Equal) {
		t.Error("the kernels of compute capability 8.0 are not chosen by the GPU and the environment alone")
	}
	t.Setenv("VSETRAIN_KERNELS", "bse")
	if _, err := cuda.Open(cuda.Options{Driver: emulator.Library(t)}); err == nil {
		t.Error("VSETRAIN_KERNELS=bse is no error")
	}
}

// graphs are the results of GraphReason and of its gradient.
func (c *pairCase) graphs(b, s int, first, keep bool) [][]float64 {
	defer c.d.Close()
	captions := len(c.lengths.Host)
	nodes := b * captions
	for _, n := range c.lengths.Host {
		nodes += b * int(n)
	}
	asked := nodes
	if first {
		asked = b * captions
	}
	scaled := func(n int, by float64) device.View {
		x, v := make([]float64, n), c.place(device.Float, n)
		for i := range x {
			x[i] = by * c.rng.Norm()
		}
		c.d.UploadDoubles(v, x)
		return v
	}
	root := 1 / math.Sqrt(float64(s))
	a := device.ReasonArgs{B: b, S: s, First: first, Lengths: c.lengths, X: scaled(nodes*s, root), M: scaled(s*s, 1),
		V: scaled(s, 1), W: scaled(s*s, 1), Bias: scaled(s, root), Out: c.out(asked * s), DOut: scaled(asked*s, 1),
		DX: c.out(nodes * s), DM: c.out(s * s), DV: c.out(s), DW: c.out(s * s), DBias: c.out(s)}
	if keep {
		a.Y = c.out(nodes * s)
	}
	c.d.GraphReason(a)
	c.read(a.Out)
	if keep {
		c.read(a.Y)
	}
	// the gradient of both families at the same values: where a value is near 0, ReLU would choose by rounding
	c.d.Copy(a.Out, scaled(asked*s, 1))
	c.d.GraphReasonGrad(a)
	c.read(a.DX, a.DM, a.DV, a.DW, a.DBias)
	if err := c.d.Sync(); err != nil {
		c.t.Fatal(err)
	}
	return c.results
}

// Steps of reasoning on tensor cores give what the base kernels give, in tiles of images and in every order of the
// threads, for lengths that the host knows a bound of too; graphs and rows that are more than the kernels take are left
// to the base kernels.
//
// The bound: beside the operands of products with weights, which both families round, these kernels round nodes,
// queries, weights and their gradients, by 2^-9 at most, and logits are of size 1. So a result is off by the five
// factors that it is made of, 5·2^-9 of its size.
func TestReasoningOnTensorCores(t *testing.T) {
	long := []int32{7, 0, 54, 14, 19, 3, 30, 12, 1}
	for n, c := range []struct {
		b, s        int
		lengths     []int32
		bound       []int32 // that the host knows in their place
		first, keep bool
		same        bool // nothing is left to the tensor cores
	}{
		{2, 40, []int32{17, 1, 4, 9, 30, 12, 14}, nil, false, true, false}, {3, 8, []int32{2}, nil, false, true, false},
		{1, 256, []int32{5, 20}, nil, false, true, false}, {2, 72, long, nil, false, true, false},
		{2, 16, []int32{3, 17, 30}, []int32{50, 40, 32}, false, true, false},
		{2, 40, []int32{15, 15, 15, 15, 15}, nil, false, false, false},
		{2, 16, []int32{3, 55}, nil, false, true, true}, {2, 20, []int32{3, 4}, nil, false, true, true},
		{1, 264, []int32{3}, nil, false, true, true}, {2, 16, []int32{3, 4}, nil, true, false, true},
	} {
		on := func(o cuda.Options) [][]float64 {
			x := tensorCase(t, o, c.lengths...)
			if c.bound != nil {
				x.lengths.Host, x.lengths.Bounded = c.bound, true
			}
			return x.graphs(c.b, c.s, c.first, c.keep)
		}
		for i, o := range []cuda.Options{{RoundFrom: 1}, {RoundFrom: 1, Limits: cuda.Limits{TileBytes: 1}}, {}} {
			if n > 0 && i > 0 {
				continue
			}
			what := fmt.Sprintf("%+v, %+v", c, o)
			emulator.Set(t, "order", 0, 0)
			got := on(o)
			base := o
			base.BaseKernels = true
			want := on(base)
			nearly(t, what, got, want, 5./512)
			if same := slices.EqualFunc(got, want, slices.Equal); same != c.same {
				t.Errorf("%s: the bits of the base kernels: %v", what, same)
			}
			if i > 0 || n > 1 {
				continue
			}
			emulator.Set(t, "order", 2, 0)
			if other := on(o); !slices.EqualFunc(other, got, slices.Equal) {
				t.Errorf("%s: other bits where threads run in another order", what)
			}
		}
	}
}
