package main

// The polynomials of functions.go in internal/compute/vec, one vector at a time, with NaN kept throughout: in VMINPS
// and VMAXPS the first operand (of Go) wins where one is not a number.

const (
	expLow, expHigh = 13, 14 // registers that hold the limits of the exponential
	signBit         = word(0x80000000)
	absBits         = word(0x7fffffff)
)

func limits(a *assembler) {
	a.set(lane(-87.3), expLow)
	a.set(lane(88.3), expHigh)
}

// exp replaces x by e^x; t and k are scratch.
func (a *assembler) exp(x, t, k int) {
	a.op("VMINPS", x, expHigh, x)
	a.op("VMAXPS", x, expLow, x)
	a.op("VMULPS", lane(1.44269504088896341), x, t)
	a.op("VCVTPS2DQ", t, k) // rounds to nearest even
	a.op("VCVTDQ2PS", k, t)
	a.op("VFNMADD231PS", lane(0.693359375), t, x)
	a.op("VFNMADD231PS", lane(-2.12194440e-4), t, x)
	a.polynomial(x, t, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
		5.0000001201e-1)
	a.op("VMULPS", x, t, t)       // r·p
	a.op("VFMADD213PS", x, x, t)  // r²·p + r
	a.op("VADDPS", lane(1), t, x) // e^r
	a.op("VPSLLD", "$23", k, k)   // k in the place of the exponent
	a.op("VPADDD", k, x, x)       // 2^k·e^r
}

// polynomial evaluates coefficients, highest first, at x into t.
func (a *assembler) polynomial(x, t int, coefficients ...float64) {
	if a.neon {
		a.polynomialNeon(x, t, coefficients)
		return
	}
	a.set(lane(coefficients[0]), t)
	for _, c := range coefficients[1:] {
		a.op("VFMADD213PS", lane(c), x, t)
	}
}

// sigmoid replaces x by 1/(1 + e^-x).
func (a *assembler) sigmoid(x, t, k int) {
	a.op("VXORPS", signBit, x, x)
	a.exp(x, t, k)
	a.op("VADDPS", lane(1), x, x)
	a.set(lane(1), t)
	a.op("VDIVPS", x, t, x)
}

