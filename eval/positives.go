package eval

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"

	"vsetrain/internal/compute/par"
)

// Relevance holds the right candidates of each judged query of one direction: Positives[First[q]:First[q+1]] are right
// for query Queries[q]. All are numbers of images or captions in file order. Queries without judgements are left out.
type Relevance struct {
	Queries   []int32
	First     []int32 // [queries + 1]
	Positives []int32
	Absent    []int32 // [queries] positives that are not in the split: they count, and are never found
}

// add appends a query; absent is the number of its positives that are not in the split.
func (r *Relevance) add(query int32, positives []int32, absent int) {
	if len(r.First) == 0 {
		r.First = append(r.First, 0)
	}
	r.Queries = append(r.Queries, query)
	r.Absent = append(r.Absent, int32(absent))
	r.Positives = append(r.Positives, positives...)
	r.First = append(r.First, int32(len(r.Positives)))
}

// of returns the positives of judged query q.
func (r *Relevance) of(q int) []int32 { return r.Positives[r.First[q]:r.First[q+1]] }

// JudgedRecalls are the measures of one direction over queries with several positives, in percent. For a query with R
// positives, of which some may be absent from the split,
//
//	mAP@R        the mean over r = 1..R of the share of positives among the first r, or 0 if the r-th is negative
//	R-Precision  the share of positives among the first R
//	R@K          whether a positive is among the first K
//
// and each measure is the mean over the judged queries.
//
// Source: S. Chun, W. Kim, S. Park, M. Chang, S. J. Oh, ECCV Caption, ECCV 2022; K. Musgrave, S. Belongie, S.-N. Lim, A
// Metric Learning Reality Check, ECCV 2020 (mAP@R).
type JudgedRecalls struct {
	Queries    int     `json:"queries"`
	Positives  int     `json:"positives"`        // of all queries
	Absent     int     `json:"absent,omitempty"` // positives that are not in the split
	MAPAtR     float64 `json:"map_at_r"`
	RPrecision float64 `json:"r_precision"`
	R1         float64 `json:"r1"`
	R5         float64 `json:"r5"`
	R10        float64 `json:"r10"`
}

// JudgedMetrics are the measures of one set of judgements on a whole split.
type JudgedMetrics struct {
	Name string        `json:"name"`
	I2T  JudgedRecalls `json:"i2t"`
	T2I  JudgedRecalls `json:"t2i"`
}

// JudgedOutcome holds the measures of one judged query, between 0 and 1. JudgedRecalls are their means.
type JudgedOutcome struct {
	Query              int32 // number of the image or caption
	MAPAtR, RPrecision float64
	R1, R5, R10        bool
}

// JudgedOutcomes are the outcomes of every judged query of both directions, in the order of the judgements.
type JudgedOutcomes struct {
	Name     string
	I2T, T2I []JudgedOutcome
}

// outcomes measures each query of one direction from the positions of its positives, 0-based and ascending.
func (r *Relevance) outcomes(positions [][]int32) []JudgedOutcome {
	out := make([]JudgedOutcome, len(positions))
	for q, list := range positions {
		precision, found, all := 0.0, 0, len(list)+int(r.Absent[q])
		for j, at := range list {
			if int(at) < all {
				precision += float64(j+1) / float64(at+1)
				found++
			}
		}
		out[q] = JudgedOutcome{Query: r.Queries[q], MAPAtR: precision / float64(all),
			RPrecision: float64(found) / float64(all), R1: list[0] < 1, R5: list[0] < 5, R10: list[0] < 10}
	}
	return out
}

// recalls returns the means over the outcomes of the queries of one direction.
func (r *Relevance) recalls(outcomes []JudgedOutcome) JudgedRecalls {
	m := JudgedRecalls{Queries: len(outcomes), Positives: len(r.Positives)}
	for q, o := range outcomes {
		m.Positives += int(r.Absent[q])
		m.Absent += int(r.Absent[q])
		m.MAPAtR += o.MAPAtR
		m.RPrecision += o.RPrecision
		m.R1 += float64(b2i(o.R1))
		m.R5 += float64(b2i(o.R5))
		m.R10 += float64(b2i(o.R10))
	}
	for _, v := range []*float64{&m.MAPAtR, &m.RPrecision, &m.R1, &m.R5, &m.R10} {
		*v *= 100 / float64(max(1, m.Queries))
	}
	return m
}

// Judge ranks the whole split and measures it by judgements. Ties are broken as in Ranks. pool may be nil. Scores must
// not be NaN; Ranks finds NaN scores.
func Judge(pool *par.Pool, s Scores, j *Judgements) (JudgedMetrics, JudgedOutcomes, error) {
	i2t, t2i, err := positions(usualTiles(), pool, s, &j.I2T, &j.T2I)
	if err != nil {
		return JudgedMetrics{}, JudgedOutcomes{}, fmt.Errorf("judgements %s: %w", j.Name, err)
	}
	o := JudgedOutcomes{j.Name, j.I2T.outcomes(i2t), j.T2I.outcomes(t2i)}
	return JudgedMetrics{Name: j.Name, I2T: j.I2T.recalls(o.I2T), T2I: j.T2I.recalls(o.T2I)}, o, nil
}

