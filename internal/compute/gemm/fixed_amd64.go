package gemm

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// Packed fixed-point operands: a panel of 32 rows of A is [k/64][3 digits][32 rows][64 values], one of 32 columns of B
// [k/64][3 digits][2][16 groups of 4 values][16 columns][4], each with its 32 scales after it.

//go:noescape
func tileFixedAMX(t *tile)

//go:noescape
func fixRows512(p *packing)

//go:noescape
func fixColumns512(p *packing)

//go:noescape
func turnTiles512(p *packing)

var kernelFixed = &kernel{
	name: "amx", fixed: true, mr: 32, nr: 32, kc: fixedTerms, kUnit: 64, square: true, tall: true, rows: 256,
	packA:    func(w *worker, dst []float32, o *operand, s span, _ int) { setRowsAFixed(w, dst, o, s, 0) },
	packB:    packBFixed,
	setRowsA: setRowsAFixed,
	run:      func(w *worker) { tileFixedAMX(&w.t) },
}

// fixRows packs rows of the span, stored by rows, as rows from first on of a panel for A.
func fixRows(p *packing, panel []float32, o *operand, s span, first int) {
	p.dst, p.src, p.ld, p.cols, p.k = unsafe.Pointer(&panel[16*first]), o.at(s.o0, s.k0), 4*o.ld, s.outer, s.k
	p.ptr[0] = unsafe.Pointer(&panel[32*(fixedWords(s.k)-1)+first])
	fixRows512(p)
}

// fixColumns packs columns of the span, stored by rows of k, as a panel for B.
func fixColumns(p *packing, panel []float32, o *operand, s span) {
	p.dst, p.src, p.ld, p.cols, p.rows = unsafe.Pointer(&panel[0]), o.at(s.o0, s.k0), 4*o.ld, s.outer, s.k
	p.ptr[0] = unsafe.Pointer(&panel[32*(fixedWords(s.k)-1)])
	fixColumns512(p)
}

// transpose makes a panel of A from one of B, or one of B from one of A.
func transpose(p *packing, to, from []float32, words int) {
	p.dst, p.src, p.rows = unsafe.Pointer(&to[0]), unsafe.Pointer(&from[0]), (words-1)/8
	turnTiles512(p)
	scales := 32 * (words - 1)
	copy(to[scales:scales+32], from[scales:])
}

// setRowsAFixed packs rows of A, row first of the panels and those after it; with columns of A as rows, first is 0.
func setRowsAFixed(w *worker, dst []float32, o *operand, s span, first int) {
	words := fixedWords(s.k)
	for i := 0; i < s.outer; {
		at := (first + i) % 32
		n := min(32-at, s.outer-i)
		panel, part := dst[(first+i-at)*words:], span{s.o0 + i, n, s.k0, s.k}
		if o.kMajor {
			fixColumns(&w.p, w.tmp, o, part)
			transpose(&w.p, panel, w.tmp, words)
		} else {
			fixRows(&w.p, panel, o, part, at)
		}
		i += n
	}
}

// packBFixed packs the columns of a span.
func packBFixed(w *worker, dst []float32, o *operand, s span) {
	words := fixedWords(s.k)
	for i := 0; i < s.outer; i += 32 {
		panel, part := dst[i*words:], span{s.o0 + i, min(32, s.outer-i), s.k0, s.k}
		if o.kMajor {
			fixColumns(&w.p, panel, o, part)
		} else {
			fixRows(&w.p, w.tmp, o, part, 0)
			transpose(&w.p, panel, w.tmp, words)
		}
	}
}

// fixing is the kernel of products in fixed point, nil where this CPU has none.
func fixing() *kernel {
	if hasAMX() && cpu.X86.HasAMXInt8 {
		return kernelFixed
	}
	return nil
}
