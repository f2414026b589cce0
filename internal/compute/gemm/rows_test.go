package gemm

import (
	"math/rand/v2"
	"slices"
	"testing"

	"vsetrain/internal/compute/par"
	"vsetrain/lab/try"
)

// Operands given row by row give the same bits as from a product that packs them itself.
func TestRowsAreTheSameProduct(t *testing.T) {
	for _, name := range implementations() {
		t.Run(name, func(t *testing.T) {
			e, r := newEngine(t, name, 1), rand.New(rand.NewPCG(7, 7))
			var left PackedA
			var right, weight Packed
			for _, s := range [][3]int{{1, 1, 1}, {3, 5, 2}, {33, 40, 31}, {64, 48, 64}, {37, 70, 100}, {5, 33, 1100},
				{70, 20, 2100}, {32, 32, 96}} {
				m, n, k := s[0], s[1], s[2]
				a, b, c := matrix(r, m, k, k), matrix(r, k, n, n), matrix(r, m, n, n)
				for _, precision := range []Precision{Float32, FixedPoint, BF16} {
					args := Args{M: m, N: n, K: k, Alpha: 1, A: a, LDA: k, B: b, LDB: n, Beta: 1, C: slices.Clone(c),
						LDC: n, Bias: matrix(r, 1, n, n), Precision: precision}
					e.Gemm(&args)
					want := args.C
					e.StartA(&left, m, k, precision)
					for i := 0; i < m; i += RowsTogether {
						e.SetRowsA(&left, i, a[i*k:min(m, i+RowsTogether)*k])
					}
					e.StartB(&right, k, n, precision)
					for i := 0; i < k; i += RowsTogether {
						e.SetRowsB(&right, i, b[i*n:min(k, i+RowsTogether)*n])
					}
					e.PackB(&weight, false, k, n, b, n, precision)
					args.A, args.B = nil, nil
					for what, p := range map[string]*Packed{"row by row": &right, "at once": &weight} {
						args.C = slices.Clone(c)
						e.GemmRows(&args, &left, p)
						if i := differ(args.C, want); i >= 0 {
							t.Errorf("%dx%dx%d, precision %d, B packed %s: element %d is %v, want %v", m, n, k,
								precision, what, i, args.C[i], want[i])
						}
					}
				}
			}
		})
	}
}

// Rows that are not those expected are a mistake of the program.
func TestRowsOfAnotherSize(t *testing.T) {
	e := try.Get(New(par.New(1), Options{}))(t)
	var a PackedA
	var b Packed
	x := make([]float32, 1000)
	e.StartA(&a, 10, 64, BF16)
	e.StartB(&b, 10, 64, BF16)
	for what, f := range map[string]func(){
		"an odd place":        func() { e.SetRowsA(&a, 2, x[:256]) },
		"too few values":      func() { e.SetRowsA(&a, 0, x[:255]) },
		"too many rows":       func() { e.SetRowsA(&a, 8, x[:256]) },
		"beyond the end":      func() { e.SetRowsB(&b, 12, x[:256]) },
		"too few values of B": func() { e.SetRowsB(&b, 0, x[:128]) },
		"a product of other M": func() {
			e.GemmRows(&Args{M: 9, N: 64, K: 64, Alpha: 1, C: x, LDC: 64, Precision: BF16}, &a, &b)
		},
		"a product of other K": func() {
			e.GemmRows(&Args{M: 10, N: 64, K: 64, Alpha: 1, C: x, LDC: 64, Precision: BF16}, &a, &b)
		},
	} {
		panics(t, what, "gemm: ", f)
	}
}
