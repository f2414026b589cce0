package devicetest

import (
	"encoding/binary"
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/philox"
	float16 "vsetrain/internal/files/half"
)

// testRecorded compares the kernels of recorded steps: dropout of padded sequences and the guard of an update, and on
// devices that record, inputs and results that travel together and GRUs whose lengths the host knows a bound of.
func testRecorded(h *harness) {
	h.dropoutPadded()
	h.guards()
	d, ok := device.As[device.Recorder](h.d)
	if !ok {
		return
	}
	h.fetches(d)
	for _, s := range [][2]int{{5, 4}, {3, 40}} {
		h.boundedGRU(s[0], s[1])
	}
}

// nothing is the result of a family that a device leaves to others.
func (h *harness) nothing() {
	if h.record != nil {
		*h.record = append(*h.record, 0)
	}
}

func (h *harness) dropoutPadded() {
	const width, steps, first = 5, 2, 1
	rate := 0.4
	lengths := []int32{4, 2, 1}
	key, x := philox.NewKey(3, "padded"), h.normal(steps*len(lengths)*width, 1)
	want := make([]float64, len(x))
	for p, row := range packed(lengths) { // the place of a value is that among the words
		b, t := row[0], row[1]-first
		if t < 0 || t >= steps {
			continue
		}
		for k := range width {
			i, at := uint64(p*width+k), (t*len(lengths)+b)*width+k
			if key.Block(7, i/4)[i%4] >= uint32(rate*(1<<32)) {
				want[at] = x[at] / (1 - rate)
			}
		}
	}
	a := device.Dropout{Rate: rate, Key: key, Step: h.inInts([]int32{7, 0}), X: h.in(x), Y: h.out(len(x))}
	of := h.inInts(lengths)
	h.run("DropoutPadded", func() {
		device.Do(h.d, device.DropoutPadded{Dropout: a, Lengths: of, Width: width, From: first})
	})
	h.equal("DropoutPadded", a.Y, want, h.tol.exact)
	h.release()
}

func (h *harness) guards() {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		norm   float64
		losses []float64
		stops  bool
	}{{2, []float64{1, 3}, false}, {nan, []float64{1, 3}, true}, {inf, []float64{1, 3}, true},
		{2, []float64{nan, 3}, true}, {2, []float64{1, -inf}, true}, {2, []float64{1}, false}} {
		coef, norm, losses := h.inout([]float64{0.5}), h.in([]float64{c.norm}), make([]device.View, 2)
		for i, v := range c.losses {
			losses[i] = h.in([]float64{v})
		}
		h.run("Guard", func() { device.Do(h.d, device.Guard{Coefficient: coef, Norm: norm, Losses: losses}) })
		want := 0.5
		if c.stops {
			want = nan
		}
		h.equal("Guard", coef, []float64{want}, 0)
		h.release()
	}
}

// fetches uploads values without a kernel in between, and fetches them in another order.
func (h *harness) fetches(d device.Recorder) {
	x, y, fetched := []float64{1, -2, 3}, h.normal(300, 1), h.out(303)
	for i := range y {
		y[i] = float64(float32(y[i]))
	}
	first, second := h.out(len(x)), h.out(len(y))
	h.run("Fetch", func() {
		h.d.UploadDoubles(first, x)
		h.d.UploadDoubles(second, y)
		d.Fetch(0, second, first)
		if got, err := d.Fetched(0); err == nil {
			h.d.UploadFloats(fetched, got)
		}
	})
	h.equal("Upload", first, x, 0)
	h.equal("Upload", second, y, 0)
	h.equal("Fetch", fetched, append(y, x...), 0)
	h.release()
}

// boundedGRU runs both directions on captions shorter than what the host knows of them.
func (h *harness) boundedGRU(i, n int) {
	lengths, bound := []int32{3, 2, 1}, []int32{4, 3, 3}
	c := h.biCase(i, n, lengths)
	words, rows := len(c[0].rows), 10
	behind := func(x []float64, width int) []float64 { // finite values
		return append(append([]float64(nil), x...), h.normal((rows-words)*width, 1)...)
	}
	of := device.Ints{View: h.placeInts(lengths, false), Host: bound, Bounded: true, Layout: &device.Layout{}}
	a := device.BiGRU{I: i, H: n, Lengths: of, X: h.in(behind(c[0].x, i)), Y: h.out(rows * n),
		Work: h.out(rows * n)}
	for k := range c {
		a.Directions[k] = device.GRUDirection{WIH: h.in(c[k].wih), WHH: h.in(c[k].whh), BIH: h.in(c[k].bih),
			BHH: h.in(c[k].bhh), Gates: h.out(rows * 4 * n), Prev: h.out(rows * n)}
	}
	h.run("BiGRU of bounded lengths", func() { device.Do(h.d, a) })
	mean := make([]float64, words*n)
	for k := range c {
		var y, prev []float64
		if !h.short {
			y, _, _, prev = c[k].forward()
		}
		for j, v := range y {
			mean[j] += v / 2
		}
		h.equal("BiGRU of bounded lengths: Prev", a.Directions[k].Prev,
			append(prev, make([]float64, rows*n-len(prev))...), h.tol.reduced)
		one := device.GRU{I: i, H: n, Lengths: of, Reverse: k == 1, X: a.X, Y: h.out(rows * n),
			GRUDirection: a.Directions[k]}
		h.run("GRU of bounded lengths", func() { device.Do(h.d, one) })
		h.equal("GRU of bounded lengths: Y", one.Y, append(y, make([]float64, rows*n-len(y))...), h.tol.reduced)
	}
	h.equal("BiGRU of bounded lengths: Y", a.Y, append(mean, make([]float64, (rows-words)*n)...), h.tol.reduced)
	h.release()
}

