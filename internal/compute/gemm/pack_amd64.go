package gemm

import "unsafe"

// packing is the argument block of the packing routines (../asmgen/pack512.go); field order is part of the
// interface.
type packing struct {
	dst, src unsafe.Pointer
	ld       int // bytes between source rows
	rows     int // source rows, or words per transposed row
	cols     int // source columns, or lanes written
	stride   int // bytes between destination rows
	next     int // bytes between destination panels, or blocks of 16 transposed rows
	half     int // bytes between the 16-column halves of a destination row
	k        int // float32 values per transposed row
	ptr      [32]unsafe.Pointer
	tmp      unsafe.Pointer // scratch of 3 x 16 x 16 words
	ahead    int            // bytes ahead that rows of panels are fetched
}

//go:noescape
func copyPanels512(p *packing)

//go:noescape
func pairPanels512(p *packing)

//go:noescape
func copyRows512(p *packing)

//go:noescape
func pairRows512(p *packing)

//go:noescape
func transpose512(p *packing)

//go:noescape
func roundTranspose512(p *packing)

//go:noescape
func roundRow512(p *packing)

//go:noescape
func roundWords512(p *packing)

//go:noescape
func pairTranspose512(p *packing)

//go:noescape
func splitPanels512(p *packing)

//go:noescape
func splitRow512(p *packing)

//go:noescape
func splitRows512(p *packing)

//go:noescape
func splitTranspose512(p *packing)

//go:noescape
func splitPairs512(p *packing)

// rowPointers points the first 16 pointers at rows of the span; those beyond its end repeat the last, which
// fills lanes nobody reads.
func (p *packing) rowPointers(o *operand, s span, first, count int) {
	for i := range 16 {
		p.ptr[i] = o.at(s.o0+first+min(i, count-1), s.k0)
	}
}

func packA512(w *worker, dst []float32, o *operand, s span, height int) {
	packFloats512(w, dst, o, s, height, s.k)
}

// packFloats512 packs panels of A whose rows have room for some words, s.k or more.
func packFloats512(w *worker, dst []float32, o *operand, s span, height, words int) {
	p := &w.p
	if o.kMajor {
		p.ld, p.rows, p.half, p.next = 4*o.ld, s.k, height, 4*height*words
		for r := 0; r < s.outer; r += together * height {
			p.dst, p.src, p.cols = unsafe.Pointer(&dst[r*words]), o.at(s.o0+r, s.k0), min(together*height, s.outer-r)
			copyRows512(p)
		}
		return
	}
	p.rows, p.k = s.k, s.k
	for r := 0; r < s.outer; r += height {
		p.dst, p.cols = unsafe.Pointer(&dst[r*words]), min(height, s.outer-r)
		p.stride, p.next = 4*p.cols, 64*p.cols
		p.rowPointers(o, s, r, p.cols)
		transpose512(p)
	}
}

// packAWiden packs panels of A as float32 values that are rounded to bf16, with zeros after the last of an odd number.
func packAWiden(w *worker, dst []float32, o *operand, s span, height int) {
	words := roundUp(s.k, 2)
	packFloats512(w, dst, o, s, height, words)
	if words > s.k {
		for r := 0; r < s.outer; r += height {
			h := min(height, s.outer-r)
			clear(dst[r*words+h*s.k:][:h])
		}
	}
	w.p.dst, w.p.cols = unsafe.Pointer(&dst[0]), s.outer*words
	roundWords512(&w.p)
}

// packBWith packs panels of 32 columns whose words hold some values of k each.
func packBWith(values int, panels, transpose func(p *packing)) func(w *worker, dst []float32, o *operand, s span) {
	return func(w *worker, dst []float32, o *operand, s span) {
		p, words := &w.p, (s.k+values-1)/values
		p.stride = 128
		if o.kMajor {
			p.dst, p.src, p.ld, p.ahead = unsafe.Pointer(&dst[0]), o.at(s.o0, s.k0), 4*o.ld, 32*o.ld
			p.rows, p.cols, p.next, p.half = s.k, s.outer, 128*words, 64
			panels(p)
			return
		}
		p.rows, p.cols, p.next, p.k = words, 16, 16*128, s.k
		for c := 0; c < s.outer; c += 16 {
			p.dst = unsafe.Pointer(&dst[c/32*32*words+c%32])
			p.rowPointers(o, s, c, min(16, s.outer-c))
			transpose(p)
		}
	}
}

func packABF16(w *worker, dst []float32, o *operand, s span, height int) {
	p, words := &w.p, (s.k+1)/2
	if o.kMajor {
		p.dst, p.src, p.ld, p.rows = unsafe.Pointer(&dst[0]), o.at(s.o0, s.k0), 4*o.ld, s.k
		p.cols, p.half, p.next = s.outer, height, 4*height*words
		pairRows512(p)
		return
	}
	p.rows, p.k = words, s.k
	for r := 0; r < s.outer; r += height {
		p.dst, p.cols = unsafe.Pointer(&dst[r*words]), min(height, s.outer-r)
		p.stride, p.next = 4*p.cols, 64*p.cols
		p.rowPointers(o, s, r, p.cols)
		roundTranspose512(p)
	}
}

