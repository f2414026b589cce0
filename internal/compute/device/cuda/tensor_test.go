package cuda_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/philox"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// tensorCase is a device on which kernels of compute capability 8.0 and the base kernels do the same call.
func tensorCase(t *testing.T, o cuda.Options, lengths ...int32) *pairCase {
	t.Helper()
	o.Precision = cmp.Or(o.Precision, cuda.BF16)
	return pairCaseOf(t, open(t, o), philox.NewKey(5, "tensor"), lengths...)
}

// contextCase is Similarities and its gradient with words.
type contextCase struct {
	b, r, e, s                             int
	images, weights, rows, w, bias, dNodes []float64
	nodes, norms                           []float64
	dImages, dRows, dWeights, dW, dBias    []float64
	at                                     []int // the node of each word
	bits                                   [][]float64
}

func (c *pairCase) contexts(b, r, e, s int) *contextCase {
	defer c.Close()
	x := &contextCase{b: b, r: r, e: e, s: s}
	for caption, n := range c.lengths.Host {
		for range n {
			x.at = append(x.at, len(x.at)+caption+1)
		}
	}
	words := len(x.at)
	nodes := b * (words + len(c.lengths.Host))
	a := device.Similarities{B: b, R: r, E: e, S: s, Lengths: c.lengths, Images: c.in(b * r * e),
		Weights: c.in(words * b * r), Rows: c.in(words * e), W: c.in(s * e), Bias: c.in(s), Nodes: c.nan(nodes * s),
		Norms: c.nan(b * words), Contexts: c.nan(b * words), DNodes: c.in(nodes * s), DImages: c.nan(b * r * e),
		DRows: c.nan(words * e), DWeights: c.nan(words * b * r), DW: c.nan(s * e), DBias: c.nan(s)}
	device.Do(c.Device, device.Fill{Dst: a.Nodes}) // captions have no row here
	device.Do(c.Device, a)
	device.DoGrad(c.Device, a)
	c.read(a.Images, a.Weights, a.Rows, a.W, a.Bias, a.DNodes, a.Nodes, a.Norms, a.DImages, a.DRows, a.DWeights, a.DW,
		a.DBias)
	try.Do(c.TB, c.Sync())
	for i, to := range []*[]float64{&x.images, &x.weights, &x.rows, &x.w, &x.bias, &x.dNodes, &x.nodes, &x.norms,
		&x.dImages, &x.dRows, &x.dWeights, &x.dW, &x.dBias} {
		*to = c.results[i]
	}
	x.bits = c.results
	return x
}