// tanh replaces x by tanh x: an odd polynomial below 0.625, 1 - 2/(e^2|x| + 1) above.
func (a *assembler) tanh(x, y, s, t, k int) {
	a.op("VANDPS", absBits, x, y)
	a.op("VADDPS", y, y, y)
	a.exp(y, t, k)
	a.op("VADDPS", lane(1), y, y)
	a.set(lane(2), t)
	a.op("VDIVPS", y, t, y)
	a.set(lane(1), t)
	a.op("VSUBPS", y, t, y)
	a.op("VANDPS", signBit, x, t)
	a.op("VORPS", t, y, y)
	a.op("VMULPS", x, x, s)
	a.polynomial(s, t, -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
	a.op("VMULPS", s, t, t)
	a.op("VFMADD213PS", x, x, t) // x·(s·p) + x
	a.op("VANDPS", absBits, x, x)
	if a.neon {
		a.set(lane(0.625), s)
		a.insNeon("FCMGT", s, s, x)
		a.insNeon("BSL", s, t, y)
		a.op("VMOVAPS", s, x)
		return
	}
	if a.masks {
		a.ins("VCMPPS.BCST $17, %s, %s, K2", a.constant(lane(0.625)), a.v(x))
		a.ins("VBLENDMPS %s, %s, K2, %s", a.v(t), a.v(y), a.v(x))
		return
	}
	a.ins("VCMPPS $17, %s, %s, %s", a.constant(lane(0.625)), a.v(x), a.v(x))
	a.ins("VBLENDVPS %s, %s, %s, %s", a.v(x), a.v(t), a.v(y), a.v(x))
}

func functions(a *assembler) {
	one := func(name string, start func(a *assembler), f func(a *assembler)) {
		a.kernel(kernel{name: name, slices: []string{"y", "x"}, start: start, unroll: 1,
			body: func(a *assembler, p []string) {
				a.load(p[1], 0)
				f(a)
				a.store(0, p[0])
			}})
	}
	one("relu", func(a *assembler) { a.zero(1) }, func(a *assembler) { a.op("VMAXPS", 0, 1, 0) })
	one("abs", nil, func(a *assembler) { a.op("VANDPS", absBits, 0, 0) })
	one("exp", limits, func(a *assembler) { a.exp(0, 1, 2) })
	one("sigmoid", limits, func(a *assembler) { a.sigmoid(0, 1, 2) })
	one("tanh", limits, func(a *assembler) { a.tanh(0, 1, 2, 3, 4) })

	slope := func(name string, f func(a *assembler)) { // of in 0, dy in 1, result in 1
		a.kernel(kernel{name: name, slices: []string{"d", "of", "dy"}, unroll: 2,
			start: func(a *assembler) {
				a.zero(4)
				a.set(lane(1), 5)
			},
			body: func(a *assembler, p []string) {
				a.load(p[1], 0)
				a.load(p[2], 1)
				f(a)
				a.store(1, p[0])
			}})
	}
	slope("reluSlope", func(a *assembler) { a.keepPositive(0, 1, 2, 1) })
	slope("absSlope", func(a *assembler) {
		a.op("VSUBPS", 1, 4, 3) // -dy
		a.keepPositive(0, 1, 2, 1)
		a.op("VSUBPS", 0, 4, 0) // -x
		a.keepPositive(0, 3, 2, 3)
		a.op("VORPS", 3, 1, 1) // at most one of the two is not 0
	})
	slope("tanhSlope", func(a *assembler) {
		a.op("VFNMADD213PS", 5, 0, 0) // 1 - y²
		a.op("VMULPS", 0, 1, 1)
	})
	slope("sigmoidSlope", func(a *assembler) {
		a.op("VSUBPS", 0, 5, 2)
		a.op("VMULPS", 0, 2, 2)
		a.op("VMULPS", 2, 1, 1)
	})
}

// keepPositive sets out to y where x > 0 and to 0 elsewhere; t is scratch, register 4 zero.
func (a *assembler) keepPositive(x, y, t, out int) {
	if a.neon {
		a.insNeon("FCMGT", t, x, 4)
		a.insNeon("AND", out, t, y)
		return
	}
	if a.masks {
		a.ins("VCMPPS $30, %s, %s, K2", a.v(4), a.v(x)) // greater than, quiet
		a.ins("VMOVAPS.Z %s, K2, %s", a.v(y), a.v(out))
		return
	}
	a.ins("VCMPPS $30, %s, %s, %s", a.v(4), a.v(x), a.v(t))
	a.op("VANDPS", y, t, out)
}

// gru writes one row of a GRU step and its gradient; the formulas stand in gru.go of internal/compute/vec.
func gru(a *assembler) {
	a.kernel(kernel{name: "gruCell", slices: []string{"gr", "gz", "gn", "gc", "hr", "hz", "hn", "h", "y", "prev"},
		start: limits,
		body: func(a *assembler, p []string) {
			const r, z, n, c, h, t1, t2, t3, t4 = 0, 1, 2, 3, 4, 5, 6, 7, 8
			a.load(p[0], r)
			a.load(p[4], t1)
			a.op("VADDPS", t1, r, r)
			a.sigmoid(r, t1, t2)
			a.store(r, p[0])
			a.load(p[1], z)
			a.load(p[5], t1)
			a.op("VADDPS", t1, z, z)
			a.sigmoid(z, t1, t2)
			a.store(z, p[1])
			a.load(p[2], n)
			a.load(p[6], c)
			a.store(c, p[3])
			a.op("VFMADD231PS", c, r, n)
			a.tanh(n, t1, t2, t3, t4)
			a.store(n, p[2])
			a.load(p[7], h)
			a.store(h, p[9])
			a.op("VSUBPS", n, h, h)
			a.op("VFMADD213PS", n, z, h) // n + z·(h - n)
			a.store(h, p[8])
		}})
	a.kernel(kernel{name: "gruCellGrad", slices: []string{"g0", "g1", "g2", "g3", "h", "dy", "dh"},
		start: func(a *assembler) { a.set(lane(1), 12) },
		body: func(a *assembler, p []string) {
			const r, z, n, c, h, d, dn, u, w, one = 0, 1, 2, 3, 4, 5, 6, 7, 8, 12
			a.load(p[0], r)
			a.load(p[1], z)
			a.load(p[2], n)
			a.load(p[3], c)
			a.load(p[4], h)
			a.load(p[5], u)
			a.load(p[6], d)
			a.op("VADDPS", u, d, d)
			a.op("VMULPS", z, d, u)
			a.store(u, p[6]) // d·z
			a.op("VSUBPS", n, h, h)
			a.op("VMULPS", h, d, h) // d·(h - n)
			a.op("VSUBPS", z, one, w)
			a.op("VMULPS", w, d, dn) // d·(1 - z)
			a.op("VMULPS", w, z, w)
			a.op("VMULPS", w, h, h)
			a.store(h, p[2])
			a.op("VFNMADD213PS", one, n, n) // 1 - n²
			a.op("VMULPS", n, dn, dn)
			a.store(dn, p[0])
			a.op("VMULPS", r, dn, u)
			a.store(u, p[3])
			a.op("VMULPS", c, u, u) // dn·r·c
			a.op("VSUBPS", r, one, r)
			a.op("VMULPS", r, u, u)
			a.store(u, p[1])
		}})
}

// gelu replaces x by max(0, x) - |x|·q; the formulas stand in gelu.go of internal/compute/vec.
func gelu(a *assembler) {
	start := func(a *assembler) {
		limits(a)
		a.set(lane(9), 12)
		a.zero(11)
	}
	a.kernel(kernel{name: "gelu", slices: []string{"y", "x"}, start: start, body: func(a *assembler, p []string) {
		a.load(p[1], 0)
		a.tail(0, 1, 2, 3, 4)
		a.op("VMAXPS", 0, 11, 0)
		a.op("VFNMADD231PS", 2, 1, 0)
		a.store(0, p[0])
	}})
	slope := func(a *assembler) { // of x in 0 with |x| in 1 and q in 2: into 0
		a.op("VXORPS", signBit, 2, 2)
		a.op("VADDPS", lane(0.5), 2, 2) // 1/2 - q, not negative but for rounding
		a.op("VANDPS", signBit, 0, 1)
		a.op("VXORPS", 1, 2, 2)
		a.op("VADDPS", lane(0.5), 2, 2) // Φ
		a.op("VMULPS", 0, 0, 1)
		a.op("VMULPS", lane(-0.5), 1, 1)
		a.exp(1, 3, 4)
		a.op("VMULPS", lane(0.39894228040143267794), 1, 1)
		a.op("VFMADD213PS", 2, 1, 0) // x·φ + Φ
	}
	a.kernel(kernel{name: "geluSlope", slices: []string{"d", "of", "dy"}, start: start,
		body: func(a *assembler, p []string) {
			a.load(p[1], 0)
			a.tail(0, 1, 2, 3, 4)
			slope(a)
			a.load(p[2], 3)
			a.op("VMULPS", 3, 0, 0)
			a.store(0, p[0])
		}})
	a.kernel(kernel{name: "geluGrad", slices: []string{"d", "y", "x", "dy"}, start: start, ahead: 2048,
		level: "PREFETCHT0", body: func(a *assembler, p []string) {
			a.load(p[2], 0)
			a.load(p[3], 6)
			a.tail(0, 1, 2, 3, 4)
			a.op("VMAXPS", 0, 11, 5)
			a.op("VFNMADD231PS", 2, 1, 5)
			slope(a)
			a.op("VMULPS", 6, 0, 0)
			a.store(5, p[1])
			a.store(0, p[0])
		}})
}

// tail sets t to |x| and q to Φ(-|x|); s and k are scratch, register 12 holds the limit of the polynomial.
func (a *assembler) tail(x, t, q, s, k int) {
	a.op("VANDPS", absBits, x, t)
	a.op("VMINPS", t, 12, s)
	a.polynomial(s, q, -1.515536319e-08, 4.976760692e-07, -6.798317827e-06, 4.939537394e-05, -0.0001839578617,
		-1.748203431e-05,
		0.004834793042, -0.03636233136, -0.3183034062, -0.7978851199, -0.6931471825)
	a.exp(q, s, k)
}

// drop keeps x·factor where a word is at least the limit; the last slice and the limit are uint32.
func drop(a *assembler) {
	a.kernel(kernel{name: "drop", slices: []string{"y", "x", "words"}, scalars: []string{"limit", "factor"}, first: 4,
		unroll: 2,
		body: func(a *assembler, p []string) {
			a.load(p[1], 0)
			a.load(p[2], 1)
			a.dropped(0, 1, 2)
			a.store(0, p[0])
		}})
}

// dropped multiplies x by the factor in register 5 where the words are not below the limit in 4, and clears it
// elsewhere; t is scratch.
func (a *assembler) dropped(x, words, t int) {
	a.op("VMULPS", 5, x, x)
	if a.masks {
		a.ins("VPCMPUD $5, Z4, Z%d, K2", words) // not less
		a.ins("VMOVAPS.Z Z%d, K2, Z%d", x, x)
		return
	}
	a.op("VPMAXUD", 4, words, t)
	a.op("VPCMPEQD", t, words, t)
	a.op("VANDPS", t, x, x)
}
