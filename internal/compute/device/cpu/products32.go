package cpu

import (
	"vsetrain/internal/compute/gemm"
	"vsetrain/internal/compute/par"
)

// products32 computes the products of float32 devices with internal/compute/gemm.
type products32 struct {
	engine *gemm.Engine
	usual  gemm.Precision // of products that are neither exact nor even
	even   gemm.Precision
	args   gemm.Args
	packed *gemm.Packed // of the last pack: &own, or one of held
	own    gemm.Packed
	held   map[*float32]*gemm.Packed // by the first value of B
}

func newProducts32(pool *par.Pool, o Options) (products[float32], error) {
	e, err := gemm.New(pool, gemm.Options{Kernel: o.BLAS})
	if err != nil {
		return nil, err
	}
	if o.Precision == BF16 {
		return &products32{engine: e, usual: gemm.BF16, even: gemm.BF16}, nil
	}
	return &products32{engine: e, even: gemm.FixedPoint}, nil
}

func (e *products32) name() string {
	if e.usual == gemm.BF16 {
		return e.engine.BF16Name()
	}
	return e.engine.Name()
}

func (e *products32) external() bool { return e.engine.External() && e.usual != gemm.BF16 }

func (e *products32) on(pool *par.Pool) products[float32] { return e.copy(pool) }

// copy returns products on another pool. Libraries have threads of their own and are not called from several, so the
// kernels of this program take their place.
func (e *products32) copy(pool *par.Pool) *products32 {
	kernel := e.engine.Name()
	if e.engine.External() {
		kernel = ""
	}
	g, err := gemm.New(pool, gemm.Options{Kernel: kernel})
	if err != nil {
		panic("cpu: " + err.Error()) // it exists: the device uses it
	}
	g.Reserve()
	return &products32{engine: g, usual: e.usual, even: e.even}
}

func (e *products32) set(p *product[float32]) {
	e.args = gemm.Args{TransA: p.transA, TransB: p.transB, M: p.m, N: p.n, K: p.k, Alpha: p.alpha, A: p.a, LDA: p.lda,
		B: p.b, LDB: p.ldb, Beta: p.beta, C: p.c, LDC: p.ldc, Bias: p.bias, Precision: e.usual}
	switch {
	case p.exact:
		e.args.Precision = gemm.Float32
	case p.even:
		e.args.Precision = e.even
	}
}

func (e *products32) gemm(p *product[float32], count, strideA, strideB, strideC int) {
	e.set(p)
	if count == 1 {
		e.engine.Gemm(&e.args)
	} else {
		e.engine.Batched(&e.args, count, strideA, strideB, strideC)
	}
	e.args = gemm.Args{}
}

func (e *products32) pack(transB bool, k, n int, b []float32, ldb int, held bool) {
	e.packed = &e.own
	if held {
		if e.packed = e.held[&b[0]]; e.packed != nil {
			return
		}
		e.packed = new(gemm.Packed)
		if e.held == nil {
			e.held = map[*float32]*gemm.Packed{}
		}
		e.held[&b[0]] = e.packed
	}
	e.engine.PackB(e.packed, transB, k, n, b, ldb, e.even)
}

func (e *products32) forget() { clear(e.held) }

func (e *products32) gemmPacked(p *product[float32]) {
	e.set(p)
	e.engine.GemmPacked(&e.args, e.packed)
	e.args = gemm.Args{}
}