// check compares all results with what the formulas of contexts.cuh give with every rounding of the kernels: weights
// and regions are operands of contexts, which round them in one way; these, W, z and the gradients of contexts and of
// W z are operands of products, which may round them in another, as they do the gradient of z; everything else is
// float32. The gradient reads vectors
// and norms as the device gave them.
func (x *contextCase) check(t *testing.T, what string, contexts, products func(float64) float64) {
	t.Helper()
	words, pairs, nodes := len(x.at), len(x.at)*x.b, len(x.nodes)/x.s/x.b
	given := func(f func(float64) float64) (regions, alpha matrix) {
		return rowsOf(as(exactly(x.images), f), x.e), rowsOf(as(exactly(x.weights), f), x.b*x.r)
	}
	regions, alpha := given(contexts)
	w, bias := rowsOf(as(exactly(x.w), products), x.e), exactly(x.bias)
	// Of a pair, in the order of images and then words: the context of length 1, what it differs by from the word, and
	// the factors of its gradient.
	u, norms := unitContexts(alpha, regions, x.b, words, x.r, x.e)
	off, z, dz := make([]approx, pairs*x.e), make([]approx, pairs*x.e), make([]approx, pairs*x.s)
	wantNodes, wantNorms := exactly(x.nodes), make([]approx, pairs)
	for p := range pairs {
		for k := range x.e {
			i := p*x.e + k
			off[i] = u[i].plus(approx{v: -x.rows[p%words*x.e+k]})
			z[i] = off[i].times(off[i]).as(products)
		}
	}
	values := rowsOf(z, x.e).times(w.transposed(), pairs, x.s, x.e)
	plusRow(values, bias)
	for p := range pairs {
		at := p/words*nodes + x.at[p%words]
		var dot sum
		for k := range x.s {
			dot.add(approx{v: x.nodes[at*x.s+k]}, approx{v: x.dNodes[at*x.s+k]})
		}
		wantNorms[p] = norm(values[p*x.s:][:x.s])
		given := approx{v: x.norms[p]}
		along := dot.total().times(given.through(func(v float64) float64 { return -1 / v }, 1))
		for k := range x.s {
			i := at*x.s + k
			wantNodes[i] = values[p*x.s+k].times(inverse(wantNorms[p]))
			dz[p*x.s+k] = inverse(given).times(approx{v: x.dNodes[i]}).plus(along.times(approx{v: x.nodes[i]}))
		}
	}
	within(t, what+": nodes", x.nodes, wantNodes)
	within(t, what+": norms", x.norms, wantNorms)
	slope := rowsOf(as(dz, products), x.s)
	within(t, what+": DW", x.dW, slope.transposed().times(rowsOf(z, x.e), x.s, x.e, pairs))
	within(t, what+": DBias", x.dBias, rowsOf(dz, x.s).columns(pairs, x.s))
	back := as(slope.times(w, pairs, x.e, x.s), products)
	dRows, dContext := make([]sum, words*x.e), make([]approx, pairs*x.e)
	for p := range pairs {
		var dot sum
		for k := range x.e {
			i := p*x.e + k
			back[i] = approx{v: 2}.product(off[i]).times(back[i])
			dot.add(back[i], u[i])
			dRows[p%words*x.e+k].add(back[i], approx{v: -1})
		}
		along := dot.total().times(norms[p].through(func(v float64) float64 { return -1 / v }, 1))
		for k := range x.e {
			i := p*x.e + k
			dContext[i] = inverse(norms[p]).times(back[i]).plus(along.times(u[i])).as(products)
		}
	}
	within(t, what+": DRows", x.dRows, totals(dRows))
	dx := rowsOf(dContext, x.e)
	regions, alpha = given(products)
	want := make([]approx, len(x.dWeights))
	for i := range want {
		word, image, j := i/(x.b*x.r), i/x.r%x.b, i%x.r
		var d sum
		for k := range x.e {
			d.add(dx(image*words+word, k), regions(image*x.r+j, k))
		}
		want[i] = d.total()
	}
	within(t, what+": DWeights", x.dWeights, want)
	want = make([]approx, len(x.dImages))
	for i := range want {
		image, j, k := i/x.e/x.r, i/x.e%x.r, i%x.e
		var d sum
		for word := range words {
			d.add(alpha(word, image*x.r+j), dx(image*words+word, k))
		}
		want[i] = d.total()
	}
	within(t, what+": DImages", x.dImages, want)
}

// normal places n normal values of a standard deviation.
func (c *pairCase) normal(n int, sd float64) ([]float64, device.View) {
	x, v := make([]float64, n), c.alloc(device.Float, n)
	for i := range x {
		x[i] = float64(float32(sd * c.rng.Norm()))
	}
	c.UploadDoubles(v, x)
	return x, v
}

// gruCase is a GRU of one direction or of two, and its gradient.
type gruCase struct {
	in, h         int
	reverse       bool
	lengths       []int32
	x, dy, dFinal []float64
	y, final, dx  []float64
	of            []gruDirection
	bits          [][]float64 // all results
	scale         float64     // of what a direction adds to y
}

// gruDirection is what a direction takes and gives: gates before the gradient, slopes in their place after it.
type gruDirection struct {
	wih, whh, bih, bhh     []float64
	gates, slopes, prev    []float64
	dwih, dwhh, dbih, dbhh []float64
}

