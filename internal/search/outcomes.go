package search

import (
	"context"
	"errors"
)

// Outcome is how one query of the split fared.
type Outcome struct {
	Query int `json:"query"` // image or caption
	Rank  int `json:"rank"`  // of the match, from 0; for an image the best of its captions, as evaluation ranks them
	Match Hit `json:"match"` // the match: the own image of a caption, the best of the own captions of an image
	Wrong Hit `json:"wrong"` // the best candidate that does not belong to the query; Index is -1 where there is none
}

// Margin is by how much the best wrong candidate beats the match; negative where the match is first.
func (o Outcome) Margin() float64 { return o.Wrong.Score - o.Match.Score }

// Outcomes are those of all queries of a split.
type Outcomes struct {
	Images   []Outcome // image i at place i, searched among the captions
	Captions []Outcome // caption c at place c, searched among the images
}

// Outcomes scores the whole split and ranks every query, with the ranks that evaluation has. The result is kept, so a second call costs
// nothing. Every pair is scored, shortlist or not: for a network that scores pairs this takes minutes, which Progress shows, and the tiles scored
// are kept in the cache folder if there is one.
func (x *Index) Outcomes(ctx context.Context) (*Outcomes, error) {
	return nil, errors.New("search: not there yet")
}

// Hardest returns the n outcomes with the largest margins of the wrong candidate, worst first; those whose match is first are left out. Ties
// keep the order of the queries.
func Hardest(of []Outcome, n int) []Outcome { return nil }
