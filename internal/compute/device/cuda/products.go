package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

func (d *dev) Gemm(a device.Gemm) {
	if a.M == 0 || a.N == 0 {
		return
	}
	p := product{transA: a.TransA, transB: a.TransB, m: a.M, n: a.N, k: a.K, alpha: a.Alpha, beta: a.Beta,
		exact: a.Exact, count: max(1, a.Batch), strideA: a.StrideA, strideB: a.StrideB, strideC: a.StrideC,
		a: d.pointer(a.A), lda: a.LDA, b: d.pointer(a.B), ldb: a.LDB, c: d.pointer(a.C), ldc: a.LDC,
		bias: d.pointer(a.Bias)}
	if !a.Active.Present() {
		d.multiply(&p)
		return
	}
	active, bias := d.pointer(a.Active), p.bias
	p.bias = 0 // the next kernel adds it
	d.multiply(&p)
	n := a.M * a.N
	copy := d.operandCopy(active, n)
	head := headOf(n, active, p.c, 2*copy)
	if bias != 0 && !inFours(a.N, active, p.c, bias) {
		head = n
	}
	d.launchVec4("bias_activate", head, n).ptr(values(active, copy, a.Operand), copy, p.c, bias).int(int(a.F), a.N).
		long(head, n)
	d.stored(copy, active, n, a.Operand)
}

// product is C = alpha·op(A)·op(B) + beta·C + bias (device.Gemm) of addresses.
type product struct {
	transA, transB            bool
	m, n, k                   int
	alpha, beta               float64
	a, b, c, bias             driver.Ptr
	lda, ldb, ldc             int
	count                     int // 0 means 1
	strideA, strideB, strideC int
	exact                     bool
	halfA, halfB              bool // a, b are bfloat16; leading dimensions and strides count elements
	halfC                     bool // c is bfloat16 too: only for one product, without beta and bias
}

const gemmTile = 64

// Types of operands, numbered as in gemm.cu.
const (
	operandsSingle = iota
	operandsRounded
	operandsHalf
	operandsAndResultHalf
)

// few is the largest number of products of a batch whose operands may be far apart, even in different memory.
const few = 4

// last is the number of elements from the first to the last of an operand or a result, rows of cols.
func last(rows, cols, ld int) int { return (rows-1)*ld + cols }

// halve makes the operands of a large product bfloat16 (copies.go), and reports whether they are.
func (d *dev) halve(p *product) bool {
	if d.bf16.on && p.k > 0 {
		if copy := d.aloneAt(p.a); copy != 0 {
			p.a, p.halfA = copy, true
		}
		if copy := d.aloneAt(p.b); copy != 0 {
			p.b, p.halfB = copy, true
		}
		if p.exact && (p.halfA || p.halfB) {
			d.misread("an exact operand")
		}
	}
	if p.halfA && p.halfB {
		return true
	}
	if !d.bf16.on || p.exact || p.k == 0 || !(p.halfA || p.halfB || p.m*p.n*p.k*p.count >= d.bf16.from) {
		return false
	}
	rowsA, colsA, rowsB, colsB := p.m, p.k, p.k, p.n
	if p.transA {
		rowsA, colsA = colsA, rowsA
	}
	if p.transB {
		rowsB, colsB = colsB, rowsB
	}
	a, b, okA, okB := p.a, p.b, p.halfA, p.halfB
	if !okA {
		a, okA = d.roundedItems(p.a, last(rowsA, colsA, p.lda), p.count, p.strideA)
	}
	if !okB {
		b, okB = d.roundedItems(p.b, last(rowsB, colsB, p.ldb), p.count, p.strideB)
	}
	switch {
	case okA && okB:
	case p.halfA:
		b, p.strideB = d.roundedHere(p.b, last(rowsB, colsB, p.ldb), p.count, p.strideB)
	case p.halfB:
		a, p.strideA = d.roundedHere(p.a, last(rowsA, colsA, p.lda), p.count, p.strideA)
	default:
		return false
	}
	p.a, p.b, p.halfA, p.halfB = a, b, true, true
	return true
}

// roundedItems is rounded for the items of a batch. It rounds nothing between items that are far apart.
func (d *dev) roundedItems(p driver.Ptr, size, count, stride int) (copy driver.Ptr, ok bool) {
	if count == 1 || stride < 2*size || count > few {
		return d.rounded(p, (count-1)*stride+size)
	}
	m := d.copiesOf(p)
	if m == nil || m.index(p)+(count-1)*stride+size > m.n {
		return 0, false
	}
	for i := range count {
		d.complete(m, m.index(p)+i*stride, m.index(p)+i*stride+size)
	}
	return m.copyAt(p), true
}

