package gemm

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/par"
	"vsetrain/lab/try"
)

// splitAlways is "amx" with products of any number of terms in bf16 parts, few ones included.
const splitAlways = "amx always"

// fixedPoint is "amx" with float32 products of 64 terms and more in fixed point.
const fixedPoint = "amx fixed"

// newEngine opens an engine on its own pool; it skips when a library is missing.
func newEngine(t testing.TB, kernel string, threads int) *Engine {
	t.Helper()
	switch kernel {
	case splitAlways:
		e := newEngine(t, "amx", threads)
		e.f32 = e.split
		return e
	case fixedPoint:
		e := newEngine(t, "amx", threads)
		e.split = e.fixed
		return e
	}
	pool := par.New(threads)
	t.Cleanup(pool.Close)
	e, err := New(pool, Options{Kernel: kernel})
	if errors.Is(err, ErrNoLibrary) {
		t.Skip(err)
	}
	try.Do(t, err)
	return e
}

// implementations are the kernels every conformance test runs over: all that this machine has.
func implementations() []string { return append(ownKernels(), "gonum", "openblas", "mkl") }

// ownKernels are those that are no library of others.
func ownKernels() []string {
	var s []string
	if splitting() != nil {
		s = append(s, "amx", splitAlways)
	}
	if fixing() != nil {
		s = append(s, fixedPoint)
	}
	for _, k := range available() {
		s = append(s, k.name)
	}
	return s
}

func precision(bf16 bool) Precision {
	if bf16 {
		return BF16
	}
	return Float32
}

// bf16Engines returns an engine for each bf16 kernel of this machine.
func bf16Engines(t testing.TB, threads int) []*Engine {
	var es []*Engine
	for _, k := range append(availableBF16(), nil) {
		e := newEngine(t, "", threads)
		if e.bf16 = k; k == nil {
			e.bf16 = emulated(e.f32)
		}
		es = append(es, e)
	}
	return es
}

// product is a random product with operands inside larger, poisoned memory.
type product struct {
	Args
	c0 []float32 // C before
}

func nan() float32 { return float32(math.NaN()) }

// matrix is a random rows x cols matrix with leading dimension ld, NaN in the gaps.
func matrix(r *rand.Rand, rows, cols, ld int) []float32 {
	if rows == 0 {
		return nil
	}
	x := make([]float32, (rows-1)*ld+cols)
	for i := range x {
		if x[i] = nan(); i%ld < cols {
			x[i] = float32(r.NormFloat64())
		}
	}
	return x
}

func randomProduct(r *rand.Rand, m, n, k int) *product {
	p := &product{Args: Args{M: m, N: n, K: k, TransA: r.IntN(2) == 0, TransB: r.IntN(2) == 0}}
	p.Alpha = []float32{1, 1, -0.5, 2}[r.IntN(4)]
	p.Beta = []float32{0, 0, 1, -1.5}[r.IntN(4)]
	gap := func() int { return r.IntN(2) * r.IntN(9) }
	ar, ac, br, bc := m, k, k, n
	if p.TransA {
		ar, ac = k, m
	}
	if p.TransB {
		br, bc = n, k
	}
	p.LDA, p.LDB, p.LDC = max(1, ac+gap()), max(1, bc+gap()), max(1, n+gap())
	p.A, p.B, p.C = matrix(r, ar, ac, p.LDA), matrix(r, br, bc, p.LDB), matrix(r, m, n, p.LDC)
	if r.IntN(2) == 0 {
		p.Bias = matrix(r, 1, n, max(1, n))
	}
	p.c0 = slices.Clone(p.C)
	p.reset()
	return p
}

// reset gives C its value before the product.
func (p *product) reset() {
	copy(p.C, p.c0)
	if p.Beta == 0 {
		for i := range p.C {
			p.C[i] = nan()
		}
	}
}

// check compares C with a float64 product of the operands; round is applied to them first.
func (p *product) check(round func(float32) float32) error {
	for i := range p.M {
		for j := range p.N {
			sum, size := 0.0, 0.0
			for l := range p.K {
				v := p.term(i, j, l, round)
				sum += v
				size += math.Abs(v)
			}
			want := float64(p.Alpha) * sum
			size = math.Abs(float64(p.Alpha)) * size
			if p.Beta != 0 {
				v := float64(p.Beta) * float64(p.c0[i*p.LDC+j])
				want += v
				size += math.Abs(v)
			}
			if p.Bias != nil {
				want += float64(p.Bias[j])
				size += math.Abs(float64(p.Bias[j]))
			}
			got := float64(p.C[i*p.LDC+j])
			// Rounding of a sum of K terms in any order: at most (K+3) unit roundings of the absolute sum; in practice
			// far less. The bound is tight enough that one missing or doubled term shows.
			if tol := size * 6e-8 * (4 + math.Sqrt(float64(p.K))) * 2; !(math.Abs(got-want) <= tol) {
				return fmt.Errorf("C[%d,%d] = %v, want %v +- %.1e", i, j, got, want, tol)
			}
		}
	}
	for i := range p.C { // what lies between rows is untouched
		if i%p.LDC >= p.N && !math.IsNaN(float64(p.C[i])) {
			return fmt.Errorf("C element %d, beyond column %d, was written", i, p.N)
		}
	}
	return nil
}

// term is term l of element [i, j].
func (p *product) term(i, j, l int, round func(float32) float32) float64 {
	a, b := i*p.LDA+l, l*p.LDB+j
	if p.TransA {
		a = l*p.LDA + i
	}
	if p.TransB {
		b = j*p.LDB + l
	}
	return float64(round(p.A[a])) * float64(round(p.B[b]))
}

