package search

import (
	"context"
	"fmt"
	"slices"
	"time"

	"vsetrain/internal/compute/par"
)

// Query is one of several that are answered together: a caption, or an embedding.
type Query struct {
	Text   string
	Vector []float32 // [Info.Dim], compared with the images as the embedding of a caption is; nil asks Text
	K      int       // images to find; below 1 is 10

	probe *probe // nil until Tokenise
}

// Tokenise checks a query and returns it with the ids of its words, so that Batch has only to encode them. Its errors
// are the errors of Text.
func (x *Index) Tokenise(q Query) (Query, error) {
	err := needs(x.split, TextQueries)
	if err != nil {
		return q, err
	}
	a := &probe{vector: q.Vector}
	if q.Vector != nil {
		q.probe = a
		return q, x.checkVector(q.Vector)
	}
	if a.unknown, err = x.unknown(q.Text); err != nil {
		return q, err
	}
	a.words = map[*encoder][]int32{}
	for _, m := range x.all() {
		e := m.common()
		if a.words[e], err = e.words(q.Text); err != nil {
			return q, err
		}
	}
	q.probe = a
	return q, nil
}

// Result is the answer to one query of several, or why it has none.
type Result struct {
	Answer
	Err error
}

// MaxBatch is how many queries Batch answers at a time; more are answered in several rounds.
const MaxBatch = 64

// Batch ranks images for several queries, which it tokenises where nobody did. Each has the answer that Text gives, bit
// for bit, but the captions are encoded together and compared with the images in one product. Networks whose score is
// not a dot product, and networks that score pairs, answer one query after the other. A query that cannot be answered
// leaves the others alone.
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
			r.Answer, r.Err = x.answer(ctx, q.K, q.probe)
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

// batchRows returns the embeddings [asked, E] of queries. The row of one that is not finite is zero, and its result has
// the error.
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

// encode embeds captions given as word ids, with the network to itself: [N, E].
func (m *embedder) encode(ctx context.Context, ids [][]int32) ([]float32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return encodeWords(ctx, m.Runner.Embeds, ids, MaxBatch, nil)
}
