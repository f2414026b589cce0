package gemm

import "unsafe"

// tile is one call of a micro-kernel, C[m, n] = alpha * a b + beta * C + bias. Assembly reads it by offset
// (../asmgen/main.go); field order is part of the interface.
type tile struct {
	a, b    unsafe.Pointer // packed panels
	c, bias unsafe.Pointer // result; bias may be nil
	k       int            // steps: float32 values, or bf16 pairs
	ldc     int            // elements
	m, n    int
	alpha   float32
	beta    float32
	pf      unsafe.Pointer // memory to bring near meanwhile: 64 bytes for each word of k
	tmp     unsafe.Pointer // scratch of at least scratchWords float32
	lda     int            // bytes between the rows of a
	stepA   int            // bytes between the steps of a row of a
}

// scratchWords is enough for a panel of fixed-point operands, the largest thing that kernels and packing routines put
// there.
const scratchWords = 32 * (3*fixedTerms/4 + 1)

// operand is one side of a product with the roles of rows and columns removed: outer runs over M or N.
type operand struct {
	data   []float32
	ld     int
	kMajor bool // element (k, o) at k*ld + o, else at o*ld + k
}

// span is what one packing call covers: outer [o0, o0+outer), k [k0, k0+k).
type span struct{ o0, outer, k0, k int }

// kernel is a micro-kernel with its packed layout. Packed values are counted in float32 words; a bf16 pair is
// one word.
type kernel struct {
	name   string
	bf16   bool // operands are rounded to bf16
	parts  int  // words are pairs of bf16, this many for each pair of values; 0: words are float32 values
	widens bool // words of A are float32 values that were rounded to bf16, the words of B pairs of bf16
	fixed  bool // words are four digits of fixed-point values, three for each four values, and a scale for each row
	mr, nr int  // most rows of a panel of A, columns of a panel of B
	kc     int  // most values of k in one block
	kUnit  int  // values of k that a step rounds up to
	// square: panels of A always hold mr rows (AMX); else as many as they have.
	square bool
	// tall: one call does all panels of its rows and columns; else one panel of each.
	tall bool
	// rows of A packed together: with kc values each they stay in the level-2 cache.
	rows int

	// byRows: products of enough rows for all threads are cut into rows, however many columns they have.
	byRows bool

	// packA packs the panels of a span, height rows each but the last, packB the panels of nr columns. A panel of B
	// starts every nr*words(k) words, one of A every height*wordsA(k).
	packA func(w *worker, dst []float32, o *operand, s span, height int)
	packB func(w *worker, dst []float32, o *operand, s span)
	// setRowsA packs the rows of a span like packA, as rows from first on of dst, the packed panels of a block of s.k
	// values. nil where a packed operand cannot be written row by row.
	setRowsA func(w *worker, dst []float32, o *operand, s span, first int)
	// setRowsB writes up to RowsTogether rows of B from row i on, x [rows, n], to their places in dst, the packed
	// panels of a block of k values. nil like setRowsA; also where a column is scaled as a whole.
	setRowsB func(w *worker, dst []float32, k, i int, x []float32, rows, n int)
	// run computes w.t.
	run func(w *worker)
	// inPlace: run follows t.lda and t.stepA, so that it can read rows of a where they are stored.
	inPlace bool
}

// words returns how many words a block of k values occupies for a column of B, and for a row of A unless kn widens.
func (kn *kernel) words(k int) int {
	switch {
	case kn.fixed:
		return fixedWords(k)
	case kn.parts > 0:
		return kn.parts * roundUp(k, kn.kUnit) / 2
	}
	return k
}

// wordsA returns how many words a block of k values occupies for a row of A.
func (kn *kernel) wordsA(k int) int {
	if kn.widens {
		return roundUp(k, kn.kUnit)
	}
	return kn.words(k)
}

// blocks returns the number of blocks that K is cut into and the size of all but the last. It depends on K
// alone, for the order of additions depends on it.
func (kn *kernel) blocks(k int) (n, size int) {
	n = (k + kn.kc - 1) / kn.kc
	unit := max(4, kn.kUnit)
	size = ((k+n-1)/n + unit - 1) / unit * unit
	return (k + size - 1) / size, size
}

// paddedM is the number of rows that m rows of A occupy when packed.
func (kn *kernel) paddedM(m int) int {
	if kn.square {
		return roundUp(m, kn.mr)
	}
	return m
}

// panels cuts m rows into panels of equal height but the last: a rest of few rows would keep few registers busy.
func (kn *kernel) panels(m int) (count, height int) {
	count = (m + kn.mr - 1) / kn.mr
	if kn.square {
		return count, kn.mr
	}
	height = (m + count - 1) / count
	return count, height
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// worker is the private memory of one thread.
type worker struct {
	t     tile
	p     packing
	a, b  []float32 // packed blocks
	c     []float32 // result of the product in work
	opA   operand   // operands of the product of a batch in work
	opB   operand
	tmp   []float32 // scratch for kernels
	zeros []float32
}

// aligned returns n words that start at a multiple of 64 bytes.
func aligned(n int) []float32 {
	b := make([]float32, n+16)
	hugePages(b)
	o := int(-uintptr(unsafe.Pointer(&b[0]))%64) / 4
	return b[o : o+n : o+n]
}

// grow returns b with at least n words, its contents lost if it had fewer.
func grow(b []float32, n int) []float32 {
	if cap(b) >= n {
		return b[:n]
	}
	return aligned(n)
}