// gru computes a GRU. A replay must give the same bits.
func (c *pairCase) gru(in, h int, both, reverse bool) *gruCase {
	defer c.Close()
	rows, batch := device.Total(c.lengths.Host), len(c.lengths.Host)
	g := &gruCase{in: in, h: h, reverse: reverse, lengths: c.lengths.Host, scale: 1, of: make([]gruDirection, 1)}
	if both {
		g.scale, g.of = 0.5, make([]gruDirection, 2)
	}
	var x, dy, dFinal device.View
	g.x, x = c.normal(rows*in, 1)
	g.dy, dy = c.normal(rows*h, 1)
	g.dFinal, dFinal = c.normal(batch*h, 1)
	sd := 1 / math.Sqrt(float64(h))
	var directions [2]device.GRUDirection
	for k := range g.of {
		o, v := &g.of[k], &directions[k]
		*v = device.GRUDirection{Gates: c.nan(rows * 4 * h), Prev: c.nan(rows * h), DWIH: c.nan(3 * h * in),
			DWHH: c.nan(3 * h * h), DBIH: c.nan(3 * h), DBHH: c.nan(3 * h)}
		o.wih, v.WIH = c.normal(3*h*in, sd)
		o.whh, v.WHH = c.normal(3*h*h, sd)
		o.bih, v.BIH = c.normal(3*h, sd)
		o.bhh, v.BHH = c.normal(3*h, sd)
	}
	a := device.GRU{I: in, H: h, Lengths: c.lengths, Reverse: reverse, X: x, Y: c.nan(rows * h),
		Final: c.nan(batch * h), DY: dy, DFinal: dFinal, DX: c.nan(rows * in), GRUDirection: directions[0]}
	b := device.BiGRU{I: in, H: h, Lengths: c.lengths, X: x, Y: a.Y, DY: dy, DX: a.DX,
		Work: c.nan(rows * (h + in)), Directions: directions}
	forward, back := func() { device.Do(c.Device, a) }, func() { device.DoGrad(c.Device, a) }
	if both {
		forward, back = func() { device.Do(c.Device, b) }, func() { device.DoGrad(c.Device, b) }
	}
	read := func(to *[]float64, v device.View) {
		c.read(v)
		*to = c.results[len(c.results)-1]
	}
	forward()
	for k := range g.of {
		read(&g.of[k].gates, directions[k].Gates)
	}
	back()
	if !both {
		read(&g.final, a.Final)
	}
	results := []device.View{a.Y, a.DX}
	to := []*[]float64{&g.y, &g.dx}
	for k := range g.of {
		o, v := &g.of[k], &directions[k]
		results = append(results, v.Prev, v.Gates, v.DWIH, v.DWHH, v.DBIH, v.DBHH)
		to = append(to, &o.prev, &o.slopes, &o.dwih, &o.dwhh, &o.dbih, &o.dbhh)
	}
	for i, v := range results {
		read(to[i], v)
	}
	g.bits = c.results
	c.results = nil
	recorder := c.Device.(device.Recorder)
	rec := try.Get(recorder.Record(func() { forward(); back() }))(c.TB)
	for _, v := range results {
		device.Do(c.Device, device.Fill{Dst: v, Value: math.NaN()})
	}
	recorder.Replay(rec)
	c.read(results...)
	try.Do(c.TB, c.Sync())
	if want := g.bits[len(g.bits)-len(results):]; !slices.EqualFunc(c.results, want, slices.Equal) {
		c.Errorf("GRU of %d units over %v: a replay gives other bits", h, c.lengths.Host)
	}
	return g
}

