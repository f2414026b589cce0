package semantic

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"vsetrain/internal/compute/par"
	"vsetrain/internal/compute/sparse"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
)

// All singular values of the small term matrix, the smallest of which may be zero.
func TestGoldenSingularValues(t *testing.T) {
	c := loadText(t)
	pool := par.New(2)
	defer pool.Close()
	a := newTFIDF(pool, c.Lines).Matrix
	k := min(len(c.Singular), a.Cols)
	s := try.Get(sparse.TruncatedSVD(context.Background(), pool, a, sparse.SVDOptions{K: k}))(t)
	golden.Close(t, "singular values", s.Sigma, c.Singular[:k], golden.FP64)
}

// The Gram matrix of the vectors and the row-maximum similarity that LSEH makes of it. The vectors are float32, so each
// inner product of them may be off by 2^-23 of the product of their norms.
func TestGoldenGram(t *testing.T) {
	c := loadText(t)
	got, k, err := vectorsOf(context.Background(), c.Lines, Options{K: c.K})
	try.Do(t, err)
	if k != c.K {
		t.Fatalf("vectors of length %d, want %d", k, c.K)
	}
	n := len(c.Lines)
	gram, similarity := gramOf(got, n, k)
	golden.Close(t, "gram", gram, c.Gram.Data, golden.Tolerance{Rel: 3e-7})
	// Where a caption lies outside the subspace its row of the Gram matrix is rounding noise, and so is its similarity.
	top := slices.Max(c.Gram.Data)
	for i := range n {
		if d := slices.Max(c.Gram.Data[i*n : (i+1)*n]); d > 1e-4*top {
			golden.Close(t, fmt.Sprint("similarity of caption ", i), similarity[i*n:(i+1)*n],
				c.RowMax.Data[i*n:(i+1)*n], golden.Tolerance{Rel: 1e-6 * top / d})
		}
	}
}

func gramOf(v []float32, n, k int) (gram, similarity []float64) {
	gram, similarity = make([]float64, n*n), make([]float64, n*n)
	for i := range n {
		top := 0.0
		for j := range n {
			var sum float64
			for d := range k {
				sum += float64(v[i*k+d]) * float64(v[j*k+d])
			}
			gram[i*n+j] = sum
			if j == 0 || sum > top {
				top = sum
			}
		}
		if top == 0 {
			top = 1
		}
		for j := range n {
			similarity[i*n+j] = gram[i*n+j] / top
		}
	}
	return gram, similarity
}

// Permuting the captions permutes the Gram matrix; the number of threads changes no bit.
func TestVectorsOfPermutedCaptions(t *testing.T) {
	var lines []string
	for i := range 400 {
		lines = append(lines, fmt.Sprintf("a %s dog number%s runs past %s trees with word%s", letters(i%7),
			letters(i%31), letters(i%11), letters(i*i%97)))
	}
	lines[5], lines[9] = "", "it is what it is"
	const k = 20
	ctx := context.Background()
	a, _, err := vectorsOf(ctx, lines, Options{K: k, Threads: 1})
	try.Do(t, err)
	b, _, err := vectorsOf(ctx, lines, Options{K: k, Threads: 3})
	try.Do(t, err)
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("element %d is %v with one thread, %v with three", i, a[i], b[i])
		}
	}
	n := len(lines)
	at := func(i int) int { return (i*37 + 11) % n }
	mixed := make([]string, n)
	for i := range mixed {
		mixed[i] = lines[at(i)]
	}
	c, _, err := vectorsOf(ctx, mixed, Options{K: k})
	try.Do(t, err)
	want, _ := gramOf(a, n, k)
	got, _ := gramOf(c, n, k)
	back := make([]float64, n*n)
	for i := range n {
		for j := range n {
			back[at(i)*n+at(j)] = got[i*n+j]
		}
	}
	golden.Close(t, "gram of permuted captions", back, want, golden.Tolerance{Rel: 1e-6})
	for d := range k {
		if a[5*k+d] != 0 || a[9*k+d] != 0 {
			t.Fatal("a caption without terms has a vector other than zero")
		}
	}
}

// letters writes a number in letters, for no digit is part of a word.
func letters(n int) string {
	s := ""
	for {
		s += string(rune('a' + n%26))
		if n /= 26; n == 0 {
			return s + "x"
		}
	}
}
