package main

import "fmt"

// kernels writes every kernel. Operands are in the order of Go assembly: sources first, destination last.
func kernels(a *assembler) {
	elementwise(a)
	fetch(a)
	squareDiff(a)
	rank(a)
	picks(a)
	allZero(a)
	reductions(a)
	shortReductions(a)
	functions(a)
	gelu(a)
	drop(a)
	norms(a)
	softmaxes(a)
	products(a)
	adam(a)
	gru(a)
}

func elementwise(a *assembler) {
	a.kernel(kernel{name: "fill", slices: []string{"dst"}, scalars: []string{"value"}, first: 0, unroll: 4,
		body: func(a *assembler, p []string) { a.store(0, p[0]) }})
	two := func(name, op string) {
		a.kernel(kernel{name: name, slices: []string{"dst", "a", "b"}, unroll: 4, body: func(a *assembler, p []string) {
			a.load(p[1], 0)
			a.load(p[2], 1)
			a.op(op, 1, 0, 0)
			a.store(0, p[0])
		}})
	}
	two("add", "VADDPS")
	two("mul", "VMULPS")
	a.kernel(kernel{name: "scale", slices: []string{"dst", "x"}, scalars: []string{"s"}, first: 2, unroll: 4,
		body: func(a *assembler, p []string) {
			a.load(p[1], 0)
			a.op("VMULPS", 2, 0, 0)
			a.store(0, p[0])
		}})
	a.kernel(kernel{name: "sum2", slices: []string{"dst", "x", "y"}, scalars: []string{"a", "b"}, first: 2, unroll: 2,
		body: func(a *assembler, p []string) {
			a.load(p[1], 0)
			a.load(p[2], 1)
			a.op("VMULPS", 2, 0, 0)
			a.op("VFMADD231PS", 3, 1, 0)
			a.store(0, p[0])
		}})
	a.kernel(kernel{name: "axpy", slices: []string{"dst", "x"}, scalars: []string{"a"}, first: 2, unroll: 4,
		body: func(a *assembler, p []string) {
			a.load(p[0], 0)
			a.load(p[1], 1)
			a.op("VFMADD231PS", 2, 1, 0)
			a.store(0, p[0])
		}})
	a.kernel(kernel{name: "madd", slices: []string{"dst", "a", "b"}, unroll: 2, body: func(a *assembler, p []string) {
		a.load(p[0], 0)
		a.load(p[1], 1)
		a.load(p[2], 2)
		a.op("VFMADD231PS", 2, 1, 0)
		a.store(0, p[0])
	}})
	a.kernel(kernel{name: "hinge", slices: []string{"dst", "c", "x"}, scalars: []string{"a"}, first: 3, unroll: 2,
		start: func(a *assembler) { a.zero(4) },
		body: func(a *assembler, p []string) {
			a.load(p[0], 0)
			a.load(p[1], 1)
			a.load(p[2], 2)
			a.op("VSUBPS", 2, 1, 1)
			a.op("VMAXPS", 1, 4, 1) // NaN stays
			a.op("VFMADD231PS", 3, 1, 0)
			a.store(0, p[0])
		}})
}

// fetch asks for the cache lines of x.
func fetch(a *assembler) {
	a.kernel(kernel{name: "fetch", slices: []string{"x"}, unroll: 4, body: func(a *assembler, p []string) {
		if a.neon {
			a.moves(p[0])
			a.ins("PRFM %d(%s), PLDL2KEEP", a.shift, a.r(p[0]))
			return
		}
		a.ins("PREFETCHT1 %d(%s)(AX*1)", a.shift, p[0])
	}})
}

// squareDiff computes (s·u - c)².
func squareDiff(a *assembler) {
	a.kernel(kernel{name: "squareDiff", slices: []string{"z", "u", "c"}, scalars: []string{"s"}, first: 2, unroll: 4,
		body: func(a *assembler, p []string) {
			a.load(p[1], 0)
			a.load(p[2], 1)
			a.op("VFMSUB231PS", 2, 0, 1) // s·u - c
			a.op("VMULPS", 1, 1, 1)
			a.store(1, p[0])
		}})
}

