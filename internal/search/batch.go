package search

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"vsetrain/internal/gemm"
	"vsetrain/internal/par"
)

// Query is one of several that are answered together: a caption, or an embedding.
type Query struct {
	Text   string
	Vector []float32 // [Info.Dim], compared with the images as the embedding of a caption is; nil asks Text
	K      int       // images to find; below 1 is 10
}

// Result is the answer to one query of several, or why it has none.
type Result struct {
	Answer
	Err error
}

// MaxBatch is how many queries Batch answers at a time; more are answered in several rounds.
const MaxBatch = 64

// Batch ranks images for several queries. Each has the answer that Text gives, bit for bit, but the captions are
// encoded together and compared with the images in one product. Networks whose score is no dot product, and networks
// that score pairs, answer one query after the other. A query that cannot be answered leaves the others alone.
func (x *Index) Batch(ctx context.Context, queries []Query) []Result {
	results := make([]Result, 0, len(queries))
	for part := range slices.Chunk(queries, MaxBatch) {
		results = append(results, x.batch(ctx, part)...)
	}
	return results
}

func (x *Index) batch(ctx context.Context, queries []Query) []Result {
	start := time.Now()
	results := make([]Result, len(queries))
	members, together := x.dotProducts()
	var asked []int // queries that can be answered
	for i, q := range queries {
		r := &results[i]
		switch {
		case q.Vector != nil:
			r.Err = x.checkVector(q.Vector)
		case together:
			r.Unknown, r.Err = x.unknown(q.Text)
		}
		if r.Err != nil {
			continue
		}
		if !together {
			r.Answer, r.Err = x.one(ctx, q)
			continue
		}
		asked = append(asked, i)
	}
	if !together || len(asked) == 0 {
		return results
	}
	err := x.together(ctx, members, queries, asked, results)
	for _, i := range asked {
		if results[i].Took = time.Since(start); err != nil && results[i].Err == nil {
			results[i].Err = err
		}
	}
	return results
}

// one answers a query by itself.
func (x *Index) one(ctx context.Context, q Query) (Answer, error) {
	if q.Vector == nil {
		return x.Text(ctx, q.Text, q.K)
	}
	return x.answer(ctx, x.split.NumImages(), q.K, nil, func(m member, dst []float64, of []int32) error {
		e := m.(*embedder) // of checkVector
		images, err := e.imageRows(ctx)
		if err != nil {
			return err
		}
		return e.score(dst, images, q.Vector, of, false)
	})
}

// dotProducts returns the members as embedders, where a score is the mean of their dot products.
func (x *Index) dotProducts() (all []*embedder, ok bool) {
	for _, m := range x.members {
		e, ok := m.(*embedder)
		if !ok || !e.Runner.Embeds.DotProduct() {
			return nil, false
		}
		all = append(all, e)
	}
	return all, x.shortlist == nil
}

// checkVector returns why a vector cannot be searched for.
func (x *Index) checkVector(v []float32) error {
	e, err := x.single()
	if err != nil {
		return err
	}
	if x.shortlist != nil {
		return &QueryError{"a vector is searched for with one embedder and no shortlist"}
	}
	if len(v) != e.dim {
		return &QueryError{fmt.Sprintf("a vector of %d values; the embeddings of %s have %d", len(v), e.Name, e.dim)}
	}
	for i, value := range v {
		if value-value != 0 {
			return &QueryError{fmt.Sprintf("value %d of the vector is %v; expected finite numbers", i, value)}
		}
	}
	return nil
}

// together answers the queries that asked lists with dot products.
func (x *Index) together(ctx context.Context, members []*embedder, queries []Query, asked []int,
	results []Result) error {
	rows := make([][]float32, len(members)) // of each member [asked, E]
	for at, m := range members {
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		if rows[at], err = m.batchRows(ctx, queries, asked, results); err != nil {
			return err
		}
	}
	near := make([]*nearest, len(asked))
	for j, i := range asked {
		k := queries[i].K
		if k < 1 {
			k = defaultK
		}
		near[j] = &nearest{k: min(k, x.split.NumImages())}
	}
	if err := x.candidates(ctx, members, rows, near); err != nil {
		return err
	}
	x.pool.For(len(asked), par.Func(func(_, j int) {
		r := &results[asked[j]]
		if r.Err == nil {
			r.Hits, r.Err = exactly(members, rows, j, near[j])
			r.Scored, r.Rank = x.split.NumImages(), -1
		}
	}))
	return nil
}

// batchRows returns the embeddings [asked, E] of queries. The row of a query that cannot be encoded is zero, and its
// result has the error.
func (m *embedder) batchRows(ctx context.Context, queries []Query, asked []int, results []Result) ([]float32, error) {
	rows := make([]float32, len(asked)*m.dim)
	var ids [][]int32
	var to []int // row of each
	for j, i := range asked {
		if q := queries[i]; q.Vector != nil {
			copy(rows[j*m.dim:], q.Vector)
			continue
		}
		words, err := m.words(queries[i].Text)
		if err != nil {
			results[i].Err = err
			continue
		}
		ids, to = append(ids, words), append(to, j)
	}
	if len(ids) == 0 {
		return rows, nil
	}
	encoded, err := m.encode(ctx, ids)
	if err != nil {
		return nil, err
	}
	for n, j := range to {
		row := encoded[n*m.dim : (n+1)*m.dim]
		if err := finite("query", row, m.dim); err != nil {
			results[asked[j]].Err = fmt.Errorf("%s: %w", m.Name, err)
			continue
		}
		copy(rows[j*m.dim:], row)
	}
	return rows, nil
}

