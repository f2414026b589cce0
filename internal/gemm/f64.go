package gemm

import (
	"fmt"

	"vsetrain/internal/par"
)

// Gemm64 computes C[m, n] = alpha * op(A) * op(B) + beta * C in float64 in plain Go, for reference precision. Shapes,
// transposition and beta = 0 as in Args. Every element is a sum over k in rising order, whatever the number of
// threads. It panics when a slice is too short.
func Gemm64(pool *par.Pool, transA, transB bool, m, n, k int, alpha float64, a []float64, lda int, b []float64, ldb int, beta float64, c []float64, ldc int) {
	g := &gemm64{transA, transB, m, n, k, alpha, beta, a, b, c, lda, ldb, ldc}
	g.check()
	if m == 0 || n == 0 {
		return
	}
	if 2*m*n*k <= serialFlops {
		for i := range g.tasks() {
			g.Do(0, i)
		}
		return
	}
	pool.For(g.tasks(), g)
}

const (
	rows64 = 4   // rows of C a task computes together
	cols64 = 256 // columns of C in one block
)

type gemm64 struct {
	transA, transB bool
	m, n, k        int
	alpha, beta    float64
	a, b, c        []float64
	lda, ldb, ldc  int
}

func (g *gemm64) tasks() int { return (g.m + rows64 - 1) / rows64 }

func (g *gemm64) check() {
	need := func(name string, s []float64, ld, rows, cols int) {
		if rows > 0 && cols > 0 && (ld < cols || len(s) < (rows-1)*ld+cols) {
			panic(fmt.Sprintf("gemm: %s stored [%d, %d] with leading dimension %d does not fit its slice of %d elements; the product is C [%d, %d] = op(A) [%d, %d] * op(B) [%d, %d]",
				name, rows, cols, ld, len(s), g.m, g.n, g.m, g.k, g.k, g.n))
		}
	}
	if g.m < 0 || g.n < 0 || g.k < 0 {
		panic(fmt.Sprintf("gemm: negative size: M %d, N %d, K %d", g.m, g.n, g.k))
	}
	need("C", g.c, g.ldc, g.m, g.n)
	if g.m == 0 || g.n == 0 || g.alpha == 0 {
		return
	}
	swap := func(t bool, x, y int) (int, int) {
		if t {
			return y, x
		}
		return x, y
	}
	ar, ac := swap(g.transA, g.m, g.k)
	br, bc := swap(g.transB, g.k, g.n)
	need("A", g.a, g.lda, ar, ac)
	need("B", g.b, g.ldb, br, bc)
}

// Do computes rows64 rows of C.
func (g *gemm64) Do(_, task int) {
	for i := task * rows64; i < min(g.m, (task+1)*rows64); i++ {
		c := g.c[i*g.ldc:][:g.n]
		switch g.beta {
		case 0:
			clear(c)
		case 1:
		default:
			for j := range c {
				c[j] *= g.beta
			}
		}
		if g.alpha == 0 || g.k == 0 {
			continue
		}
		if g.transB {
			g.dotRow(i, c)
		} else {
			for j := 0; j < g.n; j += cols64 {
				g.axpyRow(i, j, c[j:min(g.n, j+cols64)])
			}
		}
	}
}

// at is op(A)[i, p].
func (g *gemm64) at(i, p int) float64 {
	if g.transA {
		return g.a[p*g.lda+i]
	}
	return g.a[i*g.lda+p]
}

// axpyRow adds alpha * op(A)[i, :] * B[:, j0:j0+len(c)] to c.
func (g *gemm64) axpyRow(i, j0 int, c []float64) {
	for p := range g.k {
		x, b := g.alpha*g.at(i, p), g.b[p*g.ldb+j0:][:len(c)]
		for j, v := range b {
			c[j] += float64(x * v)
		}
	}
}

// dotRow adds alpha * op(A)[i, :] * B[j, :] to c[j], four columns at a time.
func (g *gemm64) dotRow(i int, c []float64) {
	j := 0
	for ; j+4 <= g.n; j += 4 {
		b0, b1 := g.b[j*g.ldb:][:g.k], g.b[(j+1)*g.ldb:][:g.k]
		b2, b3 := g.b[(j+2)*g.ldb:][:g.k], g.b[(j+3)*g.ldb:][:g.k]
		var s0, s1, s2, s3 float64
		for p := range g.k {
			x := g.at(i, p)
			s0 += float64(x * b0[p])
			s1 += float64(x * b1[p])
			s2 += float64(x * b2[p])
			s3 += float64(x * b3[p])
		}
		c[j] += g.alpha * s0
		c[j+1] += g.alpha * s1
		c[j+2] += g.alpha * s2
		c[j+3] += g.alpha * s3
	}
	for ; j < g.n; j++ {
		s := 0.0
		for p, v := range g.b[j*g.ldb:][:g.k] {
			s += float64(g.at(i, p) * v)
		}
		c[j] += g.alpha * s
	}
}