// check compares all results with what follows in one step from those before it: a gate from the state before its
// step, a slope from the gates and from the slopes of the next step. States and slopes are read as the device gave
// them and rounded as the kernels of the steps and as products round them. So no rounded operand is in doubt, and of a
// product of n terms the bound is n·2^-24 of the sum of their sizes, of a function 2.5 units in the last place, of
// anything else a rounding to float32. Only the gradient of a state, which the device keeps to itself, takes its error
// from step to step.
func (g *gruCase) check(t *testing.T, what string, steps, products func(float64) float64) {
	t.Helper()
	h, in := g.h, g.in
	pack := device.Ints{Host: g.lengths}.Packing()
	rows := pack.Rows()
	x := rowsOf(as(exactly(g.x), products), in)
	y, final, dx := make([]approx, rows*h), make([]approx, len(g.lengths)*h), make([]sum, rows*in)
	for k := range g.of {
		o := &g.of[k]
		wih, whh := rowsOf(as(exactly(o.wih), products), in), rowsOf(as(exactly(o.whh), steps), h)
		before := rowsOf(exactly(o.prev), h)
		state := rowsOf(as(exactly(o.prev), steps), h)
		input, hidden := x.times(wih.transposed(), rows, 3*h, in), state.times(whh.transposed(), rows, 3*h, h)
		plusRow(input, exactly(o.bih))
		plusRow(hidden, exactly(o.bhh))
		slope, rounded := rowsOf(exactly(o.slopes), 4*h), rowsOf(as(exactly(o.slopes), products), 4*h)
		back := rowsOf(as(exactly(o.slopes), steps), 4*h).ofHidden(h).times(whh, rows, h, 3*h)
		state = rowsOf(as(exactly(o.prev), products), h)
		gates, prev, slopes := make([]approx, rows*4*h), make([]approx, rows*h), make([]approx, rows*4*h)
		for s, n := range g.lengths {
			var order []int // the rows of the sequence
			for step := range int(n) {
				if g.reverse != (k == 1) {
					step = int(n) - 1 - step
				}
				order = append(order, pack.Start(step)+s)
			}
			for i := range h {
				for at, row := range order {
					known, a, b := cellOf(o.gates, row, i, h), input[row*3*h+i:], hidden[row*3*h+i:]
					known.of(a[0].plus(b[0]), a[h].plus(b[h]), a[2*h], b[2*h]).write(gates, row, i, h)
					after := known.after(before(row, i))
					y[row*h+i] = y[row*h+i].plus(approx{v: g.scale}.product(after))
					if at+1 < len(order) {
						prev[order[at+1]*h+i] = after
					} else {
						final[s*h+i] = after
					}
				}
				var carry approx
				if len(g.of) == 1 {
					carry.v = g.dFinal[s*h+i]
				}
				for at := len(order) - 1; at >= 0; at-- {
					row := order[at]
					known, d := cellOf(o.gates, row, i, h), carry
					if at+1 < len(order) {
						d = d.plus(back[order[at+1]*h+i])
					}
					d = d.plus(approx{v: g.scale * g.dy[row*h+i]})
					known.slopes(d, before(row, i)).write(slopes, row, i, h)
					carry = d.times(known[1])
				}
			}
		}
		of := fmt.Sprintf("%s, direction %d: ", what, k)
		within(t, of+"gates", o.gates, gates)
		within(t, of+"states before", o.prev, prev)
		within(t, of+"slopes", o.slopes, slopes)
		within(t, of+"DWIH", o.dwih, rounded.ofInput(h).transposed().times(x, 3*h, in, rows))
		within(t, of+"DWHH", o.dwhh, rounded.ofHidden(h).transposed().times(state, 3*h, h, rows))
		within(t, of+"DBIH", o.dbih, slope.ofInput(h).columns(rows, 3*h))
		within(t, of+"DBHH", o.dbhh, slope.ofHidden(h).columns(rows, 3*h))
		for i := range dx {
			for j := range 3 * h {
				dx[i].add(rounded.ofInput(h)(i/in, j), wih(j, i%in))
			}
		}
	}
	within(t, what+": Y", g.y, y)
	if g.final != nil {
		within(t, what+": Final", g.final, final)
	}
	within(t, what+": DX", g.dx, totals(dx))
}

// A GRU whose steps are kernels on tensor cores gives what its formulas give (gruCase.check), with operands in bfloat16
// and, between products that round nothing, in TF32. The bits are the same
// whether all steps are one kernel or each is one, as the GPU and its driver have it, however blocks
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
		{3, 64, slices.Repeat([]int32{2}, 70), true, false, false}, {3, 288, long(3, 2, 2), true, false, false},
		{4, 40, long(3, 4, 2), true, false, true},
	} {
		for _, p := range []struct {
			precision       string
			steps, products func(float64) float64
		}{{cuda.BF16, bfloat16, bfloat16}, {cuda.TF32, tf32, unrounded}} {
			var first [][]float64
			launched := 0
			steps := int(slices.Max(c.lengths))
			for n, v := range []struct {
				blocks, order, cooperative, multiprocessors int
				each                                        bool // step is a kernel
			}{{0, 0, 1, 20, false}, {1, 2, 1, 20, false}, {0, 1, 1, 20, false}, {1, 1, 0, 20, true}, {0, 2, 1, 0, true},
				{0, 0, 2, 20, false}} {
				what := fmt.Sprintf("%s: %d to %d units, %v, both %v, reverse %v, %+v", p.precision, c.in, c.h,
					c.lengths, c.both, c.reverse, v)
				o := cuda.Options{Precision: p.precision, Limits: cuda.Limits{StepBlocks: v.blocks}}
				emulator.Set(t, "order", v.order, 0)
				emulator.Set(t, "cooperative", v.cooperative, 1)
				emulator.Set(t, "multiprocessors", v.multiprocessors, 4)
				before := emulator.Launches(t)
				got := tensorCase(t, o, c.lengths...).gru(c.in, c.h, c.both, c.reverse)
				count := emulator.Launches(t) - before
				if n > 0 {
					if !slices.EqualFunc(got.bits, first, slices.Equal) {
						t.Errorf("%s: other bits", what)
					}
					want := launched // both ways, called and recorded
					if v.each && !c.same {
						want += 2*2*(steps-1) - 2 // and it is not tried whether blocks run at once
					}
					if v.cooperative != 2 && count != want { // else the kernels that were recorded in vain count too
						t.Errorf("%s: %d launches, want %d", what, count, want)
					}
					continue
				}
				first, launched, o.BaseKernels = got.bits, count, true
				if c.same {
					p.steps = p.products
				}
				got.check(t, what, p.steps, p.products)
				base := tensorCase(t, o, c.lengths...).gru(c.in, c.h, c.both, c.reverse)
				if same := slices.EqualFunc(base.bits, first, slices.Equal); same != c.same {
					t.Errorf("%s: the bits of the base kernels: %v", what, same)
				}
			}
		}
	}
}