// roundedHere rounds an operand into scratch memory: if there is no room for a copy and the other operand is bfloat16
// alone. It returns the stride of the items there.
func (d *dev) roundedHere(p driver.Ptr, size, count, stride int) (driver.Ptr, int) {
	padded, next := size+(stride-size)&3, stride // keeps the alignment of the items
	if count <= few && stride >= size {          // perhaps in different memory
		next = padded
	} else {
		size = (count-1)*stride + size
		padded, count = size, 1
	}
	to := d.need(scratchOperand, 2*(count*padded+4)) + 2*(p/4&3)
	for i := range count {
		d.round(to+driver.Ptr(2*i*padded), at(p, i*stride), size)
	}
	return to, next
}

// multiply runs a product with cuBLAS or vsetrain's kernel. It does not change the description.
func (d *dev) multiply(as *product) {
	if as.m == 0 || as.n == 0 {
		return
	}
	run := *as
	p := &run
	p.count = max(1, p.count)
	half := d.halve(p)
	if p.beta != 0 {
		d.reads(p.c)
	}
	if p.bias != 0 {
		d.reads(p.bias)
	}
	size := last(p.m, p.n, p.ldc)
	if p.halfC {
		size = halves(size)
	}
	if p.count > few {
		d.bf16.changed(p.c, (p.count-1)*p.strideC+size)
	} else {
		for i := range p.count {
			d.bf16.changed(at(p.c, i*p.strideC), size)
		}
	}
	if d.blas == nil || p.k == 0 {
		ar, ac, br, bc := p.lda, 1, p.ldb, 1
		if p.transA {
			ar, ac = 1, p.lda
		}
		if p.transB {
			br, bc = 1, p.ldb
		}
		operands := operandsSingle
		switch {
		case p.halfC:
			operands = operandsAndResultHalf
		case half:
			operands = operandsHalf
		case d.precision == BF16 && !p.exact:
			operands = operandsRounded
		}
		c := d.start("gemm", threads, (p.n+gemmTile-1)/gemmTile, (p.m+gemmTile-1)/gemmTile, p.count)
		c.noted().ptr(p.c, p.a, p.b, p.bias).int(p.m, p.n, p.k).float(p.alpha, p.beta).long(ar, ac, br, bc, p.ldc,
			p.strideA, p.strideB, p.strideC).int(operands)
		return
	}
	compute := driver.Compute32F
	switch {
	case p.exact || half:
	case d.precision == BF16:
		compute = driver.ComputeBF16
	case d.precision == TF32:
		compute = driver.ComputeTF32
	}
	g := driver.Gemm{TransA: p.transA, TransB: p.transB, M: p.m, N: p.n, K: p.k, A: p.a, B: p.b, C: p.c,
		LDA: p.lda, LDB: p.ldb, LDC: p.ldc,
		StrideA: p.strideA, StrideB: p.strideB, StrideC: p.strideC, Count: p.count, Alpha: float32(p.alpha),
		Beta: float32(p.beta), Compute: compute, Half: half, HalfC: p.halfC}
	if d.biased && p.count == 1 && p.bias%ltAlignment == 0 && p.n > 1 && p.k > 1 {
		g.Bias = p.bias
	}
	c := d.next()
	c.kind, c.product = commandProduct, g
	if p.bias != g.Bias {
		d.next().calls(d.functions["add_bias"]).addBias(&g, p.bias)
	}
}

// addBias passes the arguments of add_bias, which adds a bias to every row of products.
func (c *command) addBias(of *driver.Gemm, bias driver.Ptr) {
	aligned := inFours(of.N, of.C, bias) && of.LDC%4 == 0 && of.StrideC%4 == 0
	blocks := blocksFor(countOf(of.M*of.N, aligned))
	c.launch.Threads, c.launch.Grid = threads, [3]uint32{uint32(blocks), uint32(of.Count), 1}
	c.ptr(of.C, bias).flag(aligned).long(of.M).int(of.N).long(of.LDC, of.StrideC)
}

// ltAlignment is the alignment of a bias without which kernels of cublasLt fault, although it is not documented
// (marian-nmt/marian-dev#778). They also fail with a single column or term; PyTorch avoids these too.
const ltAlignment = 16

// product runs a product of cuBLAS, on the thread of the context, and adds its bias, in the same kernel if cuBLAS can.
// If it fails otherwise, a second kernel adds the bias, with a warning the first time.
func (d *dev) product(g *driver.Gemm) error {
	if g.Bias == 0 {
		return d.blas.Gemm(g)
	}
	err := d.blas.GemmBias(g)
	if err == nil || driver.Fault(err) {
		return err
	}
	if e := d.blas.Gemm(g); e != nil {
		return e
	}
	if !driver.NotSupported(err) && !d.unbiased {
		d.unbiased = true
		d.warn("cuBLAS does not add a bias to a product, so another kernel does: %v", err)
	}
	c := &d.bias
	*c = command{}
	c.calls(d.functions["add_bias"]).addBias(g, g.Bias)
	return c.function.launch(d, c)
}
