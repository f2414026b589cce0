package search

import (
	"cmp"
	"context"
	"slices"

	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/run/analysis"
)

// Outcome is the result of one query of the split.
type Outcome struct {
	Query int `json:"query"` // image or caption
	Rank  int `json:"rank"`  // of Match, from 0, as evaluation ranks it
	Match Hit `json:"match"` // the image of a caption, or the best of an image's captions
	Wrong Hit `json:"wrong"` // the best candidate that is not a match; Index is -1 if there is none
}

// Margin returns the score of the best wrong candidate minus the score of the match; it is negative if the match is
// first.
func (o Outcome) Margin() float64 { return o.Wrong.Score - o.Match.Score }

// Attention computes how the words of caption c attend to the regions of image i in the first network. It is an error
// if the words of the network do not attend.
func (x *Index) Attention(ctx context.Context, i, c int) (*analysis.WordAttention, error) {
	e := x.members[0].common()
	e.mu.Lock()
	defer e.mu.Unlock()
	return analysis.AttendPair(ctx, e.Network, i, c)
}

// Outcomes are the outcomes of all queries of a split.
type Outcomes struct {
	Images   []Outcome // Images[i] is image i, searched among the captions
	Captions []Outcome // Captions[c] is caption c, searched among the images
}

// Outcomes scores the whole split and ranks every query as evaluation does. The result is kept for further calls. Every
// pair is scored, even with a shortlist. A network that scores pairs takes minutes, reports them to Progress and keeps
// its tiles in the cache folder, if there is one.
func (x *Index) Outcomes(ctx context.Context) (*Outcomes, error) {
	x.outcomes.Lock()
	defer x.outcomes.Unlock()
	if x.outcomes.done != nil {
		return x.outcomes.done, nil
	}
	if err := needs(x.split, AllQueries); err != nil {
		return nil, err
	}
	pool := par.New(x.opt.Device.Threads) // queries must not wait for a loop over the whole split
	defer pool.Close()
	var parts []eval.Member
	for _, m := range x.members {
		s, err := m.all(ctx, pool)
		if err != nil {
			return nil, err
		}
		parts = append(parts, eval.Member{Name: m.common().Name, Scores: s})
	}
	s, err := eval.Ensemble(parts...)
	if err != nil {
		return nil, err
	}
	own := x.split.Groups()
	i2t, t2i, err := eval.Ranks(pool, s, own)
	if err != nil {
		return nil, err
	}
	o := outcomesOf(pool, s, own)
	for i := range o.Images {
		o.Images[i].Rank = i2t[i]
	}
	for c := range o.Captions {
		o.Captions[c].Rank = t2i[c]
	}
	x.outcomes.done = o
	return o, nil
}

// outcomeTile is the side of the tiles of S that outcomesOf reads.
const outcomeTile = 128

// outcomesOf finds the best match and the best wrong candidate of every image and caption in S [N, M]. It does not set
// ranks.
func outcomesOf(pool *par.Pool, s eval.Scores, own data.Groups) *Outcomes {
	none := Hit{Index: -1}
	of := func(queries, candidates int, captions bool) []Outcome {
		all := make([]Outcome, queries)
		pool.For((queries+outcomeTile-1)/outcomeTile, par.Func(func(_, b int) {
			q0, q1 := b*outcomeTile, min(queries, (b+1)*outcomeTile)
			for q := q0; q < q1; q++ {
				all[q] = Outcome{Query: q, Match: none, Wrong: none}
			}
			tile := make([]float64, outcomeTile*outcomeTile)
			for h0 := 0; h0 < candidates; h0 += outcomeTile {
				i0, i1, c0, c1 := q0, q1, h0, min(candidates, h0+outcomeTile)
				if captions {
					i0, i1, c0, c1 = c0, c1, i0, i1
				}
				s.Tile(tile, i0, i1, c0, c1)
				for i := i0; i < i1; i++ {
					for c := c0; c < c1; c++ {
						query, h := i, Hit{c, tile[(i-i0)*(c1-c0)+c-c0]}
						if captions {
							query, h.Index = c, i
						}
						all[query].see(h, own.ImageOf(c) == i)
					}
				}
			}
		}))
		return all
	}
	n, m := s.Dims()
	return &Outcomes{Images: of(n, m, false), Captions: of(m, n, true)}
}

// see updates the outcome with a candidate.
func (o *Outcome) see(h Hit, own bool) {
	best := &o.Wrong
	if own {
		best = &o.Match
	}
	if best.Index < 0 || before(h, *best) < 0 {
		*best = h
	}
}

// Hardest returns the n outcomes with the largest margins, the largest first, without outcomes whose match is first.
// Ties keep the order of the queries.
func Hardest(of []Outcome, n int) []Outcome {
	var wrong []Outcome
	for _, o := range of {
		if o.Rank > 0 {
			wrong = append(wrong, o)
		}
	}
	slices.SortStableFunc(wrong, func(a, b Outcome) int { return cmp.Compare(b.Margin(), a.Margin()) })
	return wrong[:min(max(n, 0), len(wrong))]
}
