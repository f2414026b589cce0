package main

import "fmt"

// norms writes the passes of layer norm over a row; the formulas stand in norm.go of internal/compute/vec. Sums are in
// registers 8 and up, one for each unrolled vector, scalars in 4 and up.
func norms(a *assembler) {
	const turns = 4
	sum := func(name string, slices, scalars []string, add func(a *assembler, p []string, sum int)) {
		a.kernel(kernel{name: name, slices: slices, scalars: scalars, first: 4, result: true, unroll: turns,
			start: func(a *assembler) {
				for r := range turns {
					a.zero(8 + r)
				}
			},
			body:   func(a *assembler, p []string) { add(a, p, 8+a.shift/(4*a.lanes)) },
			finish: func(a *assembler) { a.total(8, turns); a.widen(8) }})
	}
	sum("sum", []string{"x"}, nil, func(a *assembler, p []string, sum int) {
		a.load(p[0], 0)
		a.op("VADDPS", 0, sum, sum)
	})
	sum("sumDropped", []string{"y", "a", "x", "words"}, []string{"limit", "factor"},
		func(a *assembler, p []string, sum int) {
			a.load(p[2], 0)
			a.load(p[3], 1)
			a.load(p[1], 3)
			a.dropped(0, 1, 2)
			a.op("VADDPS", 3, 0, 0)
			a.store(0, p[0])
			a.op("VADDPS", 0, sum, sum)
		})
	sum("spread", []string{"x"}, []string{"centre"}, func(a *assembler, p []string, sum int) {
		a.load(p[0], 0)
		a.op("VSUBPS", 4, 0, 0)
		if a.partial {
			a.keepLanes(0)
		}
		a.op("VFMADD231PS", 0, 0, sum)
	})
	a.kernel(kernel{name: "norm", slices: []string{"y", "x", "w", "b"}, scalars: []string{"scale", "shift"}, first: 4,
		unroll: 2,
		body: func(a *assembler, p []string) {
			a.load(p[1], 0)
			a.load(p[2], 1)
			a.load(p[3], 2)
			a.op("VFMADD213PS", 5, 4, 0) // x̂
			a.op("VFMADD213PS", 2, 1, 0)
			a.store(0, p[0])
		}})
	a.kernel(kernel{name: "normSums", slices: []string{"x", "dy", "w", "dw", "db", "sums"},
		scalars: []string{"scale", "shift"}, first: 4, unroll: 2,
		start: func(a *assembler) {
			for r := range 4 {
				a.zero(8 + r)
			}
		},
		body: func(a *assembler, p []string) {
			at := 8 + a.shift/(4*a.lanes)
			a.load(p[0], 0)
			a.load(p[1], 1)
			a.op("VFMADD213PS", 5, 4, 0) // x̂
			a.load(p[4], 2)
			a.op("VADDPS", 1, 2, 2)
			a.store(2, p[4])
			a.load(p[3], 2)
			a.op("VFMADD231PS", 0, 1, 2)
			a.store(2, p[3])
			a.load(p[2], 2)
			a.op("VMULPS", 2, 1, 1) // g, 0 beyond the row
			a.op("VADDPS", 1, at, at)
			a.op("VFMADD231PS", 0, 1, at+2)
		},
		finish: func(a *assembler) {
			a.total(8, 2)
			a.total(10, 2)
			a.storeLane(8, "R9", 0)
			a.storeLane(10, "R9", 4)
		}})
	a.kernel(kernel{name: "normGrad", slices: []string{"dx", "x", "dy", "w"}, scalars: []string{"a", "b", "c"},
		first: 4, unroll: 2,
		body: func(a *assembler, p []string) {
			a.load(p[1], 0)
			a.load(p[2], 1)
			a.load(p[3], 2)
			a.op("VFMADD213PS", 6, 5, 0) // b·x + c
			a.op("VMULPS", 4, 1, 1)
			a.op("VFMADD231PS", 1, 2, 0)
			a.store(0, p[0])
		}})
}

// total adds count registers from reg on, a power of two, and their lanes into lane 0 of the first.
func (a *assembler) total(reg, count int) {
	for ; count > 1; count /= 2 {
		for r := range count / 2 {
			a.op("VADDPS", reg+count/2+r, reg+r, reg+r)
		}
	}
	a.lanesTotal(reg)
}

// lanesTotal adds the lanes of a register into its lane 0.
func (a *assembler) lanesTotal(reg int) {
	if a.neon {
		a.insNeon("FADDP", reg, reg, reg)
		a.insNeon("FADDP", reg, reg, reg)
		return
	}
	if a.masks {
		a.ins("VEXTRACTF64X4 $1, Z%d, Y0", reg)
		a.ins("VADDPS Y0, Y%d, Y%d", reg, reg)
	}
	a.ins("VEXTRACTF128 $1, Y%d, X0", reg)
	a.ins("VADDPS X0, X%d, X%d", reg, reg)
	a.ins("VHADDPS X%d, X%d, X%d", reg, reg, reg)
	a.ins("VHADDPS X%d, X%d, X%d", reg, reg, reg)
}

// widen converts lane 0 of a register to the float64 that a kernel returns.
func (a *assembler) widen(reg int) {
	if a.neon {
		a.ins("FCVTSD F%d, F0", reg)
		return
	}
	a.ins("VCVTSS2SD X%d, X%[1]d, X0", reg)
}

// storeLane stores lane 0 of a register at an offset from a pointer.
func (a *assembler) storeLane(reg int, pointer string, offset int) {
	at := ""
	if offset != 0 {
		at = fmt.Sprint(offset)
	}
	if a.neon {
		a.ins("FMOVS F%d, %s(%s)", reg, at, a.r(pointer))
		return
	}
	a.ins("VMOVSS X%d, %s(%s)", reg, at, pointer)
}