// encode embeds captions given as word ids, with the network to itself: [N, E].
func (m *embedder) encode(ctx context.Context, ids [][]int32) ([]float32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return encodeWords(ctx, m.Runner.Embeds, ids, MaxBatch, nil)
}

// Images that are compared with all queries at a time: their scores stay in the cache of a processor.
const batchImages = 4096

// candidates compares all queries with all images in float32 and leaves in near, for each query, the images that may
// be among its best k, by the bound that slack gives.
func (x *Index) candidates(ctx context.Context, members []*embedder, rows [][]float32, near []*nearest) error {
	images := make([][]float32, len(members))
	for at, m := range members {
		var err error
		if images[at], err = m.imageRows(ctx); err != nil {
			return err
		}
		norm := m.imageNorm(images[at])
		for j, n := range near {
			q := rows[at][j*m.dim : (j+1)*m.dim]
			n.slack += slack(m.dim, norm, math.Sqrt(squares(q)))
		}
	}
	x.batching.Lock()
	defer x.batching.Unlock()
	if err := x.packImages(images); err != nil {
		return err
	}
	n := x.split.NumImages()
	scores := make([]float32, len(near)*min(n, batchImages))
	for lo := 0; lo < n; lo += batchImages {
		if err := ctx.Err(); err != nil {
			return err
		}
		width := min(batchImages, n-lo)
		for at, m := range members {
			beta := float32(1)
			if at == 0 {
				beta = 0
			}
			x.batching.engine.GemmPacked(&gemm.Args{M: len(near), N: width, K: m.dim, Alpha: 1, A: rows[at], LDA: m.dim,
				Beta: beta, C: scores, LDC: width}, &x.batching.packed[at][lo/batchImages])
		}
		x.pool.For(len(near), par.Func(func(_, j int) {
			near[j].see(lo, scores[j*width:(j+1)*width])
		}))
	}
	return nil
}

// packImages brings the embeddings [N, E] of each member into the layout of the products, once: they need as much
// memory again, half as much more with AMX. The caller holds the lock of batching.
func (x *Index) packImages(images [][]float32) error {
	if x.batching.engine != nil {
		return nil
	}
	e, err := gemm.New(x.pool, gemm.Options{})
	if err != nil {
		return err
	}
	n := x.split.NumImages()
	x.batching.packed = make([][]gemm.Packed, len(images))
	for at, rows := range images {
		dim := len(rows) / n
		blocks := make([]gemm.Packed, (n+batchImages-1)/batchImages)
		for i := range blocks {
			lo, hi := i*batchImages, min(n, (i+1)*batchImages)
			e.PackB(&blocks[i], true, dim, hi-lo, rows[lo*dim:hi*dim], dim, gemm.Float32)
		}
		x.batching.packed[at] = blocks
	}
	x.batching.engine = e
	return nil
}

// imageNorm returns the largest length of an image embedding, which is computed once.
func (m *embedder) imageNorm(images []float32) float64 {
	m.normOnce.Do(func() {
		for lo := 0; lo < len(images); lo += m.dim {
			m.norm = max(m.norm, squares(images[lo:lo+m.dim]))
		}
		m.norm = math.Sqrt(m.norm)
	})
	return m.norm
}

func squares(x []float32) (s float64) {
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	return s
}

// slack bounds by how much a dot product of n terms in float32, of vectors of the lengths a and b, differs from the
// exact one: n u Σ|x y| ≤ n u a b with u = 2^-24, in whatever order it is summed (Higham, Accuracy and Stability of
// Numerical Algorithms, 2002, section 3.1). It is doubled for the sum of an ensemble, the rounding of the score itself
// and products of parts; the last term covers operands that such products flush to zero.
func slack(n int, a, b float64) float64 {
	if a*b > 1e37 { // float32 may overflow
		return math.Inf(1)
	}
	return 2*float64(n+16)*0x1p-24*a*b + float64(n)*0x1p-100*(1+a+b)
}

// nearest collects the candidates of one query.
type nearest struct {
	k     int
	slack float64
	best  []approx // all that may be among the k best of those seen
	floor float64  // no candidate below it can be; meaningful once full
	full  bool
}

// approx is an image with its score in float32.
type approx struct {
	index int32
	score float32
}

// see adds images lo, lo+1, …
func (n *nearest) see(lo int, scores []float32) {
	for j, s := range scores {
		if n.full && float64(s) < n.floor { // NaN is kept, and found by exactly
			continue
		}
		if n.best = append(n.best, approx{int32(lo + j), s}); len(n.best) >= 4*n.k+256 && len(n.best) == cap(n.best) {
			n.cut()
		}
	}
}

// cut drops candidates that cannot be among the best k: k others are better by more than both errors together.
func (n *nearest) cut() {
	slices.SortFunc(n.best, func(a, b approx) int { return cmp.Compare(b.score, a.score) })
	if len(n.best) < n.k {
		return
	}
	n.full, n.floor = true, float64(n.best[n.k-1].score)-2*n.slack
	n.best = slices.DeleteFunc(n.best, func(a approx) bool { return float64(a.score) < n.floor })
}

// exactly returns the best k of the candidates of query j with the scores that answer computes.
func exactly(members []*embedder, rows [][]float32, j int, n *nearest) ([]Hit, error) {
	n.cut()
	of := make([]int32, len(n.best))
	for i, a := range n.best {
		of[i] = a.index
	}
	sum, part := make([]float64, len(of)), make([]float64, len(of))
	for at, m := range members {
		images, _ := m.images.made()
		dotSome(part, images, widen(rows[at][j*m.dim:(j+1)*m.dim]), of)
		for i, v := range part {
			sum[i] += v
		}
	}
	if len(members) > 1 {
		for i := range sum {
			sum[i] /= float64(len(members))
		}
	}
	return top(sum, of, n.k)
}
