package gemm

import (
	"math"
	"sync"
	"unsafe"
)

var kernelGeneric = &kernel{
	name: "generic", mr: 4, nr: 4, kc: 256, kUnit: 1, rows: 128,
	packA: packAGo, packB: packBGo(4),
	run: runGeneric,
}

func bestBF16() *kernel {
	if ks := availableBF16(); len(ks) > 0 {
		return ks[0]
	}
	return nil
}

// emulations are the emulated kernels that there are, by the float32 kernel below them.
var emulations sync.Map

// emulated is a float32 kernel whose operands are rounded to bf16 after packing. It is one for all engines: what one of
// them packs, another may multiply.
func emulated(f *kernel) *kernel {
	if k, ok := emulations.Load(f); ok {
		return k.(*kernel)
	}
	k := *f
	k.name = "emulated"
	k.packA = func(w *worker, dst []float32, o *operand, s span, height int) {
		f.packA(w, dst, o, s, height)
		roundWords(dst[:s.outer*s.k])
	}
	k.packB = func(w *worker, dst []float32, o *operand, s span) {
		f.packB(w, dst, o, s)
		roundWords(dst[:roundUp(s.outer, f.nr)*s.k])
	}
	one, _ := emulations.LoadOrStore(f, &k)
	return one.(*kernel)
}

func roundWords(x []float32) {
	for i, v := range x {
		x[i] = RoundBF16(v)
	}
}

// RoundBF16 returns v as an operand of a product in BF16: the nearest bf16, ties to even. NaN stays NaN.
func RoundBF16(v float32) float32 {
	b := math.Float32bits(v)
	if v != v {
		return math.Float32frombits(b | 1<<22)
	}
	b += 0x7fff + b>>16&1
	return math.Float32frombits(b &^ 0xffff)
}

// packAGo packs panels [k][height] in Go.
func packAGo(_ *worker, dst []float32, o *operand, s span, height int) {
	for r := 0; r < s.outer; r += height {
		panel, rows := dst[r*s.k:], min(height, s.outer-r)
		if o.kMajor {
			for p := range s.k {
				copy(panel[p*rows:(p+1)*rows], o.data[(s.k0+p)*o.ld+s.o0+r:])
			}
			continue
		}
		for i := range rows {
			row := o.data[(s.o0+r+i)*o.ld+s.k0:][:s.k]
			for p, v := range row {
				panel[p*rows+i] = v
			}
		}
	}
}

// packBGo packs panels [k][nr] in Go, zeros in the columns beyond the last.
func packBGo(nr int) func(*worker, []float32, *operand, span) {
	return func(_ *worker, dst []float32, o *operand, s span) {
		for c := 0; c < s.outer; c += nr {
			panel, cols := dst[c*s.k:][:nr*s.k], min(nr, s.outer-c)
			if cols < nr {
				clear(panel)
			}
			if o.kMajor {
				for p := range s.k {
					copy(panel[p*nr:p*nr+cols], o.data[(s.k0+p)*o.ld+s.o0+c:])
				}
				continue
			}
			for j := range cols {
				row := o.data[(s.o0+c+j)*o.ld+s.k0:][:s.k]
				for p, v := range row {
					panel[p*nr+j] = v
				}
			}
		}
	}
}

// runGeneric computes a 4 x 4 tile with its sums in registers. Narrower tiles do the same work on fewer rows
// and columns, in the same order.
func runGeneric(w *worker) {
	t := &w.t
	a := unsafe.Slice((*float32)(t.a), t.m*t.k)
	b := unsafe.Slice((*float32)(t.b), 4*t.k)
	acc := (*[16]float32)(w.tmp)
	*acc = [16]float32{}
	if t.m == 4 {
		generic4(acc, a, b)
	} else {
		for i := range t.m {
			generic1((*[4]float32)(acc[4*i:]), a[i:], t.m, b)
		}
	}
	for i := range t.m {
		c := unsafe.Slice((*float32)(unsafe.Add(t.c, 4*i*t.ldc)), t.n)
		for j := range c {
			v := float32(t.alpha * acc[4*i+j])
			if t.bias != nil {
				v = float32(v + *(*float32)(unsafe.Add(t.bias, 4*j)))
			}
			if t.beta != 0 {
				v = float32(v + float32(t.beta*c[j]))
			}
			c[j] = v
		}
	}
}

func generic4(acc *[16]float32, a, b []float32) {
	var c00, c01, c02, c03, c10, c11, c12, c13 float32
	var c20, c21, c22, c23, c30, c31, c32, c33 float32
	for len(a) >= 4 && len(b) >= 4 {
		b0, b1, b2, b3 := b[0], b[1], b[2], b[3]
		x := a[0]
		c00 += float32(x * b0)
		c01 += float32(x * b1)
		c02 += float32(x * b2)
		c03 += float32(x * b3)
		x = a[1]
		c10 += float32(x * b0)
		c11 += float32(x * b1)
		c12 += float32(x * b2)
		c13 += float32(x * b3)
		x = a[2]
		c20 += float32(x * b0)
		c21 += float32(x * b1)
		c22 += float32(x * b2)
		c23 += float32(x * b3)
		x = a[3]
		c30 += float32(x * b0)
		c31 += float32(x * b1)
		c32 += float32(x * b2)
		c33 += float32(x * b3)
		a, b = a[4:], b[4:]
	}
	*acc = [16]float32{c00, c01, c02, c03, c10, c11, c12, c13, c20, c21, c22, c23, c30, c31, c32, c33}
}

// generic1 accumulates one row; a holds its values every stride words.
func generic1(acc *[4]float32, a []float32, stride int, b []float32) {
	var c0, c1, c2, c3 float32
	for p := 0; len(b) >= 4; p += stride {
		x := a[p]
		c0 += float32(x * b[0])
		c1 += float32(x * b[1])
		c2 += float32(x * b[2])
		c3 += float32(x * b[3])
		b = b[4:]
	}
	*acc = [4]float32{c0, c1, c2, c3}
}