// Inputs whose rows in bfloat16 do not begin at multiples of 16 bytes are multiplied in wider rows, and give what the
// formulas give: in one direction and in two, with rows of whole and of single accesses, of many and of few units.
func TestGRUOfWidenedInputs(t *testing.T) {
	o := cuda.Options{Precision: cuda.BF16, BLAS: []string{"emulated"}, RoundFrom: 1}
	for _, c := range []struct {
		in, h   int
		lengths []int32
		both    bool
	}{{5, 64, []int32{4, 2, 1}, true}, {12, 64, slices.Repeat([]int32{2}, 70), true}, {300, 32, []int32{3, 2}, true},
		{4, 40, []int32{3, 1}, false}, {139, 40, []int32{2, 2}, true}} {
		for _, order := range []int{0, 1, 2} {
			emulator.Set(t, "order", order, 0)
			tensorCase(t, o, c.lengths...).gru(c.in, c.h, c.both, false).check(t, fmt.Sprintf("%+v", c), bfloat16,
				bfloat16)
		}
	}
	b := newBench(t, o)
	a := b.biGRU(64, 6)
	names, _, err := cuda.Launched(b.Device, func() { device.Do(b.Device, a); device.DoGrad(b.Device, a) })
	try.Do(t, err)
	for _, name := range []string{"gru_operands", "gru_results", "product bf16 11x192x8 x2", "product bf16 192x8x11 x2",
		"product bf16 11x8x192 x2"} {
		if !slices.Contains(names, name) {
			t.Errorf("no %s in %v", name, names)
		}
	}
}

// Contexts on tensor cores give what their formulas give (contextCase.check), in tiles and in every order of the
// threads, with operands in bfloat16 and, between products that round nothing, in TF32; one that is more than the
// kernel takes, and a GPU without such cores, are left to the base kernels.
func TestContextsOnTensorCores(t *testing.T) {
	for _, c := range []struct {
		b, r, e, s int
		lengths    []int32
		same       bool // nothing is left to the tensor cores
	}{
		{5, 36, 72, 8, []int32{17, 1, 4}, false}, {3, 1, 8, 4, []int32{2}, false},
		{2, 17, 40, 4, []int32{3, 40}, false}, {2, 17, 35, 4, []int32{3, 2}, true},
		{1, 3, 1024, 4, []int32{2, 1}, false}, {1, 3, 1025, 4, []int32{2, 1}, true}, {2, 3, 8, 300, []int32{2}, false},
	} {
		for _, v := range []struct {
			precision          string
			from               int // operands in memory
			contexts, products func(float64) float64
		}{{cuda.BF16, 1, bfloat16, bfloat16}, {cuda.BF16, math.MaxInt, bfloat16, bfloat16},
			{cuda.TF32, 0, tf32, unrounded}} {
			o := cuda.Options{Precision: v.precision, RoundFrom: v.from}
			for i, tile := range []int{0, 40_000} {
				if i > 0 && v.from > 1 { // as where they are in memory
					continue
				}
				o.Limits.TileBytes = tile
				what := fmt.Sprintf("%s: %+v, operands in memory from %d, tiles of %d", v.precision, c, v.from,
					tile)
				emulator.Set(t, "order", 0, 0)
				got := tensorCase(t, o, c.lengths...).contexts(c.b, c.r, c.e, c.s)
				base := o
				base.BaseKernels = true
				want := tensorCase(t, base, c.lengths...).contexts(c.b, c.r, c.e, c.s)
				if !c.same {
					got.check(t, what, v.contexts, v.products)
				}
				if same := slices.EqualFunc(got.bits, want.bits, slices.Equal); same != c.same {
					t.Errorf("%s: the bits of the base kernels: %v", what, same)
				}
				if i > 0 || c.e > 100 {
					continue
				}
				emulator.Set(t, "order", 2, 0)
				other := tensorCase(t, o, c.lengths...).contexts(c.b, c.r, c.e, c.s)
				if !slices.EqualFunc(other.bits, got.bits, slices.Equal) {
					t.Errorf("%s: other bits where threads run in another order", what)
				}
				emulator.Set(t, "shared", 99<<10, 227<<10)
				other = tensorCase(t, o, c.lengths...).contexts(c.b, c.r, c.e, c.s)
				if emulator.Set(t, "shared", 227<<10, 227<<10); !slices.EqualFunc(other.bits, got.bits, slices.Equal) {
					t.Errorf("%s: other bits where blocks have less shared memory", what)
				}
			}
		}
	}
	for _, precision := range []string{cuda.BF16, cuda.TF32} {
		o := cuda.Options{Precision: precision}
		emulator.Set(t, "capability", 75, 90)
		turing := tensorCase(t, o, 3, 2).contexts(2, 3, 8, 4).bits
		emulator.Set(t, "capability", 80, 90)
		t.Setenv("VSETRAIN_KERNELS", "base")
		refused := tensorCase(t, o, 3, 2).contexts(2, 3, 8, 4).bits
		t.Setenv("VSETRAIN_KERNELS", "")
		ampere := tensorCase(t, o, 3, 2).contexts(2, 3, 8, 4).bits
		if !slices.EqualFunc(turing, refused, slices.Equal) || slices.EqualFunc(turing, ampere, slices.Equal) {
			t.Errorf("%s: the kernels of compute capability 8.0 are not chosen by the GPU and the environment alone",
				precision)
		}
	}
	t.Setenv("VSETRAIN_KERNELS", "bse")
	if _, err := cuda.Open(cuda.Options{Driver: emulator.Library(t)}); err == nil {
		t.Error("VSETRAIN_KERNELS=bse is accepted")
	}
}

