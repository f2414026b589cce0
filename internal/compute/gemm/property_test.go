package gemm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"vsetrain/internal/compute/par"
	"vsetrain/lab/try"
)

// own returns an engine for every kernel of ours, float32 and bf16, on the given number of threads.
func own(t testing.TB, threads int) (es []*Engine, bf16 []bool) {
	for _, name := range ownKernels() {
		es, bf16 = append(es, newEngine(t, name, threads)), append(bf16, false)
	}
	for _, e := range bf16Engines(t, threads) {
		es, bf16 = append(es, e), append(bf16, true)
	}
	return es, bf16
}

// Any number of threads gives the same bits; so does any cut of the rows, and any cut of the columns.
func TestResultsDependOnRowAndColumnAlone(t *testing.T) {
	one, bf16 := own(t, 1)
	three, _ := own(t, 3)
	r := rand.New(rand.NewPCG(9, 10))
	for i, e := range one {
		for range 12 {
			m, n, k := 1+r.IntN(300), 1+r.IntN(300), 1+r.IntN(200)
			if r.IntN(4) == 0 {
				k = 2100 + r.IntN(50) // several blocks of k
				m, n = 1+r.IntN(160), 1+r.IntN(160)
			}
			p := randomProduct(r, m, n, k)
			p.Precision = precision(bf16[i])
			e.Gemm(&p.Args)
			want := append([]float32(nil), p.C...)
			agrees := func(what string, at int) {
				t.Helper()
				if d := differ(want, p.C); d >= 0 {
					t.Fatalf("%s %v: %s %d gives %v at %d, whole on one thread %v", kernelName(e, bf16[i], p.K), p,
						what, at, p.C[d], d, want[d])
				}
				p.reset()
			}
			p.reset()
			three[i].Gemm(&p.Args)
			agrees("threads", 3)
			cut := p.Args
			cut.M = 1 + r.IntN(m)
			e.Gemm(&cut)
			first := cut.M
			if cut.M = m - first; cut.M > 0 {
				cut.C = p.C[first*p.LDC:]
				if cut.A = p.A[min(len(p.A), first*p.LDA):]; p.TransA {
					cut.A = p.A[first:]
				}
				e.Gemm(&cut)
			}
			agrees("cut at row", first)
			cut = p.Args
			cut.N = 1 + r.IntN(n)
			e.Gemm(&cut)
			first = cut.N
			if cut.N = n - first; cut.N > 0 {
				cut.C = p.C[first:]
				if cut.B = p.B[first:]; p.TransB {
					cut.B = p.B[first*p.LDB:]
				}
				if p.Bias != nil {
					cut.Bias = p.Bias[first:]
				}
				e.Gemm(&cut)
			}
			agrees("cut at column", first)
		}
	}
}

func kernelName(e *Engine, bf16 bool, k int) string { return e.kernel(precision(bf16), k).name }

// Shapes larger than the shared workspace are done in several passes over K, M and N.
func TestManyPasses(t *testing.T) {
	e := newEngine(t, "", 2)
	r := rand.New(rand.NewPCG(11, 12))
	for _, s := range [][3]int{{3, 2, sharedWords/2 + 77}, {9000, 8, 1030}, {8, 9000, 1030}} {
		for _, bf16 := range []bool{false, true} {
			p := randomProduct(r, s[0], s[1], s[2])
			p.Precision = precision(bf16)
			e.Gemm(&p.Args)
			round := same
			if bf16 {
				round = RoundBF16
			}
			if err := p.check(round); err != nil {
				t.Fatalf("%v: %v", p, err)
			}
		}
	}
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	es, bf16 := own(t, 2)
	for i, e := range es {
		a := operands(70, 90, 110, false, true, precision(bf16[i]))
		var p Packed
		run := func() {
			e.Gemm(a)
			e.PackB(&p, true, 110, 90, a.B, 110, precision(bf16[i]))
			e.GemmPacked(a, &p)
			e.Batched(a, 1, 0, 0, 0)
		}
		run() // workspaces grow
		run()
		if n := testing.AllocsPerRun(20, run); n > 0.2 { // a worker may meet its first large task late
			t.Errorf("%s: %v allocations per round, want 0", kernelName(e, bf16[i], a.K), n)
		}
	}
}

