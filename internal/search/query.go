package search

import (
	"context"
	"errors"
	"time"
)

// Hit is a candidate with its score.
type Hit struct {
	Index int     `json:"index"` // image of a text query, caption of an image query
	Score float64 `json:"score"`
}

// Answer is the outcome of a query.
type Answer struct {
	Hits    []Hit         // at most k, best first
	Scored  int           // candidates that the last stage looked at: all, or the shortlist
	Unknown []string      // words of a text query that the vocabulary lacks; they were searched as <unk>
	Took    time.Duration // tokenising, encoding and scoring the query, waiting for other queries left out
}

// UnknownError is a text query none of whose words is in the vocabulary, or that has no words.
type UnknownError struct {
	Query string
	Words []string
}

// Error implements error.
func (e *UnknownError) Error() string { return "" }

// Text ranks images for a caption, which is tokenised as the captions of the training. k < 1 is 10; k beyond the number of images is all.
// A query of unknown words only is an *UnknownError.
func (x *Index) Text(ctx context.Context, query string, k int) (Answer, error) {
	return Answer{}, errors.New("search: not there yet")
}

// OfImage ranks captions for image i.
func (x *Index) OfImage(ctx context.Context, i, k int) (Answer, error) {
	return Answer{}, errors.New("search: not there yet")
}

// OfCaption ranks images for caption c of the split, with the words it was encoded with. It is Text for captions that are there.
func (x *Index) OfCaption(ctx context.Context, c, k int) (Answer, error) {
	return Answer{}, errors.New("search: not there yet")
}
