package semantic

import (
	"compress/gzip"
	"context"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/internal/compute/par"
	"vsetrain/lab/try"
)

// realCaptions reads the gzipped captions of a data set under VSETRAIN_DATA.
func realCaptions(t testing.TB, name string) []string {
	t.Helper()
	dir := os.Getenv("VSETRAIN_DATA")
	if dir == "" {
		t.Skip("VSETRAIN_DATA is not set: it names the folder of the real data sets")
	}
	f, err := os.Open(filepath.Join(dir, "text", name))
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	z := try.Get(gzip.NewReader(f))(t)
	b := try.Get(io.ReadAll(z))(t)
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// On real captions the vectors satisfy the eigenvalue equation in the form that needs no right vectors:
// A A^T B = B Sigma^2, with B^T B = Sigma^2 diagonal. B is float32 here, so both hold to its rounding.
func TestRealCaptions(t *testing.T) {
	lines := realCaptions(t, filepath.Join("f8k", "train_caps.txt.gz"))
	b, k, err := vectorsOf(context.Background(), lines, DefaultOptions())
	try.Do(t, err)
	pool := par.New(0)
	defer pool.Close()
	a := newTFIDF(pool, lines).Matrix
	at := a.Transpose()
	for _, pair := range [][2]int{{0, 0}, {0, 1}, {200, 201}, {k - 2, k - 1}, {k - 1, k - 1}} {
		p, q := pair[0], pair[1]
		var pp, pq float64
		x := make([]float64, a.Rows)
		for r := range a.Rows {
			x[r] = float64(b[r*k+q])
			pp += float64(b[r*k+p]) * float64(b[r*k+p])
			pq += float64(b[r*k+p]) * x[r]
		}
		want := 0.0
		if p == q {
			want = 1
		}
		if math.Abs(pq/pp-want) > 1e-7 {
			t.Errorf("columns %d and %d: inner product %g of their squared norm", p, q, pq/pp)
		}
		y := make([]float64, a.Cols)
		for c := range y {
			rows, vals := at.Row(c)
			for i, r := range rows {
				y[c] += vals[i] * x[r]
			}
		}
		var off, norm float64
		var sigma2 float64
		for _, v := range x {
			sigma2 += v * v
		}
		for r := range x {
			cols, vals := a.Row(r)
			var z float64
			for i, c := range cols {
				z += vals[i] * y[c]
			}
			off += (z - sigma2*x[r]) * (z - sigma2*x[r])
			norm += sigma2 * sigma2 * x[r] * x[r]
		}
		if e := math.Sqrt(off / norm); e > 1e-6 {
			t.Errorf("column %d: A A^T b differs from sigma^2 b by %g", q, e)
		}
	}
}

// Text and decomposition of Flickr30K: 145,000 captions, k = 400.
func BenchmarkVectors(b *testing.B) {
	lines := realCaptions(b, filepath.Join("f30k_text", "train_caps.txt.gz"))
	for b.Loop() {
		if _, _, err := vectorsOf(context.Background(), lines, DefaultOptions()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(lines)*b.N)/b.Elapsed().Seconds(), "captions/s")
}