// packAAMX packs panels of 32 rows as [k/32][parts][2][16 rows][16 pairs]. Rows beyond the last are left as they are:
// they meet only rows of the result that nobody stores.
func packAAMX(parts int) func(w *worker, dst []float32, o *operand, s span, _ int) {
	rows := setRowsAAMX(parts)
	return func(w *worker, dst []float32, o *operand, s span, _ int) { rows(w, dst, o, s, 0) }
}

// setRowsAAMX packs rows of A, row first of the panels and those after it; with columns of A as rows, first is 0.
func setRowsAAMX(parts int) func(w *worker, dst []float32, o *operand, s span, first int) {
	row, pairs := roundRow512, pairTranspose512
	if parts == 3 {
		row, pairs = splitRow512, splitPairs512
	}
	return func(w *worker, dst []float32, o *operand, s span, first int) {
		p, words := &w.p, parts*roundUp(s.k, 32)/2
		if !o.kMajor {
			p.rows, p.k, p.next, p.ld = words/parts, s.k, parts*2048, 4*o.ld
			for i := 0; i < s.outer; {
				at := first + i
				p.dst, p.src = unsafe.Pointer(&dst[at/32*32*words+at%32*16]), o.at(s.o0+i, s.k0)
				if parts == 3 && i+splitTogether <= s.outer {
					splitRows512(p)
					i += splitTogether
					continue
				}
				row(p)
				i++
			}
			return
		}
		p.stride, p.tmp = 64, unsafe.Pointer(&w.tmp[0])
		for k := 0; k < s.k; k += 32 {
			for i := range 32 {
				if p.ptr[i] = unsafe.Pointer(&w.zeros[0]); k+i < s.k {
					p.ptr[i] = o.at(s.o0, s.k0+k+i)
				}
			}
			for c := 0; c < s.outer; c += 16 {
				p.cols = min(16, s.outer-c)
				p.dst = unsafe.Pointer(&dst[c/32*32*words+parts*k*16+c%32*16])
				pairs(p)
				if c+16 < s.outer {
					for i := range min(32, s.k-k) {
						p.ptr[i] = unsafe.Add(p.ptr[i], 64)
					}
				}
			}
		}
	}
}

// setRowsBAMX packs rows of B as packBAMX does.
func setRowsBAMX(parts int) func(w *worker, dst []float32, k, i int, x []float32, rows, n int) {
	panels := pairPanels512
	if parts == 3 {
		panels = splitPanels512
	}
	return func(w *worker, dst []float32, k, i int, x []float32, rows, n int) {
		p, words := &w.p, parts*roundUp(k, 32)/2
		p.stride, p.ld, p.ahead, p.cols, p.next, p.half, p.rows = 64, 4*n, 0, n, 128*words, 1024, rows
		p.dst, p.src = unsafe.Pointer(&dst[parts*(i/32*512)+i%32/2*16]), unsafe.Pointer(&x[0])
		panels(p)
	}
}

// packBAMX packs panels of 32 columns as [k/32][parts][2][16 pairs][16 columns].
func packBAMX(parts int) func(w *worker, dst []float32, o *operand, s span) {
	panels, transpose := pairPanels512, roundTranspose512
	if parts == 3 {
		panels, transpose = splitPanels512, splitTranspose512
	}
	return func(w *worker, dst []float32, o *operand, s span) {
		p, words := &w.p, parts*roundUp(s.k, 32)/2
		p.stride = 64
		if o.kMajor {
			p.ld, p.ahead, p.cols, p.next, p.half = 4*o.ld, 32*o.ld, s.outer, 128*words, 1024
			if s.k%32 != 0 {
				for c := 0; c < s.outer; c += 32 {
					clear(dst[c*words+(words-16*parts)*32:][:512*parts])
				}
			}
			for k := 0; k < s.k; k += 32 {
				p.rows = min(32, s.k-k)
				for c := 0; c < s.outer; c += 32 { // panel by panel, for writes that follow each other
					p.dst, p.src, p.cols = unsafe.Pointer(&dst[parts*k*16+c*words]), o.at(s.o0+c, s.k0+k),
						min(32, s.outer-c)
					panels(p)
				}
			}
			return
		}
		p.rows, p.cols, p.next, p.k, p.tmp = words/parts, 16, 2048, s.k, unsafe.Pointer(&w.tmp[0])
		for c := 0; c < s.outer; c += 16 {
			p.dst = unsafe.Pointer(&dst[c/32*32*words+c%32*16])
			p.rowPointers(o, s, c, min(16, s.outer-c))
			transpose(p)
		}
	}
}

const splitTogether = 4 // rows that splitRows512 takes: whole cache lines of each part lie together

const together = 6 // panels copied row by row at once: enough for whole cache lines, few enough for the level-1 cache