// graphCase is a step of reasoning and its gradient. Both are of given values: the results of Out in the gradient,
// which say where ReLU has a slope, are none that the device computed.
type graphCase struct {
	b, s                          int
	x, m, v, w, bias, given, dOut []float64
	bits                          [][]float64 // Out, Y where it is kept, DX, DM, DV, DW, DBias
}

// graphs computes a case. With alone only the gradient reads Y, and Out is what the device computed.
func (c *pairCase) graphs(b, s int, first, keep, alone bool) *graphCase {
	defer c.Close()
	captions := len(c.lengths.Host)
	nodes := b * (captions + device.Total(c.lengths.Host))
	asked := nodes
	if first {
		asked = b * captions
	}
	g := &graphCase{b: b, s: s}
	root := 1 / math.Sqrt(float64(s))
	a := device.GraphReason{B: b, S: s, First: first, Operand: alone, Lengths: c.lengths, Out: c.nan(asked * s),
		DX: c.nan(nodes * s), DM: c.nan(s * s), DV: c.nan(s), DW: c.nan(s * s), DBias: c.nan(s)}
	var out device.View
	g.x, a.X = c.normal(nodes*s, root)
	g.m, a.M = c.normal(s*s, 1)
	g.v, a.V = c.normal(s, 1)
	g.w, a.W = c.normal(s*s, 1)
	g.bias, a.Bias = c.normal(s, root)
	g.dOut, a.DOut = c.normal(asked*s, 1)
	g.given, out = c.normal(asked*s, 1)
	if keep {
		a.Y = c.nan(nodes * s)
	}
	device.Do(c.Device, a)
	c.read(a.Out)
	if keep && !alone {
		c.read(a.Y)
	}
	if !alone {
		device.Do(c.Device, device.Copy{Dst: a.Out, Src: out})
	}
	device.DoGrad(c.Device, a)
	c.read(a.DX, a.DM, a.DV, a.DW, a.DBias)
	try.Do(c.TB, c.Sync())
	g.bits = c.results
	return g
}