// rank counts with register 5 holding integer ones; the last two slices hold int32.
func rank(a *assembler) {
	a.kernel(kernel{name: "rank", slices: []string{"x", "y", "rx", "ry"}, unroll: 2,
		start: func(a *assembler) { a.set(1, 5) },
		body: func(a *assembler, p []string) {
			for i := range 4 {
				a.load(p[i], i)
			}
			if a.masks {
				a.ins("VCMPPS $30, Z0, Z1, K2") // y greater than x, quiet
				a.ins("KNOTW K2, K3")
				a.ins("VPADDD Z5, Z2, K2, Z2")
				a.ins("VPADDD Z5, Z3, K3, Z3")
			} else {
				if a.neon {
					a.insNeon("FCMGT", 4, 1, 0) // -1 or 0
				} else {
					a.ins("VCMPPS $30, Y0, Y1, Y4") // -1 or 0
				}
				a.op("VPSUBD", 4, 2, 2)
				a.op("VPADDD", 5, 3, 3)
				a.op("VPADDD", 4, 3, 3)
			}
			a.store(2, p[2])
			a.store(3, p[3])
		}})
}

// picks write dst = table[index]∘x and dst += table[index]∘x; the index is int32, taken for last where it is beyond it.
func picks(a *assembler) {
	for _, add := range []bool{false, true} {
		name := "pickMul"
		if add {
			name = "pickMAdd"
		}
		a.kernel(kernel{name: name, slices: []string{"dst", "table", "index", "x"}, scalars: []string{"last"}, first: 4,
			unroll: 2,
			body: func(a *assembler, p []string) {
				a.load(p[2], 0)
				a.op("VPMINUD", 4, 0, 0)
				a.gather(p[1])
				a.load(p[3], 3)
				if add {
					a.load(p[0], 5)
					a.op("VFMADD213PS", 5, 3, 1)
				} else {
					a.op("VMULPS", 3, 1, 1)
				}
				a.store(1, p[0])
			}})
	}
}

// gather puts the values of a table at the indices in register 0 into register 1; register 2 is scratch.
func (a *assembler) gather(table string) {
	a.zero(1)
	if a.neon {
		lanes := a.lanes
		if a.partial {
			lanes = 1
		}
		for i := range lanes {
			a.ins("VMOV V0.S[%d], %s", i, leftNeon)
			a.ins("ADD %s<<2, %s, %s", leftNeon, a.r(table), scratchNeon)
			a.ins("VLD1 (%s), V1.S[%d]", scratchNeon, i)
		}
		return
	}
	switch {
	case !a.masks && a.partial:
		a.ins("VMOVAPS Y15, Y2")
	case !a.masks:
		a.op("VPCMPEQD", 2, 2, 2)
	case a.partial:
		a.ins("KMOVW K1, K2")
	default:
		a.ins("KXNORW K2, K2, K2")
	}
	if a.masks {
		a.ins("VGATHERDPS (%s)(Z0*4), K2, Z1", table)
	} else {
		a.ins("VGATHERDPS Y2, (%s)(Y0*4), Y1", table)
	}
}