func same(x float32) float32 { return x }

func (p *product) String() string {
	return fmt.Sprintf("M %d N %d K %d transA %v transB %v alpha %v beta %v lda %d ldb %d ldc %d bias %v bf16 %v",
		p.M, p.N, p.K, p.TransA, p.TransB, p.Alpha, p.Beta, p.LDA, p.LDB, p.LDC, p.Bias != nil, p.Precision == BF16)
}

// sizes are edges of every panel and block, and a few in between.
func sizes(r *rand.Rand) (m, n, k int) {
	edge := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 13, 14, 15, 16, 17, 27, 28, 29, 31, 32, 33, 47, 48, 63, 64, 65, 97}
	pick := func(limit int) int {
		if r.IntN(3) > 0 {
			return edge[r.IntN(len(edge))]
		}
		return r.IntN(limit)
	}
	m, n, k = pick(160), pick(160), pick(100)
	switch r.IntN(12) {
	case 0:
		k = 200 + r.IntN(1200)
	case 1:
		m = 400 + r.IntN(200)
	case 2:
		n = 480 + r.IntN(200)
	}
	return m, n, k
}

// poison leaves NaN in the memory of e for packed operands.
func poison(e *Engine, p Precision) {
	const n = 512
	x := make([]float32, n*n)
	for i := range x {
		x[i] = nan()
	}
	a := Args{M: n, N: n / 4, K: n, Alpha: 1, A: x, B: x, C: make([]float32, n*n), LDA: n, LDB: n, LDC: n, Precision: p}
	e.Gemm(&a) // B is shared
	a.M, a.N = a.N, a.M
	e.Gemm(&a) // A is
}

func TestConformance(t *testing.T) {
	for _, name := range implementations() {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, name, 3)
			poison(e, Float32)
			r := rand.New(rand.NewPCG(1, 2))
			for range 150 {
				m, n, k := sizes(r)
				conform(t, e, randomProduct(r, m, n, k), same)
			}
		})
	}
}

func TestConformanceBF16(t *testing.T) {
	for _, e := range bf16Engines(t, 3) {
		t.Run(e.BF16Name(), func(t *testing.T) {
			poison(e, BF16)
			r := rand.New(rand.NewPCG(3, 4))
			for range 150 {
				m, n, k := sizes(r)
				p := randomProduct(r, m, n, k)
				p.Precision = BF16
				conform(t, e, p, RoundBF16)
			}
		})
	}
}

// conform checks one product plain and with B packed before; the two agree bit for bit.
func conform(t *testing.T, e *Engine, p *product, round func(float32) float32) {
	t.Helper()
	e.Gemm(&p.Args)
	if err := p.check(round); err != nil {
		t.Fatalf("%v: %v", p, err)
	}
	plain := append([]float32(nil), p.C...)
	p.reset()
	var packed Packed
	e.PackB(&packed, p.TransB, p.K, p.N, p.B, p.LDB, p.Precision)
	a := p.Args
	a.B, a.LDB = nil, 0
	e.GemmPacked(&a, &packed)
	if i := differ(plain, p.C); i >= 0 {
		t.Fatalf("%v: packed B gives %v at %d, plain %v", p, p.C[i], i, plain[i])
	}
}

// panics wants a panic whose text holds some words.
func panics(t *testing.T, what, words string, f func()) {
	t.Helper()
	defer func() {
		if s, ok := recover().(string); !ok || !strings.Contains(s, words) {
			t.Errorf("%s: panic %q, want one with %q", what, s, words)
		}
	}()
	f()
}

// differ returns the first index at which two slices differ in bits (any two NaN are the same), or -1.
func differ(x, y []float32) int {
	for i := range x {
		if math.Float32bits(x[i]) != math.Float32bits(y[i]) && (x[i] == x[i] || y[i] == y[i]) {
			return i
		}
	}
	return -1
}

func TestBatched(t *testing.T) {
	for _, name := range append(implementations(), "bf16") {
		t.Run(name, func(t *testing.T) {
			bf16 := name == "bf16"
			if bf16 {
				name = ""
			}
			e := newEngine(t, name, 3)
			r := rand.New(rand.NewPCG(5, 6))
			for range 20 {
				m, n, k := 1+r.IntN(50), 1+r.IntN(50), r.IntN(70)
				if r.IntN(8) == 0 {
					n, k = 600, 700
				}
				testBatch(t, e, r, m, n, k, precision(bf16))
			}
		})
	}
}

func testBatch(t *testing.T, e *Engine, r *rand.Rand, m, n, k int, p Precision) {
	const count = 5
	one := randomProduct(r, m, n, k)
	one.Precision = p
	sa, sb, sc := len(one.A)+3, len(one.B)+1, len(one.C)+one.LDC-one.N
	if r.IntN(3) == 0 {
		sb = 0
	}
	all := one.Args
	all.A, all.B, all.C = make([]float32, count*sa), make([]float32, (count-1)*sb+len(one.B)), make([]float32, count*sc)
	for _, x := range [][]float32{all.A, all.B, all.C} {
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
	}
	want := append([]float32(nil), all.C...)
	for i := range count {
		a := all
		a.A, a.B, a.C = all.A[i*sa:], all.B[i*sb:], want[i*sc:]
		e.Gemm(&a)
	}
	e.Batched(&all, count, sa, sb, sc)
	if i := differ(want, all.C); i >= 0 {
		t.Fatalf("%v, batch strides %d %d %d: element %d is %v, one by one %v", one, sa, sb, sc, i, all.C[i], want[i])
	}
}