// check compares results with what the formulas of reasoning_sm80.cu give for them with every rounding of the kernel:
// nodes, queries, weights, contexts and their gradients are operands in bfloat16, everything else is float32. Queries
// that are kept are read as the device gave them. Other operands are rounded from what float32 may give, which leaves
// one in doubt only near a tie (approx.operand). lengths are the lengths of the captions; nodes after theirs are graphs
// of their own. Without queries the gradient is computed by the base kernels.
func (g *graphCase) check(t *testing.T, what string, lengths []int32, keep bool) {
	t.Helper()
	s, rows := g.s, len(g.x)/g.s
	var graphs [][2]int // the first and after the last node of each
	for image := range g.b {
		at := image * rows / g.b
		for _, n := range lengths {
			graphs = append(graphs, [2]int{at, at + int(n) + 1})
			at += int(n) + 1
		}
		for ; at < (image+1)*rows/g.b; at++ {
			graphs = append(graphs, [2]int{at, at + 1})
		}
	}
	x, m, w := rowsOf(operands(exactly(g.x)), s), rowsOf(operands(exactly(g.m)), s), rowsOf(operands(exactly(g.w)), s)
	y := x.times(m, rows, s, s)
	plusRow(y, exactly(g.v))
	q := operands(y)
	if keep {
		within(t, what+": Y", g.bits[1], y)
		q = operands(exactly(g.bits[1]))
	}
	query := rowsOf(q, s)
	// Rows of attention weights have one value for each row of x; the weights of other graphs are 0.
	weights, e := make([]approx, rows*rows), make([]approx, rows*s)
	dot := func(a matrix, i, j int) approx {
		var d sum
		for k := range s {
			d.add(a(i, k), x(j, k))
		}
		return d.total()
	}
	mix := func(rounded []approx, of [2]int, k int) approx {
		var e sum
		for j := of[0]; j < of[1]; j++ {
			e.add(rounded[j], x(j, k))
		}
		return e.total()
	}
	for _, of := range graphs {
		for i := of[0]; i < of[1]; i++ {
			p, most, total := weights[i*rows:][:rows], math.Inf(-1), sum{}
			for j := of[0]; j < of[1]; j++ {
				p[j] = dot(query, i, j)
				most = max(most, p[j].v)
			}
			for j := of[0]; j < of[1]; j++ {
				p[j] = p[j].plus(approx{v: -most}).through(math.Exp, inexact)
				total.add(p[j], approx{v: 1})
			}
			scale := total.total().through(func(x float64) float64 { return 1 / x }, 1)
			for j := of[0]; j < of[1]; j++ {
				p[j] = p[j].times(scale)
			}
			rounded := operands(p)
			for k := range s {
				e[i*s+k] = mix(rounded, of, k).operand()
			}
		}
	}
	out := rowsOf(e, s).times(w.transposed(), rows, s, s)
	plusRow(out, exactly(g.bias))
	for i, o := range out {
		out[i].v = max(0, o.v)
	}
	within(t, what+": Out", g.bits[0], out)
	if !keep {
		return
	}
	dp, dq, ds := exactly(g.dOut), make([]approx, rows*s), make([]approx, rows*rows)
	for i, o := range g.given {
		if o <= 0 {
			dp[i].v = 0
		}
	}
	slope := rowsOf(operands(dp), s)
	de := rowsOf(operands(slope.times(w, rows, s, s)), s)
	for _, of := range graphs {
		for i := of[0]; i < of[1]; i++ {
			p, d, mean := weights[i*rows:][:rows], ds[i*rows:][:rows], sum{}
			for j := of[0]; j < of[1]; j++ {
				d[j] = dot(de, i, j)
				mean.add(p[j], d[j])
			}
			less := mean.total().product(approx{v: -1})
			for j := of[0]; j < of[1]; j++ {
				d[j] = p[j].times(d[j].plus(less))
			}
			rounded := operands(d)
			for k := range s {
				dq[i*s+k] = mix(rounded, of, k)
			}
		}
	}
	dQuery := rowsOf(operands(dq), s)
	dx, a, da := make([]approx, rows*s), rowsOf(operands(weights), rows), rowsOf(operands(ds), rows)
	for _, of := range graphs {
		for j := of[0]; j < of[1]; j++ {
			for c := range s {
				var d sum
				for k := range s {
					d.add(dQuery(j, k), m(c, k))
				}
				for i := of[0]; i < of[1]; i++ {
					d.add(a(i, j), de(i, c))
					d.add(da(i, j), query(i, c))
				}
				dx[j*s+c] = d.total()
			}
		}
	}
	within(t, what+": DX", g.bits[2], dx)
	within(t, what+": DM", g.bits[3], x.transposed().times(dQuery, s, s, rows))
	within(t, what+": DV", g.bits[4], rowsOf(dq, s).columns(rows, s))
	within(t, what+": DW", g.bits[5], slope.transposed().times(rowsOf(e, s), s, s, rows))
	within(t, what+": DBias", g.bits[6], rowsOf(dp, s).columns(rows, s))
}

