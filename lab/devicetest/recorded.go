package devicetest

import (
	"encoding/binary"
	"math"

	"vsetrain/internal/compute/device"
	float16 "vsetrain/internal/files/half"
)

// testRecorded tests what recorded steps need: the guard of an update, and on devices that record also fetches and GRUs
// with bounded lengths.
func testRecorded(h *harness) {
	guards(h)
	d, ok := device.As[device.Recorder](h.d)
	if !ok {
		return
	}
	fetches(h, d)
	for _, s := range [][2]int{{5, 4}, {3, 40}} {
		boundedGRU(h, s[0], s[1])
	}
}

// nothing is the result of a family that a device does not have.
func (h *harness) nothing() {
	if h.record != nil {
		*h.record = append(*h.record, 0)
	}
}

func guards(h *harness) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range [][]float64{{0.5, 2, -1, 3}, {0.5, nan, 1, 3}, {0.5, inf, 1, 3}, {0.5, 2, nan, 3},
		{0.5, 2, inf, 3}, {0.5, 2, 1, -inf}, {0.5, 2, 1}, {nan, 2, 1, 3}} {
		a := device.Guard{Coefficient: h.inout(c[:1]), Norm: h.in(c[1:2]), Losses: make([]device.View, 2)}
		for i, v := range c[2:] {
			a.Losses[i] = h.in([]float64{v})
		}
		h.check("Guard", &a, nil)
		h.release()
	}
}

// fetches uploads values without a kernel in between, and fetches them in another order.
func fetches(h *harness, d device.Recorder) {
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

// boundedGRU runs both directions on captions that are shorter than the host knows. Rows after the words are 0.
func boundedGRU(h *harness, i, n int) {
	lengths, bound, rows := []int32{3, 2, 1}, []int32{4, 3, 3}, 10
	_, exact := bigru(h, i, n, lengths, false)
	a := exact
	a.Lengths = device.Ints{View: h.placeInts(lengths, false), Host: bound, Bounded: true, Layout: &device.Layout{}}
	a.X = h.in(append(h.read(exact.X), h.normal((rows-device.Total(lengths))*i, 1)...)) // finite values after the words
	h.defined(&exact)
	equal := func(what string, v, want device.View) {
		h.equal(what+" of bounded lengths", v, append(h.want(want)[:device.Total(lengths)*n],
			make([]float64, (rows-device.Total(lengths))*n)...), h.tol.reduced)
	}
	h.outputs(&a)
	h.run("BiGRU of bounded lengths", func() { device.Do(h.d, a) })
	equal("BiGRU: Y", a.Y, exact.Y)
	for k := range a.Directions {
		equal("BiGRU: Prev", a.Directions[k].Prev, exact.Directions[k].Prev)
		alone := device.GRU{I: i, H: n, Lengths: exact.Lengths, Reverse: k == 1, X: exact.X,
			GRUDirection: exact.Directions[k]}
		one := device.GRU{I: i, H: n, Lengths: a.Lengths, Reverse: k == 1, X: a.X, GRUDirection: a.Directions[k]}
		h.defined(&alone)
		h.outputs(&one)
		h.run("GRU of bounded lengths", func() { device.Do(h.d, one) })
		equal("GRU: Y", one.Y, alone.Y)
	}
	h.release()
}

// testResident tests resident data sets and streamed features, on devices that have them.
func testResident(h *harness) {
	d, ok := device.As[device.Resident](h.d)
	if !ok {
		h.nothing()
		return
	}
	defer func(guard int) { h.guard = guard }(h.guard)
	for _, half := range []bool{false, true} {
		for _, width := range []int{1, 3, 4, 8} {
			for _, more := range []int{5, 8} { // values after the rows: not whole fours, and whole ones
				for _, h.guard = range []int{unaligned, aligned} {
					gather(h, d, half, width, more)
				}
			}
		}
		if s, ok := device.As[device.Streamer](h.d); ok {
			stage(h, s, half)
		}
	}
	gatherLists(h)
}

// halves are values that float16 holds.
func halves(h *harness, n int) (x []float32, wide []float64) {
	x, wide = make([]float32, n), make([]float64, n)
	for i := range x {
		x[i] = float32(h.rng.IntN(2049)-1024) / 256
		wide[i] = float64(x[i])
	}
	return x, wide
}

func gather(h *harness, d device.Resident, half bool, width, more int) {
	const rows = 7
	x, wide := halves(h, rows*width)
	table, err := d.NewTable(rows*width, half)
	if err != nil {
		h.t.Fatal(err)
	}
	defer d.FreeTable(table)
	d.Store(table, 0, x)
	index := []int32{6, 0, 3, 3}
	at, dst := h.inInts(index).View, h.out(4*width+more)
	h.run("Gather", func() { device.Do(h.d, device.Gather{Dst: dst, Table: table, Index: at, Width: width}) })
	want := make([]float64, dst.N)
	for k, r := range index {
		copy(want[k*width:][:width], wide[int(r)*width:])
	}
	h.equal("Gather", dst, want, 0)
	h.release()
}

func gatherLists(h *harness) {
	for _, want := range [][]int32{{41, 11, 0, 21, 21}, {41, 42, 11, 0, 0, 0, 21, 22, 21, 22},
		{41, 42, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 21, 22, 23, 0, 21, 22, 23, 0}} { // cut, or followed by zeros
		a := device.GatherLists{Values: h.inInts([]int32{11, 21, 22, 23, 41, 42}).View, Dst: h.outInts(len(want)),
			Starts: h.inInts([]int32{0, 1, 4, 4, 6}).View, Index: h.inInts([]int32{3, 0, 2, 1, 1}).View,
			Width: len(want) / 5}
		h.run("GatherLists", func() { device.Do(h.d, a) })
		h.equalInts("GatherLists", a.Dst, want)
		h.release()
	}
}

func stage(h *harness, d device.Streamer, half bool) {
	const n = 37
	x, wide := halves(h, n)
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
