package devicetest

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
)

// testBits compares the sums of bits with those of what is read back, and updates with and without them bit by bit.
func testBits(h *harness) {
	for _, n := range []int{1, 3, 1024, 5000, 70_001} {
		adamBits(h, fmt.Sprintf("Adam of %d", n), n, device.Factored{})
	}
	for _, s := range [][3]int{{3, 5, 70}, {8, 33, 129}, {64, 24, 1000}, {8, 256, 512}} {
		f := device.Factored{N: s[0], O: s[1], I: s[2]}
		f.DY, f.X = h.in(h.normal(f.N*f.O, 1)), h.in(h.normal(f.N*f.I, 1))
		adamBits(h, fmt.Sprintf("AdamFactored of %v", s), f.O*f.I, f)
	}
	ints, sum := []int32{7, -9, math.MaxInt32, math.MaxInt32, 1}, h.placeInts([]int32{5}, true)
	h.run("SumBits", func() { device.Do(h.d, device.SumBits{Sum: sum, X: h.inInts(ints).View}) })
	h.equalInts("SumBits of int32", sum, []int32{5 + 7 - 9 - 2 + 1})
	h.release()
	d, ok := device.As[device.Resident](h.d)
	for _, half := range []bool{false, true} {
		for _, n := range []int{1, 2, 7, 3000} {
			if ok {
				tableBits(h, d, half, n)
			}
		}
	}
	if !ok {
		h.nothing()
	}
}

// adamBits does an update with sums and one without.
func adamBits(h *harness, what string, n int, f device.Factored) {
	a := device.Adam{P: h.inout(h.normal(n, 1)), M: h.inout(h.normal(n, 1)), V: h.inout(h.positive(n, 0, 1)),
		Hyper: h.in([]float64{0.01, 1.5, 0.99}), Clip: h.in([]float64{0.37}), Beta1: 0.9, Beta2: 0.99, Eps: 1e-8}
	b := a
	b.P, b.M, b.V = h.inout(h.read(a.P)), h.inout(h.read(a.M)), h.inout(h.read(a.V))
	b.Before, b.After = h.placeInts([]int32{11, 5}, true), h.placeInts([]int32{-12, 3}, true)
	if f.N == 0 {
		a.G = h.in(h.normal(n, 1))
		b.G = a.G
	}
	update := func(a device.Adam) {
		if f.N == 0 {
			device.Do(h.d, a)
		} else {
			device.Do(h.d, device.AdamFactored{Adam: a, Factored: f})
		}
	}
	before := bitsOf(h, &b)
	h.run(what, func() { update(a) })
	h.run(what+" with sums", func() { update(b) })
	h.equal(what+": P", b.P, h.read(a.P), 0)
	h.equal(what+": M", b.M, h.read(a.M), 0)
	h.equal(what+": V", b.V, h.read(a.V), 0)
	h.equalInts(what+": Before", b.Before, []int32{11 + before[0], 5 + before[1]})
	after := bitsOf(h, &b)
	h.equalInts(what+": After", b.After, []int32{-12 + after[0], 3 + after[1]})
	h.release()
}

// bitsOf are the sums of Adam, on the host.
func bitsOf(h *harness, a *device.Adam) [2]int32 {
	var of [3]uint32
	for i, v := range []device.View{a.P, a.M, a.V} {
		for _, x := range h.read(v) {
			w := math.Float32bits(float32(x))
			if h.d.Wide() {
				b := math.Float64bits(x)
				w = uint32(b) + uint32(b>>32)
			}
			of[i] += w
		}
	}
	return [2]int32{int32(of[0] + of[1]), int32(of[1] + of[2])}
}

// tableBits adds a table in two pieces.
func tableBits(h *harness, d device.Resident, half bool, n int) {
	x, _ := halves(h, n)
	table, err := d.NewTable(n, half)
	if err != nil {
		h.t.Fatal(err)
	}
	defer d.FreeTable(table)
	d.Store(table, 0, x)
	var want uint32
	for i, v := range x {
		if half {
			want += uint32(halfOf(v)) << (16 * (i % 2))
		} else {
			want += math.Float32bits(v)
		}
	}
	sum, middle := h.placeInts([]int32{0}, true), table.Bytes()/2/4*4
	h.run("SumTable", func() {
		device.Do(h.d, device.SumTable{Sum: sum, Table: table, To: middle})
		device.Do(h.d, device.SumTable{Sum: sum, Table: table, From: middle, To: table.Bytes()})
	})
	h.equalInts(fmt.Sprintf("SumTable of %d, half %v", n, half), sum, []int32{int32(want)})
	h.release()
}

// halfOf are the bits of float16 of a multiple of 1/256 of a few bits, which float16 holds.
func halfOf(v float32) uint16 {
	b := math.Float32bits(v)
	if v == 0 {
		return 0
	}
	return uint16(b>>31)<<15 | uint16(b>>23&255-112)<<10 | uint16(b>>13&1023)
}
