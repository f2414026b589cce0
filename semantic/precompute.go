package semantic

import (
	"context"
	"fmt"
	"time"

	"vsetrain/internal/compute/par"
)

// Stats says what Precompute did.
type Stats struct {
	Lines    int     // captions N
	Terms    int     // different terms w
	Entries  int     // non-zero entries of the TF-IDF matrix
	Empty    int     // captions without a term
	Zero     int     // captions with the zero vector: without terms, or orthogonal to the subspace
	K        int     // length of a vector
	SigmaMax float64 // largest singular value
	SigmaMin float64 // K-th singular value
	Residual float64 // largest ‖A^T A v - sigma^2 v‖ / sigma_max^2
	Angle    float64 // bound on the angle between the computed and the exact subspace, radians
	Passes   int     // passes of the iteration
	Seconds  float64
}

// writeRows is the number of vectors that are computed and written at a time.
const writeRows = 16 << 10

// Precompute reads a caption file and writes the semantic vectors of its lines, row c for line c, to outFile (.npy:
// float32 [N, k]; .txt: comma-separated lines as in the references), with a description in outFile.json. It leaves no
// files behind if it fails or ctx is canceled. progress may be nil.
func Precompute(ctx context.Context, captionFile, outFile string, o Options, progress Progress) (Stats, error) {
	start := time.Now()
	if err := o.Validate(); err != nil {
		return Stats{}, err
	}
	if progress == nil {
		progress = func(string, int, int) {}
	}
	lines, hash, err := ReadCaptions(captionFile)
	if err != nil {
		return Stats{}, err
	}
	pool := par.New(o.Threads)
	defer pool.Close()
	d, err := decompose(ctx, pool, lines, o, progress)
	if err != nil {
		return Stats{}, fmt.Errorf("%s: %w", captionFile, err)
	}
	k, n := len(d.svd.Sigma), len(lines)
	s := Stats{
		Lines: n, Terms: len(d.terms.Vocabulary), Entries: len(d.terms.Matrix.Val), Empty: d.terms.Empty, K: k,
		SigmaMax: d.svd.Sigma[0], SigmaMin: d.svd.Sigma[k-1], Residual: d.svd.Residual, Angle: d.svd.Angle,
		Passes: d.svd.Passes,
	}
	w, err := Create(outFile, Sidecar{
		Method: "svd", CaptionSHA256: hash, Captions: n, Dim: k, Terms: s.Terms, Sigma: d.svd.Sigma,
	})
	if err != nil {
		return Stats{}, err
	}
	defer w.Abort()
	rows := make([]float32, min(n, writeRows)*k)
	for lo := 0; lo < n; lo += writeRows {
		if err := ctx.Err(); err != nil {
			return Stats{}, err
		}
		hi := min(n, lo+writeRows)
		part := rows[:(hi-lo)*k]
		s.Zero += d.project(pool, lo, hi, part)
		if err := w.Write(part); err != nil {
			return Stats{}, err
		}
		progress(PhaseWrite, hi, n)
	}
	if err := w.Close(); err != nil {
		return Stats{}, err
	}
	s.Seconds = time.Since(start).Seconds()
	return s, nil
}
