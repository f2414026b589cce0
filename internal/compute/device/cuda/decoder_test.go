package cuda_test

import (
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

// decoderCase is a decoder whose input weights see one more value than its contexts, and its gradient.
type decoderCase struct {
	h, r    int
	lengths []int32
	rate    float64
}

// decoderValues are what a decoder takes and gives: gates that only words have been added to, those that the steps
// make of them, and slopes that the gradient makes of these.
type decoderValues struct {
	decoderCase
	drop                                                 philox.Key
	numbers                                              []int32 // of rows
	keys, regions, initial, score, attend, whh, wih, bhh []float64
	inputs, dStates                                      []float64
	gates, prev, context, weights, query, states         []float64
	slopes, dInitial, dQuery, dKeys, dRegions, dVector   []float64
	bits                                                 [][]float64 // all of them
}

// numbers are the numbers of rows for dropout; every fourth row is none.
func (s decoderCase) numbers(rows int) []int32 {
	x := make([]int32, rows)
	for i := range x {
		if x[i] = -1; i%4 > 0 {
			x[i] = int32(1<<20*i + 3)
		}
	}
	return x
}

// decoderArgs are the arguments of a decoder.
func (c *pairCase) decoderArgs(s decoderCase) device.Decoder {
	h, r, b, rows := s.h, s.r, len(s.lengths), device.Total(s.lengths)
	scaled := func(n int, by float64) device.View {
		_, v := c.normal(n, by)
		return v
	}
	small := 1 / math.Sqrt(float64(h))
	a := device.Decoder{R: r, H: h, A: h, E: h, Lengths: c.lengths, Keys: scaled(b*r*h, 1),
		Regions: scaled(b*r*h, 1), Initial: scaled(b*h, 1), Score: scaled(h, 3*small),
		Attend: scaled(h*(2*h), small), LDAttend: 2 * h,
		WHH: scaled(3*h*h, small), WIH: scaled(3*h*(h+1), small), LDWIH: h + 1, BHH: scaled(3*h, small),
		Gates: scaled(rows*4*h, 1), Prev: c.nan(rows * h), Context: c.nan(rows * h), Weights: c.nan(rows * r),
		Query: c.nan(rows * h), States: c.nan(rows * h), DStates: scaled(rows*h, 1), DInitial: c.nan(b * h),
		DQuery: c.nan(rows * h), DKeys: c.nan(b * r * h), DRegions: c.nan(b * r * h), DVector: c.nan(b * h)}
	if s.rate > 0 {
		a.Drop = device.DropoutParams{Rate: s.rate, Key: philox.NewKey(3, "context"), Step: c.known(decoderStep, 0),
			Rows: c.ints(s.numbers(rows)...)}
	}
	return a
}

// decoderStep is the training step of the dropout.
const decoderStep = 5

// decoder runs all steps of a decoder and their gradient.
func (c *pairCase) decoder(s decoderCase) *decoderValues {
	defer c.Close()
	a := c.decoderArgs(s)
	x := &decoderValues{decoderCase: s, drop: a.Drop.Key, numbers: s.numbers(a.Query.N / s.h)}
	read := func(to *[]float64, v device.View) {
		c.read(v)
		*to = c.results[len(c.results)-1]
	}
	read(&x.inputs, a.Gates)
	if !c.Do(&a) {
		c.Fatalf("%+v: the steps are left to the caller", s)
	}
	read(&x.gates, a.Gates)
	if a.Grad = true; !c.Do(&a) {
		c.Fatalf("%+v: the steps of the gradient are left to the caller", s)
	}
	to := []*[]float64{&x.keys, &x.regions, &x.initial, &x.score, &x.attend, &x.whh, &x.wih, &x.bhh, &x.dStates,
		&x.prev, &x.context, &x.weights, &x.query, &x.states, &x.slopes, &x.dInitial, &x.dQuery, &x.dKeys, &x.dRegions,
		&x.dVector}
	for i, v := range []device.View{a.Keys, a.Regions, a.Initial, a.Score, a.Attend, a.WHH, a.WIH, a.BHH, a.DStates,
		a.Prev, a.Context, a.Weights, a.Query, a.States, a.Gates, a.DInitial, a.DQuery, a.DKeys, a.DRegions,
		a.DVector} {
		read(to[i], v)
	}
	try.Do(c.TB, c.Sync())
	x.bits = c.results
	return x
}

// factor is what dropout multiplies value k of a row of contexts by.
func (x *decoderValues) factor(row, k int) approx {
	if x.rate == 0 {
		return approx{v: 1}
	}
	number := x.numbers[row]
	block := x.drop.Block(decoderStep, uint64(number)<<30|uint64(k/4))
	if number < 0 || block[k%4] < uint32(x.rate*(1<<32)) {
		return approx{}
	}
	return approx{v: float64(float32(1 / (1 - x.rate)))}
}

// check compares all results with what follows in one step from those before it, as the device gave these: a query
// from the state before the step, weights from the query, a context from the weights, gates from state and context, a
// slope from the gates. So no operand that is rounded to bfloat16 is in doubt; everything else is float32. Only the
// gradients of states, of contexts and of scores, which the device keeps to itself, take their errors along.
func (x *decoderValues) check(t *testing.T, what string) {
	t.Helper()
	h, r, batch, rows := x.h, x.r, len(x.lengths), len(x.prev)/x.h
	whh, wih := rowsOf(operands(exactly(x.whh)), h), rowsOf(operands(exactly(x.wih)), h+1)
	attend := rowsOf(operands(exactly(x.attend)), 2*h)
	keys, regions := rowsOf(exactly(x.keys), h), rowsOf(exactly(x.regions), h)
	given, query := rowsOf(exactly(x.weights), r), rowsOf(exactly(x.query), h)
	before, state := rowsOf(exactly(x.prev), h), rowsOf(operands(exactly(x.prev)), h)
	hidden := state.times(whh.transposed(), rows, 3*h, h)
	plusRow(hidden, exactly(x.bhh))
	seen := rowsOf(operands(exactly(x.context)), h).times(wih.transposed(), rows, 3*h, h)
	slope := rowsOf(operands(exactly(x.slopes)), 4*h)
	ofState := slope.ofHidden(h).times(whh, rows, h, 3*h)
	ofQuery := rowsOf(operands(exactly(x.dQuery)), h).times(attend, rows, h, h)
	dContext := slope.ofInput(h).times(wih, rows, h, 3*h)
	prev, weights, context := make([]approx, rows*h), make([]approx, rows*r), make([]approx, rows*h)
	gates, states, slopes := make([]approx, rows*4*h), make([]approx, rows*h), make([]approx, rows*4*h)
	dScores, dQuery, carry := make([]approx, rows*r), make([]approx, rows*h), make([]approx, batch*h)
	dKeys, dRegions, dVector := make([]sum, batch*r*h), make([]sum, batch*r*h), make([]sum, batch*h)
	copy(prev, exactly(x.initial))
	pack := device.Ints{Host: x.lengths}.Packing()
	for step := pack.Steps() - 1; step >= 0; step-- { // as the gradient goes; of the steps each has its own results
		start := pack.Start(step)
		for q := range pack.Active(step) {
			row := start + q
			tanh := func(i, k int) approx {
				return keys(q*r+i, k).plus(query(row, k)).through(math.Tanh, inexact)
			}
			p, most, total := weights[row*r:][:r], math.Inf(-1), sum{}
			for i := range p {
				var score sum
				for k, u := range x.score {
					score.add(approx{v: u}, tanh(i, k))
				}
				p[i] = score.total()
				most = max(most, p[i].v)
			}
			for i := range p {
				p[i] = p[i].plus(approx{v: -most}).through(math.Exp, inexact)
				total.add(p[i], approx{v: 1})
			}
			scale := total.total().through(func(x float64) float64 { return 1 / x }, 1)
			for i := range p {
				p[i] = p[i].times(scale)
			}
			for k := range h {
				var mix sum
				for i := range r {
					mix.add(given(row, i), regions(q*r+i, k))
				}
				at, from, drop := row*h+k, row*3*h+k, x.factor(row, k)
				context[at] = mix.total().times(drop)
				dContext[at] = dContext[at].times(drop)
				known, in := cellOf(x.gates, row, k, h), cellOf(x.inputs, row, k, h)
				sum := func(gate int) approx { return in[gate].plus(hidden[from+gate*h]).plus(seen[from+gate*h]) }
				known.of(sum(0), sum(1), in[2].plus(seen[from+2*h]), hidden[from+2*h]).write(gates, row, k, h)
				states[at] = known.after(before(row, k))
				if step+1 < int(x.lengths[q]) {
					prev[pack.Start(step+1)*h+q*h+k].v = x.states[at]
				}
				d := carry[q*h+k].plus(approx{v: x.dStates[at]})
				known.slopes(d, before(row, k)).write(slopes, row, k, h)
				carry[q*h+k] = d.times(known[1]).plus(ofState[at]).plus(ofQuery[at])
			}
			var mean sum
			ds := dScores[row*r:][:r]
			for i := range ds {
				var dot sum
				for k := range h {
					dot.add(dContext[row*h+k], regions(q*r+i, k))
				}
				ds[i] = dot.total()
				mean.add(given(row, i), ds[i])
			}
			off := mean.total()
			for i := range ds {
				ds[i] = given(row, i).times(ds[i].plus(approx{-off.v, off.e}))
			}
			for k, u := range x.score {
				var d sum
				for i := range r {
					a, of := tanh(i, k), (q*r+i)*h+k
					scaled := ds[i].times(approx{v: u})
					d.add(scaled, less(a.times(a)))
					dKeys[of].add(scaled, less(a.times(a)))
					dRegions[of].add(given(row, i), dContext[row*h+k])
					dVector[q*h+k].add(ds[i], a)
				}
				dQuery[row*h+k] = d.total()
			}
		}
	}
	within(t, what+": Prev", x.prev, prev)
	within(t, what+": Query", x.query, state.times(attend.transposed(), rows, h, h))
	within(t, what+": Weights", x.weights, weights)
	within(t, what+": Context", x.context, context)
	within(t, what+": Gates", x.gates, gates)
	within(t, what+": States", x.states, states)
	within(t, what+": slopes", x.slopes, slopes)
	within(t, what+": DInitial", x.dInitial, carry)
	within(t, what+": DQuery", x.dQuery, dQuery)
	within(t, what+": DKeys", x.dKeys, totals(dKeys))
	within(t, what+": DRegions", x.dRegions, totals(dRegions))
	within(t, what+": DVector", x.dVector, totals(dVector))
}

// The steps of a decoder as one kernel give what their formulas give (decoderValues.check), and the same bits however
// blocks divide the sequences and in every order of the threads.
func TestDecoderOnTensorCores(t *testing.T) {
	for _, s := range []decoderCase{
		{h: 32, r: 3, lengths: []int32{3, 2, 1}},
		{h: 64, r: 36, lengths: slices.Repeat([]int32{3}, 18),
			rate: 0.25},
		{h: 96, r: 13, lengths: append([]int32{3, 2}, slices.Repeat([]int32{1}, 38)...), rate: 0.5},
	} {
		var first [][]float64
		for n, v := range []struct{ blocks, order int }{{0, 0}, {1, 1}, {0, 2}} {
			what := fmt.Sprintf("%+v, %+v", s, v)
			emulator.Set(t, "multiprocessors", 32, 4)
			emulator.Set(t, "order", v.order, 0)
			o := cuda.Options{Limits: cuda.Limits{StepBlocks: v.blocks}}
			got := tensorCase(t, o, s.lengths...).decoder(s)
			if n == 0 {
				first = got.bits
				got.check(t, what)
			} else if !slices.EqualFunc(got.bits, first, slices.Equal) {
				t.Errorf("%s: other bits", what)
			}
		}
	}
}

// Other sizes and other GPUs are left to the caller, and nothing has been started then.
func TestDecoderLeftToTheCaller(t *testing.T) {
	for what, c := range map[string]struct {
		h, r, a             int
		base                bool
		cooperative, blocks int
	}{
		"as it should be":           {h: 32, r: 3, a: 32, cooperative: 1, blocks: 16},
		"40 units":                  {h: 40, r: 3, a: 40, cooperative: 1, blocks: 16},
		"544 units":                 {h: 544, r: 3, a: 544, cooperative: 1, blocks: 64},
		"65 regions":                {h: 32, r: 65, a: 32, cooperative: 1, blocks: 16},
		"another size of attention": {h: 32, r: 3, a: 31, cooperative: 1, blocks: 16},
		"base kernels":              {h: 32, r: 3, a: 32, base: true, cooperative: 1, blocks: 16},
		"no cooperative launch":     {h: 32, r: 3, a: 32, cooperative: 0, blocks: 16},
		"fewer multiprocessors":     {h: 64, r: 3, a: 64, cooperative: 1, blocks: 0},
	} {
		emulator.Set(t, "cooperative", c.cooperative, 1)
		emulator.Set(t, "multiprocessors", c.blocks, 4)
		s := decoderCase{h: c.h, r: c.r, lengths: []int32{2, 1}}
		p := tensorCase(t, cuda.Options{BaseKernels: c.base}, s.lengths...)
		args := p.decoderArgs(s)
		args.A = c.a
		p.read(args.Gates)
		before := emulator.Launches(t)
		forward := p.Do(&args)
		try.Do(t, p.Sync())
		started := emulator.Launches(t) != before
		if want := what == "as it should be"; forward != want || started != want {
			t.Errorf("%s: all steps at once: %v, kernels were started: %v, want %v", what, forward, started, want)
		}
		if args.Grad = true; what != "as it should be" && p.Do(&args) {
			t.Errorf("%s: all steps of the gradient at once", what)
		}
		p.Close()
	}
}
