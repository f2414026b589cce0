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

// headCase is SelfAttention of captions and its gradient.
type headCase struct {
	heads, d int
	lengths  []int32
	words    []int32     // [captions, longest], nil: none is 0
	rate     float64     // of the dropout
	masks    [][]float64 // of each caption, [heads, n, n]
	results  [][]float64 // queries, keys, values, dC; C, dQ, dK, dV [rows, d] and the sums of the last three [3d]
}

// run computes the case with queries, keys and values as columns of one matrix, or each alone, after shift values that
// take rows away from multiples of 16 bytes.
func (x *headCase) run(t *testing.T, o cuda.Options, together bool, shift int) {
	t.Helper()
	c := tensorCase(t, o, x.lengths...)
	defer c.Close()
	rows, most, ld := device.Total(x.lengths), int(slices.Max(x.lengths)), x.d
	if together {
		ld = 3*x.d + shift
	}
	matrix := func(v device.View) (parts [3]device.View) { // beside each other, or one after the other
		for i := range parts {
			from := shift + i*x.d
			if !together {
				from = shift + i*rows*x.d
			}
			parts[i] = v.Slice(from, from+(rows-1)*ld+x.d)
		}
		return parts
	}
	of, to := matrix(c.nan(shift+3*rows*ld)), matrix(c.nan(shift+3*rows*ld))
	for i := range of { // the same values wherever they lie
		values := make([]float64, rows*x.d)
		for k := range values {
			values[k] = c.rng.Norm()
		}
		for r := range rows {
			c.UploadDoubles(of[i].Slice(r*ld, r*ld+x.d), values[r*x.d:][:x.d])
		}
	}
	a := device.SelfAttention{Heads: x.heads, D: x.d, LD: ld, L: most, Lengths: c.lengths, Query: of[0], Key: of[1],
		Value: of[2], Context: c.nan(shift+rows*x.d).Slice(shift, shift+rows*x.d),
		DContext: c.nan(shift+rows*x.d).Slice(shift, shift+rows*x.d), DQuery: to[0], DKey: to[1], DValue: to[2],
		DBias: c.nan(3 * x.d)}
	slopes := make([]float64, rows*x.d)
	for k := range slopes {
		slopes[k] = c.rng.Norm()
	}
	c.UploadDoubles(a.DContext, slopes)
	if x.words != nil {
		a.Words = c.known(x.words...)
	}
	numbers := make([]int32, rows)
	for i := range numbers {
		numbers[i] = int32(7 * i)
	}
	if x.rate > 0 {
		a.Drop = device.DropoutParams{Rate: x.rate, Key: philox.NewKey(4, "heads"), Step: c.known(5, 0),
			Rows: c.ints(numbers...)}
	}
	device.Do(c.Device, a)
	device.DoGrad(c.Device, a)
	first := 0
	for _, n := range x.lengths {
		all := x.heads * int(n) * int(n)
		ones, mask := c.alloc(device.Float, all), c.alloc(device.Float, all)
		device.Do(c.Device, device.Fill{Dst: ones, Value: 1})
		device.Do(c.Device, device.Fill{Dst: mask, Value: 1})
		if x.rate > 0 {
			drop := a.Drop
			drop.Rows = a.Drop.Rows.Slice(first, first+1)
			device.Do(c.Device, device.Dropout{DropoutParams: drop, Width: all, X: ones, Y: mask})
		}
		c.read(mask)
		first += int(n)
	}
	c.read(a.Query, a.Key, a.Value, a.DContext, a.Context, a.DQuery, a.DKey, a.DValue, a.DBias)
	try.Do(t, c.Sync())
	x.masks, x.results = c.results[:len(x.lengths)], c.results[len(x.lengths):]
	for _, i := range []int{0, 1, 2, 5, 6, 7} {
		var tight []float64
		for r := range rows {
			tight = append(tight, x.results[i][r*ld:][:x.d]...)
		}
		x.results[i] = tight
	}
}

