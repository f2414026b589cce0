package gemm

import "fmt"

// Operands can be passed row by row. A row that was just computed is in the level-1 cache; packing it at once saves
// writing and reading the matrix. If the layout of a kernel does not allow single rows, the rows are stored unpacked,
// and the product packs them.

// RowsTogether is the number of rows of a call; only the last call may have fewer.
const RowsTogether = 4

// PackedA is A [M, K] in the layout of a kernel. The next StartA reuses its memory.
type PackedA struct {
	data []float32
	kn   *kernel // nil: rows as they are
	m, k int
}

// StartA prepares p for M rows of K values. SetRowsA must then pass all of them.
func (e *Engine) StartA(p *PackedA, m, k int, precision Precision) {
	p.m, p.k, p.kn = m, k, e.rowKernel(precision, k)
	if p.kn != nil && p.kn.setRowsA == nil {
		p.kn = nil
	}
	words := m * k
	if p.kn != nil {
		blocks, size := p.kn.blocks(k)
		words = p.kn.paddedM(m) * blocks * p.kn.wordsA(size)
	}
	p.data = grow(p.data, words)
}

// rowKernel is the kernel of products of k terms, or nil if there is none or another library computes them.
func (e *Engine) rowKernel(p Precision, k int) *kernel {
	if k > 0 && !e.external(p) {
		return e.kernel(p, k)
	}
	return nil
}

// SetRowsA passes rows x [rows, K], from row i on, a multiple of RowsTogether.
func (e *Engine) SetRowsA(p *PackedA, i int, x []float32) {
	rows := rowsAt("A", i, p.m, p.k, len(x))
	if p.kn == nil {
		copy(p.data[i*p.k:], x)
		return
	}
	w, kn := &e.workers[0], p.kn
	blocks, size := kn.blocks(p.k)
	w.opA = operand{data: x, ld: p.k}
	for kb := range blocks {
		s := span{0, rows, kb * size, min(size, p.k-kb*size)}
		kn.setRowsA(w, p.data[kb*kn.wordsA(size)*kn.paddedM(p.m):], &w.opA, s, i)
	}
	w.opA = operand{}
}

// rowsAt checks that there are values for the rows from i on, and returns their number.
func rowsAt(side string, i, count, width, values int) int {
	rows := min(RowsTogether, count-i)
	if i < 0 || i%RowsTogether != 0 || rows < 1 || values != rows*width {
		panic(fmt.Sprintf("gemm: %d values for the rows from %d on of %s, which has %d of %d values", values, i, side,
			count, width))
	}
	return rows
}

// StartB prepares p for op(B) [K, N]. SetRowsB must then pass all of its rows.
func (e *Engine) StartB(p *Packed, k, n int, precision Precision) {
	p.k, p.n, p.stored, p.kn = k, n, Args{}, e.rowKernel(precision, k)
	if p.kn == nil || p.kn.setRowsB == nil {
		p.kn = nil
		p.data = grow(p.data, k*n)
		p.stored = Args{K: k, N: n, B: p.data, LDB: n}
		return
	}
	blocks, size := p.kn.blocks(k)
	cols := roundUp(n, p.kn.nr)
	p.data = grow(p.data, cols*blocks*p.kn.words(size))
	if last := k - (blocks-1)*size; last%p.kn.kUnit != 0 { // the step that values fill in part
		words, step := p.kn.words(last), p.kn.words(1)
		b := p.data[(blocks-1)*p.kn.words(size)*cols:]
		for c := 0; c < cols; c += p.kn.nr {
			clear(b[(c+p.kn.nr)*words-p.kn.nr*step:][:p.kn.nr*step])
		}
	}
}

// SetRowsB passes rows x [rows, N], from row i on, a multiple of RowsTogether.
func (e *Engine) SetRowsB(p *Packed, i int, x []float32) {
	rows := rowsAt("B", i, p.k, p.n, len(x))
	if p.kn == nil {
		copy(p.data[i*p.n:], x)
		return
	}
	blocks, size := p.kn.blocks(p.k)
	kb, k := i/size, size
	if kb == blocks-1 {
		k = p.k - kb*size
	}
	p.kn.setRowsB(&e.workers[0], p.data[kb*p.kn.words(size)*roundUp(p.n, p.kn.nr):], k, i-kb*size, x, rows, p.n)
}

// GemmRows computes the product a with A from left and op(B) from p; it ignores the operands of a. It panics if left or
// p has another shape or precision.
func (e *Engine) GemmRows(a *Args, left *PackedA, p *Packed) {
	if left.m != a.M || left.k != a.K {
		panic(fmt.Sprintf("gemm: packed A is [%d, %d], the product needs [%d, %d]", left.m, left.k, a.M, a.K))
	}
	if left.kn == nil {
		e.product = *a
		e.product.TransA, e.product.A, e.product.LDA = false, left.data, left.k
		e.GemmPacked(&e.product, p)
		e.product = Args{}
		return
	}
	a.checkC()
	if a.scaleOnly() {
		return
	}
	if p.kn == nil { // rows as they are
		b := &p.stored
		e.PackB(&e.given, b.TransB, b.K, b.N, b.B, b.LDB, a.Precision)
		p = &e.given
	}
	p.check(a, left.kn)
	e.multiply(a, left, p)
}