// positions returns, for every judged query of both directions, the 0-based positions of its positives, ascending.
//
// It sorts only the positives of each query. Every candidate is placed among them by binary search and counted. So a
// split takes one pass over the tiles of S, and memory for the positives only.
func positions(size tileSize, pool *par.Pool, s Scores, i2t, t2i *Relevance) (images, captions [][]int32, err error) {
	n, m := s.Dims()
	rows, err := newPlacements(pool, i2t, n, m, s.At)
	if err != nil {
		return nil, nil, fmt.Errorf("image to text: %w", err)
	}
	columns, err := newPlacements(pool, t2i, m, n, func(c, i int) float64 { return s.At(i, c) })
	if err != nil {
		return nil, nil, fmt.Errorf("text to image: %w", err)
	}
	eachTile(size, pool, s, func(i0, i1, c0, c1 int, tile []float64) {
		w := c1 - c0
		var counts []int32
		for i := i0; i < i1; i++ {
			q := rows.at[i]
			if q < 0 {
				continue
			}
			scores, items := rows.of(q)
			counts = zeros(counts, len(scores)+1)
			for c, v := range tile[(i-i0)*w : (i-i0+1)*w] {
				if v >= scores[0] { // otherwise it ranks above no positive
					count(counts, scores, items, v, int32(c0+c))
				}
			}
			rows.flush(counts, q)
		}
		for c := c0; c < c1; c++ {
			q := columns.at[c]
			if q < 0 {
				continue
			}
			scores, items := columns.of(q)
			counts = zeros(counts, len(scores)+1)
			for i := i0; i < i1; i++ {
				if v := tile[(i-i0)*w+c-c0]; v >= scores[0] {
					count(counts, scores, items, v, int32(i))
				}
			}
			columns.flush(counts, q)
		}
	})
	return rows.positions(), columns.positions(), nil
}

// placements are the positives of the queries of one direction, lowest rank first, and the numbers of candidates that
// rank between them.
type placements struct {
	rel    *Relevance
	at     []int32 // [items] the judged query of an item, -1 if it was not judged
	scores []float64
	items  []int32
	// [positives + queries], for query q from First[q] + q on: entry b counts the candidates that rank above exactly
	// the b lowest positives
	above []int32
}

func newPlacements(pool *par.Pool, rel *Relevance, queries, candidates int, score func(q, c int) float64) (*placements,
	error) {
	p := &placements{rel: rel, at: make([]int32, queries), scores: make([]float64, len(rel.Positives)),
		items: slices.Clone(rel.Positives), above: make([]int32, len(rel.Positives)+len(rel.Queries))}
	for i := range p.at {
		p.at[i] = -1
	}
	for q, item := range rel.Queries {
		switch {
		case item < 0 || int(item) >= queries:
			return nil, fmt.Errorf("query %d of %d", item, queries)
		case p.at[item] >= 0:
			return nil, fmt.Errorf("query %d is judged twice", item)
		case len(rel.of(q)) == 0:
			return nil, fmt.Errorf("query %d has no positives", item)
		}
		p.at[item] = int32(q)
		for _, c := range rel.of(q) {
			if c < 0 || int(c) >= candidates {
				return nil, fmt.Errorf("query %d: positive %d of %d", item, c, candidates)
			}
		}
	}
	pool.For(len(rel.Queries), par.Func(func(_, q int) {
		scores, items := p.of(int32(q))
		type scored struct {
			item  int32
			score float64
		}
		all := make([]scored, len(items))
		for j, c := range items {
			all[j] = scored{c, score(int(rel.Queries[q]), int(c))}
		}
		slices.SortFunc(all, func(a, b scored) int {
			return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.item, b.item))
		})
		for j, x := range all {
			items[j], scores[j] = x.item, x.score
		}
	}))
	return p, nil
}

// of returns the scores and numbers of the positives of a query, in ascending order.
func (p *placements) of(q int32) (scores []float64, items []int32) {
	lo, hi := p.rel.First[q], p.rel.First[q+1]
	return p.scores[lo:hi], p.items[lo:hi]
}

// count ranks a candidate among the positives of a query, given by their scores and numbers. A positive does not rank
// above itself. Scores are random, so the search must not branch on them.
func count(counts []int32, scores []float64, items []int32, score float64, item int32) {
	b, n := 0, len(scores) // scores[:b] are below, and those from b+n on are not
	for n > 0 {
		half := (n + 1) / 2
		b += half & -b2i(scores[b+half-1] < score)
		n -= half
	}
	for b < len(scores) && scores[b] == score && items[b] < item {
		b++
	}
	counts[b]++
}

// flush adds the counts of a query in one tile to its counts in the split.
func (p *placements) flush(counts []int32, q int32) {
	sum := p.above[p.rel.First[q]+q:]
	for b, v := range counts {
		if v != 0 {
			atomic.AddInt32(&sum[b], v)
		}
	}
}

func (p *placements) positions() [][]int32 {
	out := make([][]int32, len(p.rel.Queries))
	for q := range out {
		r := len(p.rel.of(q))
		counts := p.above[int(p.rel.First[q])+q:][:r+1]
		list, above := make([]int32, 0, r), int32(0)
		for b := r; b > 0; b-- {
			above += counts[b]
			list = append(list, above)
		}
		out[q] = list
	}
	return out
}

// zeros returns a slice of n zeros, in the memory of s if that is large enough.
func zeros(s []int32, n int) []int32 {
	if cap(s) < n {
		return make([]int32, n)
	}
	clear(s[:n])
	return s[:n]
}
