package search

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Hit is a candidate with its score.
type Hit struct {
	Index int     `json:"index"` // image of a text query, caption of an image query
	Score float64 `json:"score"`
}

// Answer is the result of a query.
type Answer struct {
	Hits    []Hit         // at most k, best first
	Scored  int           // candidates that the last pass scored: all, or the shortlist
	Rank    int           // of the match, from 0; -1 for a typed text, or if the shortlist lacks the match
	Unknown []string      // words of a text query that the vocabulary lacks; they were searched as <unk>
	Took    time.Duration // from the query to the answer
}

// UnknownError means that a text query has no words, or none that the vocabulary knows.
type UnknownError struct {
	Query string
	Words []string // the unknown words; empty if the query has none
}

// Error implements error.
func (e *UnknownError) Error() string {
	if len(e.Words) == 0 {
		return fmt.Sprintf("query %q has no words", e.Query)
	}
	return fmt.Sprintf("query %q: no word is in the vocabulary the network was trained with (unknown: %s); try more "+
		"common words", e.Query, strings.Join(e.Words, ", "))
}

// QueryError means that an index cannot answer a query, such as one of too many words.
type QueryError struct{ text string }

// Error implements error.
func (e *QueryError) Error() string { return e.text }

const defaultK = 10

// Text ranks images for a caption, which is tokenised like the captions of the training. A k below 1 is 10, a k above
// the number of images is all. A query whose words are all unknown is an *UnknownError, a query that the index cannot
// answer a *QueryError.
func (x *Index) Text(ctx context.Context, query string, k int) (Answer, error) {
	start := time.Now()
	q, err := x.Tokenise(Query{Text: query})
	if err != nil {
		return Answer{}, err
	}
	return x.answer(ctx, start, k, q.probe)
}

// OfImage ranks captions for image i, 0 ≤ i < Info.Images; Answer.Rank is the rank of the best of its own captions.
func (x *Index) OfImage(ctx context.Context, i, k int) (Answer, error) {
	return x.ofSplit(ctx, k, "image", x.split.NumImages(), &probe{number: i,
		own: func(c int) bool { return x.split.ImageOf(c) == i }})
}

// OfCaption ranks images for caption c of the split, 0 ≤ c < Info.Captions, with the same words as in evaluation.
func (x *Index) OfCaption(ctx context.Context, c, k int) (Answer, error) {
	return x.ofSplit(ctx, k, "caption", x.split.NumCaptions(), &probe{caption: true, number: c,
		own: func(i int) bool { return x.split.ImageOf(c) == i }})
}

func (x *Index) ofSplit(ctx context.Context, k int, what string, n int, q *probe) (Answer, error) {
	if err := needs(x.split, AllQueries); err != nil {
		return Answer{}, err
	}
	if q.number < 0 || q.number >= n {
		return Answer{}, fmt.Errorf("%s %d of %d", what, q.number, n)
	}
	return x.answer(ctx, time.Now(), k, q)
}

// answer scores the candidates, in two passes with a shortlist, and keeps the best k.
func (x *Index) answer(ctx context.Context, start time.Time, k int, q *probe) (a Answer, err error) {
	n := x.split.NumCaptions()
	if q.forImages() {
		n = x.split.NumImages()
	}
	if k < 1 {
		k = defaultK
	}
	a.Rank, a.Unknown = -1, q.unknown
	var of []int32
	if x.shortlist != nil && x.opt.Depth < n {
		scores := make([]float64, n)
		if err := x.shortlist.score(ctx, scores, q, nil); err != nil {
			return a, err
		}
		best, err := top(scores, nil, x.opt.Depth)
		if err != nil {
			return a, fmt.Errorf("%s: %w", x.shortlist.Name, err)
		}
		for _, h := range best {
			of = append(of, int32(h.Index))
		}
		n = len(of)
	}
	sum, part := make([]float64, n), make([]float64, n)
	for _, m := range x.members {
		if err := ctx.Err(); err != nil {
			return a, err
		}
		if err := m.score(ctx, part, q, of); err != nil {
			return a, err
		}
		for j, v := range part {
			sum[j] += v
		}
	}
	meanOf(sum, len(x.members))
	if a.Hits, err = top(sum, of, k); err != nil {
		return a, err
	}
	if a.Scored = n; q.own != nil {
		a.Rank = rankOf(sum, of, q.own)
	}
	a.Took = time.Since(start)
	return a, nil
}

// meanOf divides sums of the scores of n members.
func meanOf(sums []float64, n int) {
	if n > 1 {
		for j := range sums {
			sums[j] /= float64(n)
		}
	}
}

// unknown returns the words of a query that a vocabulary lacks. It is an error if a vocabulary has no word of it but
// punctuation.
func (x *Index) unknown(query string) (all []string, err error) {
	seen := map[string]bool{}
	for _, m := range x.all() {
		known, unknown := m.common().Tokenizer.SplitKnown(query)
		if !anyWord(known) {
			return nil, &UnknownError{query, unknown}
		}
		for _, w := range unknown {
			if !seen[w] {
				all = append(all, w)
			}
			seen[w] = true
		}
	}
	return all, nil
}

func anyWord(words []string) bool {
	for _, w := range words {
		if strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			return true
		}
	}
	return false
}