// Steps of reasoning on tensor cores give what their formulas give (graphCase.check), in tiles of images and in every
// order of the threads, for lengths that the host knows a bound of too; graphs and rows that are more than the kernels
// take are left to the base kernels, whose bits they have.
func TestReasoningOnTensorCores(t *testing.T) {
	long := []int32{7, 0, 63, 14, 19, 3, 30, 12, 1}
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
		{2, 16, []int32{3, 64}, nil, false, true, true}, {2, 20, []int32{3, 4}, nil, false, true, true},
		{1, 264, []int32{3}, nil, false, true, true}, {2, 16, []int32{3, 4}, nil, true, false, true},
	} {
		on := func(o cuda.Options) *graphCase {
			x := tensorCase(t, o, c.lengths...)
			if c.bound != nil {
				x.lengths.Host, x.lengths.Bounded = c.bound, true
			}
			return x.graphs(c.b, c.s, c.first, c.keep, false)
		}
		for i, o := range []cuda.Options{{RoundFrom: 1}, {RoundFrom: 1, Limits: cuda.Limits{TileBytes: 1}}, {}} {
			if n > 0 && i > 0 {
				continue
			}
			what := fmt.Sprintf("%+v, operands in memory from %d, tiles of %d", c, o.RoundFrom, o.Limits.TileBytes)
			emulator.Set(t, "order", 0, 0)
			got := on(o)
			base := o
			base.BaseKernels = true
			want := on(base)
			if !c.same {
				got.check(t, what, c.lengths, c.keep)
			}
			if !c.keep && !slices.EqualFunc(got.bits[1:], want.bits[1:], slices.Equal) {
				t.Errorf("%s: the gradient without queries has other bits than the base kernels", what)
			}
			if same := slices.EqualFunc(got.bits, want.bits, slices.Equal); same != c.same {
				t.Errorf("%s: the bits of the base kernels: %v", what, same)
			}
			if i > 0 || n > 1 {
				continue
			}
			emulator.Set(t, "order", 2, 0)
			if other := on(o); !slices.EqualFunc(other.bits, got.bits, slices.Equal) {
				t.Errorf("%s: other bits where threads run in another order", what)
			}
		}
	}
}

// The gradient from queries, nodes and results that the kernel of the step wrote as bfloat16 has the bits of that from
// float32: all are rounded alike, and of the results their signs count.
func TestReasoningOnCopies(t *testing.T) {
	lengths := []int32{17, 1, 4, 9, 30, 12, 14}
	for _, s := range []int{40, 72, 256} {
		on := func(o cuda.Options) [][]float64 {
			return tensorCase(t, o, lengths...).graphs(2, s, false, true, true).bits
		}
		single, copies := on(cuda.Options{}), on(cuda.Options{RoundFrom: 1, Limits: cuda.Limits{TileBytes: 1}})
		for i, what := range []string{"Out", "DX"} {
			if !slices.Equal(copies[i], single[i]) {
				t.Errorf("%d values: %s from copies is another than from float32", s, what)
			}
		}
	}
}

// The same on drawn pairs: numbers of images, regions, values and words that are not multiples of tiles.
func TestDrawnPairsOnTensorCores(t *testing.T) {
	rng := philox.NewKey(7, "tensor").Stream(0)
	draw := func(n int) int { return 1 + rng.IntN(n) }
	for range 5 {
		lengths := make([]int32, draw(5))
		for i := range lengths {
			lengths[i] = int32(draw([]int{6, 20, 63}[rng.IntN(3)]))
		}
		b, r, e, s := draw(4), draw(50), 8*draw(20), 4*draw(4)
		what := fmt.Sprintf("captions of %v words, %d images of %d regions, %d to %d values", lengths, b, r, e, s)
		o := cuda.Options{RoundFrom: 1, Limits: cuda.Limits{TileBytes: draw(200_000)}}
		tensorCase(t, o, lengths...).contexts(b, r, e, s).check(t, what, bfloat16, bfloat16)
		o.Precision = cuda.TF32
		tensorCase(t, o, lengths...).contexts(b, r, e, s).check(t, "TF32: "+what, tf32, unrounded)
		b, s = draw(3), 8*draw(16)
		what = fmt.Sprintf("graphs of %v words, %d images, %d values", lengths, b, s)
		o.Precision = cuda.BF16
		tensorCase(t, o, lengths...).graphs(b, s, false, true, false).check(t, what, lengths, true)
	}
}