// allZero returns 0 if every element is 0 or -0, otherwise 1, having read no further than the turn that shows it. The
// bits of all elements meet in register 0.
func allZero(a *assembler) {
	const turns, magnitude = 4, word(0x7fffffff) // all but the sign
	test := func(a *assembler) {
		if a.neon {
			a.set(magnitude, constantReg)
			a.insNeon("AND", scratchReg, 0, constantReg)
			a.insNeon("UMAXV", scratchReg, scratchReg)
			a.ins("VMOV V%d.S[0], R15", scratchReg)
		} else if a.masks {
			a.ins("VPTESTMD.BCST %s, Z0, K2", a.constant(magnitude))
			a.ins("KORTESTW K2, K2")
		} else {
			a.ins("VPTEST %s, Y0", a.constant(magnitude))
		}
	}
	a.kernel(kernel{name: "allZero", slices: []string{"x"}, result: true, unroll: turns,
		start: func(a *assembler) { a.zero(0) },
		body: func(a *assembler, p []string) {
			a.load(p[0], 1)
			a.op("VORPS", 1, 0, 0)
			if a.shift == (turns-1)*4*a.lanes {
				test(a)
				if a.neon {
					a.ins("CBNZ R15, done")
				} else {
					a.ins("JNZ done")
				}
			}
		},
		finish: func(a *assembler) {
			test(a)
			if a.neon {
				a.ins("CMP $0, R15\n\tCSET NE, R15\n\tSCVTFWD R15, F0")
				return
			}
			a.ins("SETNE R15")
			a.ins("MOVBLZX R15, R15")
			a.ins("VCVTSI2SDL R15, X0, X0")
		}})
}

// reductions accumulate both halves of every vector in float64, in registers 8 and up, two for each unrolled vector.
// Streams from memory are prefetched beyond the 4096 bytes at which the processor's own prefetching ends; distance and
// level of sumsq and adam were measured.
func reductions(a *assembler) {
	const turns = 3
	type factors func(a *assembler, p []string)
	reduce := func(name string, slices []string, ahead int, first factors) {
		a.kernel(kernel{name: name, slices: slices, result: true, unroll: turns, ahead: ahead, level: "PREFETCHT1",
			start: func(a *assembler) {
				a.zero(7)
				for r := range 2 * turns {
					a.zero(8 + r)
				}
			},
			body: func(a *assembler, p []string) {
				// Leaves the two factors of every product in registers 0 and 1 (or one in 0).
				first(a, p)
				sum := 8 + 2*(a.shift/(4*a.lanes))
				other := 0
				if name == "dot" {
					other = 1
				}
				a.halves(0, 2, 3)
				if other == 0 {
					a.op("VFMADD231PD", 2, 2, sum)
					a.op("VFMADD231PD", 3, 3, sum+1)
					return
				}
				a.halves(1, 4, 5)
				a.op("VFMADD231PD", 4, 2, sum)
				a.op("VFMADD231PD", 5, 3, sum+1)
			},
			finish: func(a *assembler) {
				for r := 1; r < 2*turns; r++ {
					a.op("VADDPD", 8+r, 8, 8)
				}
				if a.neon {
					a.insNeon("FADDP.2D", 0, 8)
					return
				}
				if a.masks {
					a.ins("VEXTRACTF64X4 $1, Z8, Y0")
					a.ins("VADDPD Y0, Y8, Y8")
				}
				a.ins("VEXTRACTF128 $1, Y8, X0")
				a.ins("VADDPD X0, X8, X8")
				a.ins("VPERMILPD $1, X8, X0")
				a.ins("VADDSD X0, X8, X0")
			}})
	}
	reduce("sumsq", []string{"x"}, 8192, func(a *assembler, p []string) { a.load(p[0], 0) })
	reduce("dot", []string{"x", "y"}, 0, func(a *assembler, p []string) {
		a.load(p[0], 0)
		a.load(p[1], 1)
	})
	reduce("order", []string{"c", "x"}, 0, func(a *assembler, p []string) {
		a.load(p[0], 0)
		a.load(p[1], 1)
		a.op("VSUBPS", 1, 0, 0)
		a.op("VMAXPS", 0, 7, 0)
	})
}