// testResident compares what reads a data set in memory of the device, and features that are streamed. Devices that
// keep none have nothing to compare.
func testResident(h *harness) {
	d, ok := device.As[device.Resident](h.d)
	if !ok {
		h.nothing()
		return
	}
	for _, half := range []bool{false, true} {
		for _, width := range []int{3, 8} {
			h.gather(d, half, width)
		}
		if s, ok := device.As[device.Streamer](h.d); ok {
			h.stage(s, half)
		}
	}
	h.gatherLists()
}

// halves are values that float16 holds.
func (h *harness) halves(n int) (x []float32, wide []float64) {
	x, wide = make([]float32, n), make([]float64, n)
	for i := range x {
		x[i] = float32(h.rng.IntN(2049)-1024) / 256
		wide[i] = float64(x[i])
	}
	return x, wide
}

func (h *harness) gather(d device.Resident, half bool, width int) {
	const rows = 7
	x, wide := h.halves(rows * width)
	table, err := d.NewTable(rows*width, half)
	if err != nil {
		h.t.Fatal(err)
	}
	defer d.FreeTable(table)
	d.Store(table, 0, x)
	index := []int32{6, 0, 3, 3}
	at, dst := h.inInts(index).View, h.out(6*width)
	h.run("Gather", func() { device.Do(h.d, device.Gather{Dst: dst, Table: table, Index: at, Width: width}) })
	want := make([]float64, 6*width)
	for k, r := range index {
		copy(want[k*width:][:width], wide[int(r)*width:])
	}
	h.equal("Gather", dst, want, 0)
	h.release()
}

func (h *harness) gatherLists() {
	const width = 3
	values, starts := h.inInts([]int32{5, 6, 7, 8, 9, 4, 3}).View, h.inInts([]int32{0, 2, 6, 7}).View
	index, dst := h.inInts([]int32{1, 2, 0}).View, h.outInts(3*width)
	h.run("GatherLists", func() {
		device.Do(h.d, device.GatherLists{Dst: dst, Values: values, Starts: starts, Index: index, Width: width})
	})
	h.equalInts("GatherLists", dst, []int32{7, 8, 9, 3, 0, 0, 5, 6, 0})
	h.release()
}

func (h *harness) stage(d device.Streamer, half bool) {
	const n = 37
	x, wide := h.halves(n)
	s, err := d.NewStage(n, half)
	if err != nil {
		h.t.Fatal(err)
	}
	defer d.FreeStage(s)
	if half {
		bits := make([]byte, 2*n)
		float16.Encode(bits, x)
		for i := range x {
			s.Halves()[i] = binary.LittleEndian.Uint16(bits[2*i:])
		}
	} else {
		copy(s.Floats(), x)
	}
	dst := h.out(n)
	h.run("StreamStage", func() { d.StreamStage(dst, s, n) })
	h.equal("StreamStage", dst, wide, 0)
	h.release()
}

// filtered compares a filtration and the similarities before it in one call with the same device's own kernels for
// each, whose conformance is that of testSimilarities and testFiltrate.
func (h *harness) filtered(s int) {
	const b, r, e = 3, 5, 16
	lengths := []int32{4, 2, 1}
	words, captions := 7, len(lengths)
	nodes := words + captions
	x := h.out(b * nodes * s)
	local := device.Similarities{B: b, R: r, E: e, S: s, Lengths: h.inInts(lengths), Images: h.in(h.normal(b*r*e, 1)),
		Weights: h.in(h.normal(words*b*r, 1)), Rows: h.in(h.normal(words*e, 1)), W: h.in(h.normal(s*e, 1)),
		Bias: h.in(h.normal(s, 1)), Nodes: x, Norms: h.out(b * words), Contexts: h.out(b * words),
		Filter: device.Filter{W: h.in(h.normal(s, 1)), Bias: h.in(h.normal(1, 1)), Logits: h.out(b * nodes)}}
	global := local
	global.Global, global.Images, global.Rows = true, h.in(h.normal(b*e, 1)), h.in(h.normal(captions*e, 1))
	global.Norms, global.W, global.Bias = h.out(b*captions), h.in(h.normal(s*e, 1)), h.in(h.normal(s, 1))
	a := device.Filtrate{B: b, S: s, Eps: 1e-5, Lengths: local.Lengths, X: x, Logits: local.Filter.Logits,
		Gamma: h.in([]float64{1.3}), Beta: h.in([]float64{-0.4}), RunningMean: h.in([]float64{0.3}),
		RunningVar: h.in([]float64{1.7}), Out: h.out(b * captions * s), Weights: h.out(b * nodes),
		Mean: h.out(captions), InvStd: h.out(captions), Norms: h.out(b * captions)}
	what := fmt.Sprintf("FiltrateSimilarities of %d values", s)
	h.run(what, func() { device.Do(h.d, device.FiltrateSimilarities{Words: local, Captions: global, Filtrate: a}) })
	got := h.read(a.Out)
	device.Do(h.d, local)
	device.Do(h.d, global)
	device.Do(h.d, a)
	h.equal(what, h.in(got), h.read(a.Out), h.tol.reduced)
	h.release()
}
