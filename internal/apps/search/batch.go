package search

import (
	"context"
	"fmt"
	"slices"
	"time"

	"vsetrain/internal/compute/par"
)

// Query is a caption or an embedding for which Batch finds images.
type Query struct {
	Text   string
	Vector []float32 // [Dims.Embedding], compared with the images like the embedding of a caption; nil searches Text
	K      int       // images to find; below 1 is 10

	probe *probe // nil until Tokenise
}

// Tokenise checks a query and returns it with its word ids, so that Batch only encodes them. It returns the same errors
// as Text.
func (x *Index) Tokenise(q Query) (_ Query, err error) {
	if err := needs(x.split, TextQueries); err != nil {
		return q, err
	}
	if q.Vector != nil {
		q.probe = &probe{vector: q.Vector}
		return q, x.checkVector(q.Vector)
	}
	q.probe, err = x.tokenise(q.Text)
	return q, err
}

// tokenise returns the words of a caption for each network, and the words that a vocabulary lacks.
func (x *Index) tokenise(caption string) (p *probe, err error) {
	p = &probe{words: map[*encoder][]int32{}}
	if p.unknown, err = x.unknown(caption); err != nil {
		return nil, err
	}
	for _, m := range x.all() {
		e := m.common()
		if p.words[e], err = e.words(caption); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Result is the answer to one query of a batch, or the error why it has none.
type Result struct {
	Answer
	Err error
}

// MaxBatch is how many queries Batch answers together; it answers more in several rounds.
const MaxBatch = 64

// Batch ranks images for several queries and tokenises those that are not tokenised yet. Each gets the same answer as
// from Text, bit for bit, but the captions are encoded together and compared with the images in one product. Networks
// that score pairs, or whose score is not a dot product, answer one query after the other. A query that fails does not
// affect the others.
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
	queries = slices.Clone(queries)
	var asked []int // queries that can be answered
	for i := range queries {
		q, r := &queries[i], &results[i]
		if q.probe == nil {
			*q, r.Err = x.Tokenise(*q)
		}
		switch {
		case r.Err != nil:
		case together:
			r.Unknown, asked = q.probe.unknown, append(asked, i)
		default:
			r.Answer, r.Err = x.answer(ctx, time.Now(), q.K, q.probe)
		}
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

// dotProducts returns the members as embedders if a score is the mean of their dot products.
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

// checkVector returns an error for a vector that cannot be searched for.
func (x *Index) checkVector(v []float32) error {
	e, err := x.single()
	if err != nil {
		return err
	}
	if x.shortlist != nil {
		return &QueryError{"a vector needs one embedder without a shortlist"}
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

// together answers the queries with indices asked by dot products.
func (x *Index) together(ctx context.Context, members []*embedder, queries []Query, asked []int,
	results []Result) error {
	rows := make([][]float32, len(members)) // [asked, E] of each member
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

// batchRows returns the embeddings [asked, E] of queries. A row that is not finite becomes zero, and its result has the
// error.
func (m *embedder) batchRows(ctx context.Context, queries []Query, asked []int, results []Result) ([]float32, error) {
	rows := make([]float32, len(asked)*m.dim)
	var ids [][]int32
	var to []int // row of each
	for j, i := range asked {
		if q := queries[i]; q.Vector != nil {
			copy(rows[j*m.dim:], q.Vector)
			continue
		}
		ids, to = append(ids, queries[i].probe.words[m.encoder]), append(to, j)
	}
	if len(ids) == 0 {
		return rows, nil
	}
	encoded, err := m.encodeQueries(ctx, ids)
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

// encode embeds captions given as word ids, [N, E], while it holds the lock of the network.
func (m *embedder) encode(ctx context.Context, ids [][]int32) ([]float32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return encodeWords(ctx, m.Runner.Embeds, ids, MaxBatch, nil)
}