// shortReductions accumulate in float32, in registers 8 and up, one for each unrolled vector.
func shortReductions(a *assembler) {
	const turns = 4
	reduce := func(name string, slices, scalars []string, factors func(a *assembler, p []string)) {
		a.kernel(kernel{name: name, slices: slices, scalars: scalars, first: 6, result: true, unroll: turns,
			start: func(a *assembler) {
				if len(scalars) > 0 {
					a.set(lane(-2), 7)
				}
				for r := range turns {
					a.zero(8 + r)
				}
			},
			body: func(a *assembler, p []string) {
				factors(a, p) // in registers 0 and 1
				a.op("VFMADD231PS", 0, 1, 8+a.shift/(4*a.lanes))
			},
			finish: func(a *assembler) {
				a.op("VADDPS", 9, 8, 8)
				a.op("VADDPS", 11, 10, 10)
				a.op("VADDPS", 10, 8, 8)
				a.lanesTotal(8)
				a.widen(8)
			}})
	}
	reduce("squares", []string{"x"}, nil, func(a *assembler, p []string) {
		a.load(p[0], 0)
		a.op("VMOVAPS", 0, 1)
	})
	reduce("squareDiffGrad", []string{"out", "dz", "u", "c", "dc"}, []string{"s"}, func(a *assembler, p []string) {
		a.load(p[2], 0)
		a.load(p[3], 2)
		a.op("VFMSUB231PS", 6, 0, 2) // s·u - c
		a.load(p[1], 1)
		a.op("VMULPS", 2, 1, 1)
		a.store(1, p[0])
		a.load(p[4], 3)
		a.op("VFMADD231PS", 7, 1, 3)
		a.store(3, p[4])
	})
}

// halves widens the lower and upper half of a register to float64.
func (a *assembler) halves(from, low, high int) {
	if a.neon {
		a.insNeon("FCVTL", low, from)
		a.insNeon("FCVTL2", high, from)
		return
	}
	if a.masks {
		a.ins("VEXTRACTF32X8 $1, Z%d, Y%d", from, high)
		a.ins("VCVTPS2PD Y%d, Z%d", from, low)
		a.ins("VCVTPS2PD Y%d, Z%d", high, high)
		return
	}
	a.ins("VEXTRACTF128 $1, Y%d, X%d", from, high)
	a.ins("VCVTPS2PD X%d, Y%d", from, low)
	a.ins("VCVTPS2PD X%d, Y%d", high, high)
}

// adam keeps its nine constants in registers 0-8, in the order of AdamScalars:
// Clip, B1, C1, B2, C2, Step, Inv, Eps, Decay.
func adam(a *assembler) {
	const clip, b1, c1, b2, c2, step, inv, eps, decay = 0, 1, 2, 3, 4, 5, 6, 7, 8
	const g, m, v, p = 9, 10, 11, 12
	a.kernel(kernel{name: "adam", slices: []string{"p", "grad", "m", "v", "s"}, ahead: 2048, level: "PREFETCHT0",
		start: func(a *assembler) {
			for i := range 9 {
				a.broadcast(fmt.Sprintf("%d(R8)", 4*i), i)
			}
		},
		body: func(a *assembler, ptr []string) {
			a.load(ptr[1], g)
			a.load(ptr[2], m)
			a.load(ptr[3], v)
			a.load(ptr[0], p)
			a.op("VMULPS", clip, g, g)
			a.op("VMULPS", b1, m, m)
			a.op("VFMADD231PS", c1, g, m)
			a.op("VMULPS", g, g, g)
			a.op("VMULPS", b2, v, v)
			a.op("VFMADD231PS", c2, g, v)
			a.store(m, ptr[2])
			a.store(v, ptr[3])
			a.op("VSQRTPS", v, v)
			a.op("VFMADD213PS", eps, inv, v) // √v·Inv + Eps
			a.op("VMULPS", step, m, m)
			a.op("VDIVPS", v, m, m)
			a.op("VFMSUB213PS", m, decay, p) // Decay·p - ...
			a.store(p, ptr[0])
		}})
}