// The offsets in asmgen are the same as in the Go structs.
func TestLayout(t *testing.T) {
	var x tile
	got := []uintptr{unsafe.Offsetof(x.a), unsafe.Offsetof(x.b), unsafe.Offsetof(x.c), unsafe.Offsetof(x.bias),
		unsafe.Offsetof(x.k), unsafe.Offsetof(x.ldc), unsafe.Offsetof(x.m), unsafe.Offsetof(x.n),
		unsafe.Offsetof(x.alpha), unsafe.Offsetof(x.beta), unsafe.Offsetof(x.pf), unsafe.Offsetof(x.tmp),
		unsafe.Offsetof(x.lda), unsafe.Offsetof(x.stepA)}
	want := []uintptr{0, 8, 16, 24, 32, 40, 48, 56, 64, 68, 72, 80, 88, 96}
	for i := range want {
		if unsafe.Sizeof(uintptr(0)) == 8 && got[i] != want[i] {
			t.Errorf("field %d of tile is at %d, assembly reads %d", i, got[i], want[i])
		}
	}
}

func TestShapesThatDoNotFitPanic(t *testing.T) {
	e := newEngine(t, "", 1)
	x := make([]float32, 12)
	good := Args{M: 3, N: 2, K: 4, Alpha: 1, A: x, LDA: 4, B: x[:8], LDB: 2, C: make([]float32, 6), LDC: 2}
	e.Gemm(&good)
	cases := map[string]func(a *Args){
		"A stored [3, 4]":                func(a *Args) { a.A = x[:11] },
		"A stored [4, 3]":                func(a *Args) { a.TransA, a.LDA = true, 2 },
		"B stored [4, 2]":                func(a *Args) { a.B = x[:7] },
		"B stored [2, 4]":                func(a *Args) { a.TransB = true },
		"C stored [3, 2]":                func(a *Args) { a.C = x[:5] },
		"bias has 1 elements":            func(a *Args) { a.Bias = x[:1] },
		"negative size: M -1, N 2, K 4":  func(a *Args) { a.M = -1 },
		"with leading dimension 1 does ": func(a *Args) { a.LDC = 1 },
	}
	for want, change := range cases {
		a := good
		change(&a)
		panics(t, "a product", want, func() { e.Gemm(&a) })
	}
	var p Packed
	e.PackB(&p, false, 4, 2, x, 2, BF16)
	for _, change := range []func(a *Args){func(a *Args) {}, func(a *Args) { a.Precision, a.N = BF16, 1 }} {
		a := good
		change(&a)
		panics(t, "a packed matrix of another precision or shape", "acked", func() { e.GemmPacked(&a, &p) })
	}
}

func TestNoTermsReadNothing(t *testing.T) {
	e := newEngine(t, "", 1)
	for _, a := range []Args{{M: 2, N: 2, K: 3, Alpha: 0}, {M: 2, N: 2, K: 0, Alpha: 1}} {
		none := slices.Repeat([]float32{nan()}, 6)
		a.A, a.B, a.LDA, a.LDB, a.LDC = none, none, 3, 2, 2
		a.C, a.Beta, a.Bias = []float32{1, 2, 3, 4}, 2, []float32{10, 20}
		e.Gemm(&a)
		for i, want := range []float32{12, 24, 16, 28} {
			if a.C[i] != want {
				t.Errorf("K %d alpha %v: C[%d] = %v, want %v", a.K, a.Alpha, i, a.C[i], want)
			}
		}
	}
}

func TestUnknownKernel(t *testing.T) {
	pool := par.New(1)
	defer pool.Close()
	try.Refuses(New(pool, Options{Kernel: "avx1024"}))(t, "generic")
}

func TestRoundBF16(t *testing.T) {
	for in, want := range map[uint32]uint32{
		0x3f800000: 0x3f800000, 0x3f808000: 0x3f800000, 0x3f818000: 0x3f820000, 0x3f808001: 0x3f810000,
		0x7f800000: 0x7f800000, 0x7f7fffff: 0x7f800000, 0x80000000: 0x80000000,
	} {
		if got := math.Float32bits(RoundBF16(math.Float32frombits(in))); got != want {
			t.Errorf("%#x rounds to %#x, want %#x", in, got, want)
		}
	}
	if v := RoundBF16(math.Float32frombits(0x7f800001)); v == v {
		t.Error("NaN became a number")
	}
}

func FuzzGemm(f *testing.F) {
	f.Add(uint64(1), uint16(3), uint16(5), uint16(7), false)
	f.Add(uint64(2), uint16(33), uint16(31), uint16(65), true)
	f.Add(uint64(3), uint16(170), uint16(40), uint16(513), false)
	e, x := newEngine(f, "", 2), newEngine(f, "generic", 2)
	f.Fuzz(func(t *testing.T, seed uint64, m, n, k uint16, bf16 bool) {
		r := rand.New(rand.NewPCG(seed, 0))
		p := randomProduct(r, int(m%400), int(n%400), int(k%1200))
		round := same
		if p.Precision = precision(bf16); bf16 {
			round = RoundBF16
		}
		for _, e := range []*Engine{e, x} {
			p.reset()
			conform(t, e, p, round)
		}
	})
}
