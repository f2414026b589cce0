package semantic

import (
	"context"
	"fmt"

	"vsetrain/internal/compute/par"
	"vsetrain/internal/compute/sparse"
	"vsetrain/internal/system/options"
)

// Options controls the computation of semantic vectors.
type Options struct {
	// K is the length of a vector. It is at most the number of different terms in all captions minus one.
	K int `yaml:"k" min:"1" max:"4096" doc:"length of a semantic vector"`

	// Seed of the start vectors of the iteration. It changes the vectors only within the tolerance.
	Seed uint64 `yaml:"seed" doc:"seed of the start vectors; it changes the result within the tolerance only"`

	// Tolerance is the largest angle in radians between the computed and the exact subspace of the K vectors; 0 means
	// 1e-7.
	Tolerance float64 `yaml:"tolerance" min:"0" max:"0.1" doc:"largest angle (radians) between the computed and the exact subspace; 0 is 1e-7"`

	// Threads is the number of threads; 0 means all processors. It does not change the result.
	Threads int `yaml:"threads" min:"0" max:"4096" doc:"threads; 0 is all processors"`
}

// DefaultOptions returns the references' 400 dimensions.
func DefaultOptions() Options { return Options{K: 400} }

// Validate returns an *options.Error for the first option that cannot be used.
func (o *Options) Validate() error { return options.Check(o) }

// Progress receives how many of the steps of a phase are done. Phases follow one another.
type Progress func(phase string, done, total int)

// The phases of Precompute, in order.
const (
	PhaseTerms = "tf-idf"
	PhaseSVD   = "svd"
	PhaseWrite = "write"
)

// decomposition is a TF-IDF matrix with its truncated SVD.
type decomposition struct {
	terms *tfidf
	svd   *sparse.SVD
}

func decompose(ctx context.Context, pool *par.Pool, lines []string, o Options, progress Progress) (*decomposition,
	error) {
	progress(PhaseTerms, 0, len(lines))
	t := newTFIDF(pool, lines)
	progress(PhaseTerms, len(lines), len(lines))
	w := len(t.Vocabulary)
	if w < 2 {
		return nil, fmt.Errorf("%d captions hold %d different terms once stop words are removed; expected at least 2",
			len(lines), w)
	}
	progress(PhaseSVD, 0, 100)
	svd, err := sparse.TruncatedSVD(ctx, pool, t.Matrix, sparse.SVDOptions{
		K: min(o.K, w-1), Seed: o.Seed, Tolerance: o.Tolerance,
		Progress: func(percent int) { progress(PhaseSVD, percent, 100) },
	})
	if err != nil {
		return nil, fmt.Errorf("semantic vectors of %d captions with %d terms: %w", len(lines), w, err)
	}
	progress(PhaseSVD, 100, 100)
	return &decomposition{t, svd}, nil
}

// outside is the norm below which a row of B counts as orthogonal to the subspace; the row of A has norm 1. What
// remains is rounding error and the tolerance of the subspace, a meaningless direction. LSEH would amplify it, because
// it divides by the largest inner product of each row. Such captions get the zero vector, like captions without terms.
const outside = 1e-6

// project writes rows [lo, hi) of B to dst and returns the number of zero rows.
func (d *decomposition) project(pool *par.Pool, lo, hi int, dst []float32) int {
	d.svd.Project(pool, d.terms.Matrix, lo, hi, dst)
	k, n := len(d.svd.Sigma), hi-lo
	chunks := par.Chunks(n, 1024)
	zero := make([]int, chunks)
	pool.For(chunks, par.Func(func(_, c int) {
		from, to := par.Range(n, chunks, c)
		for r := from; r < to; r++ {
			row, sum := dst[r*k:(r+1)*k], 0.0
			for _, v := range row {
				sum += float64(v) * float64(v)
			}
			if sum < outside*outside {
				clear(row)
				zero[c]++
			}
		}
	}))
	total := 0
	for _, z := range zero {
		total += z
	}
	return total
}