// check compares the results with the formulas of device/cpu/selfattention.go with every rounding of the kernels:
// queries, keys, values, dC, weights with dropout and dS are operands; everything else is float32.
func (x *headCase) check(t *testing.T, what string, round func(float64) float64) {
	t.Helper()
	q, k, v, dc := rowsOf(as(exactly(x.results[0]), round), x.d), rowsOf(as(exactly(x.results[1]), round), x.d),
		rowsOf(as(exactly(x.results[2]), round), x.d), rowsOf(as(exactly(x.results[3]), round), x.d)
	rows, size := len(x.results[0])/x.d, x.d/x.heads
	factor := approx{v: float64(float32(1 / math.Sqrt(float64(size))))}
	context := make([]approx, rows*x.d)
	grads := [3][]approx{make([]approx, rows*x.d), make([]approx, rows*x.d), make([]approx, rows*x.d)}
	first := 0
	for c, length := range x.lengths {
		n := int(length)
		var words []int32
		if x.words != nil {
			words = x.words[c*int(slices.Max(x.lengths)):][:n]
		}
		some := slices.ContainsFunc(words, func(w int32) bool { return w != 0 })
		for h := range x.heads {
			part := func(m matrix) matrix { return func(i, j int) approx { return m(first+i, h*size+j) } }
			s := part(q).times(part(k).transposed(), n, n, size)
			ds := part(dc).times(part(v).transposed(), n, n, size)
			kept := make([]approx, n*n)
			for i := range n {
				row, most := s[i*n:][:n], math.Inf(-1)
				for j := range row {
					if !some || words[j] != 0 {
						most = max(most, row[j].v)
					}
				}
				var all sum
				for j := range row {
					if some && words[j] == 0 {
						row[j] = approx{}
						continue
					}
					row[j] = row[j].plus(approx{v: -most}).times(factor).through(math.Exp, inexact)
					all.add(row[j], approx{v: 1})
				}
				scale := all.total().through(func(v float64) float64 { return 1 / v }, 1)
				var mean sum
				for j := range row {
					m := approx{v: x.masks[c][(h*n+i)*n+j]}
					row[j] = row[j].times(scale)
					kept[i*n+j], ds[i*n+j] = row[j].times(m).as(round), ds[i*n+j].times(m)
					mean.add(row[j], ds[i*n+j])
				}
				less := approx{-mean.total().v, mean.total().e}
				for j := range row {
					ds[i*n+j] = row[j].times(ds[i*n+j].plus(less)).times(factor).as(round)
				}
			}
			put := func(to []approx, values []approx) {
				for i, v := range values {
					to[(first+i/size)*x.d+h*size+i%size] = v
				}
			}
			weights, slopes := rowsOf(kept, n), rowsOf(ds, n)
			put(context, weights.times(part(v), n, size, n))
			put(grads[0], slopes.times(part(k), n, size, n))
			put(grads[1], slopes.transposed().times(part(q), n, size, n))
			put(grads[2], weights.transposed().times(part(dc), n, size, n))
		}
		first += n
	}
	within(t, what+": C", x.results[4], context)
	var sums []approx
	for i, name := range []string{"dQ", "dK", "dV"} {
		within(t, what+": "+name, x.results[5+i], grads[i])
		sums = append(sums, rowsOf(grads[i], x.d).columns(rows, x.d)...)
	}
	within(t, what+": sums", x.results[8], sums)
}

// Self-attention on tensor cores gives what its formulas give (headCase.check), for captions of every length that a
// block takes, wherever rows lie and in every order of the threads, with and without dropout and padding. Longer
// captions, heads whose width is not a multiple of 16, and other precisions are left to the base kernels.
func TestSelfAttentionOnTensorCores(t *testing.T) {
	rng := philox.NewKey(8, "heads").Stream(0)
	draw := func(heads, size, most int) *headCase {
		x := &headCase{heads: heads, d: heads * size, lengths: []int32{int32(most)}}
		for range 1 + rng.IntN(3) {
			x.lengths = append(x.lengths, int32(1+rng.IntN(most)))
		}
		if rng.IntN(2) == 0 {
			x.rate = 0.1 + 0.4*rng.Float64()
		}
		if rng.IntN(2) == 0 {
			x.words = make([]int32, len(x.lengths)*most)
			for i := range x.words {
				x.words[i] = int32(rng.IntN(3))
			}
			clear(x.words[most:][:most]) // nothing but padding
		}
		return x
	}
	same := func(a, b [][]float64) bool { return slices.EqualFunc(a, b, slices.Equal) }
	for n, c := range []struct {
		heads, size, most int
		whole             bool
	}{{1, 16, 2, true}, {2, 64, 7, true}, {1, 64, 16, true}, {3, 32, 17, true}, {1, 48, 40, true}, {2, 64, 33, true},
		{1, 16, 64, true}, {1, 80, 48, true}, {2, 128, 36, true}, {1, 16, 65, false}, {2, 24, 9, false},
		{1 + rng.IntN(4), 16 * (1 + rng.IntN(5)), 2 + rng.IntN(63), true},
		{1 + rng.IntN(4), 16 * (1 + rng.IntN(5)), 2 + rng.IntN(63), true}} {
		x := draw(c.heads, c.size, c.most)
		what := fmt.Sprintf("%d heads of %d, captions of %v, dropout %.2f, padding %v", c.heads, c.size, x.lengths,
			x.rate, x.words != nil)
		x.run(t, cuda.Options{BaseKernels: true}, false, 0)
		base := x.results
		x.run(t, cuda.Options{}, false, 0)
		if same(x.results, base) == c.whole {
			t.Errorf("%s: the bits of the base kernels: %v", what, !c.whole)
		}
		if !c.whole {
			continue
		}
		x.check(t, what, bfloat16)
		alone := x.results[4:]
		for shift := range 2 {
			emulator.Set(t, "order", 1+(n+shift)%2, 0)
			x.run(t, cuda.Options{}, false, shift)
			emulator.Set(t, "order", 0, 0)
			if !same(x.results[4:], alone) {
				t.Errorf("%s: other bits in another order of the threads, shifted by %d", what, shift)
			}
		}
		for shift := range 2 {
			x.run(t, cuda.Options{RoundFrom: 1}, true, 4-3*shift)
			if !same(x.results[4:], alone) {
				t.Errorf("%s: other bits side by side, shifted by %d", what, 4-3*shift)
			}
		}
	}
}
