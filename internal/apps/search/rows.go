package search

import (
	"context"
	"errors"
	"fmt"

	"vsetrain/batch"
)

// NoEmbeddingError says why captions and images have no embedding here.
type NoEmbeddingError struct{ text string }

// Error implements error.
func (e *NoEmbeddingError) Error() string { return e.text }

// single returns the only member, an embedder.
func (x *Index) single() (*embedder, error) {
	if len(x.members) > 1 {
		return nil, &NoEmbeddingError{fmt.Sprintf("an ensemble of %d networks has no common embedding; open one of "+
			"them", len(x.members))}
	}
	if e, ok := x.members[0].(*embedder); ok {
		return e, nil
	}
	m := x.members[0].common()
	return nil, &NoEmbeddingError{fmt.Sprintf("%s: network %s scores pairs of an image and a caption, so neither has "+
		"an embedding; expected an embedder (%s)", m.Name, m.Model.Options.Network, embedders())}
}

// Dims are the sizes of what an embedder takes and gives.
type Dims struct {
	Embedding int // values of an embedding
	Regions   int // of an image
	Feature   int // values of a region
}

// Dims returns the sizes, or a *NoEmbeddingError.
func (x *Index) Dims() (Dims, error) {
	e, err := x.single()
	if err != nil {
		return Dims{}, err
	}
	d := e.Model.Dims
	return Dims{Embedding: e.dim, Regions: d.Regions, Feature: d.Feature}, nil
}

// CaptionRows embeds captions: [len(captions), E], and the words of each that the vocabulary lacks. A caption of
// unknown words only is an *UnknownError, one that the network cannot be asked a *QueryError.
func (x *Index) CaptionRows(ctx context.Context, captions []string) (rows []float32, unknown [][]string, err error) {
	e, err := x.single()
	if err != nil {
		return nil, nil, err
	}
	ids := make([][]int32, len(captions))
	unknown = make([][]string, len(captions))
	for i, c := range captions {
		if unknown[i], err = x.unknown(c); err != nil {
			return nil, nil, err
		}
		if ids[i], err = e.words(c); err != nil {
			return nil, nil, err
		}
	}
	if rows, err = e.encode(ctx, ids); err == nil {
		err = finite("caption", rows, e.dim)
	}
	return rows, unknown, err
}

// ImageRows embeds images that are not of the split, features [N, Regions·Feature]: [N, E].
func (x *Index) ImageRows(ctx context.Context, features []float32) ([]float32, error) {
	e, err := x.single()
	if err != nil {
		return nil, err
	}
	size := e.Model.Dims.Regions * e.Model.Dims.Feature
	if len(features) == 0 || len(features)%size != 0 {
		return nil, &QueryError{fmt.Sprintf("%d values; an image of %s has %d regions of %d", len(features), e.Name,
			e.Model.Dims.Regions, e.Model.Dims.Feature)}
	}
	n := len(features) / size
	rows := make([]float32, n*e.dim)
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range n { // one graph; other numbers of images would each be compiled
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		err := e.Runner.Embeds.Images(rows[i*e.dim:(i+1)*e.dim],
			batch.Images{N: 1, Features: features[i*size : (i+1)*size]})
		if err != nil {
			return nil, err
		}
	}
	if err := finite("image", rows, e.dim); err != nil {
		return nil, &QueryError{err.Error()}
	}
	return rows, nil
}

// PrepareBatches does now what the first calls of Batch would wait for: it encodes the images, brings them into the
// layout of the products, and compiles the graphs of captions of usual lengths for the numbers of captions that are
// embedded together. The largest of them runs, which takes the memory of all from the system. Where the precision of
// queries is left to it, it chooses that first.
func (x *Index) PrepareBatches(ctx context.Context) error {
	choosePrecision(x)
	for _, m := range x.all() {
		e, ok := m.(*embedder)
		if !ok || e.bf16.inUse() {
			continue
		}
		err := compileBatches(func(ids [][]int32) ([]float32, error) { return e.encode(ctx, ids) })
		if err != nil {
			return err
		}
	}
	return packed(ctx, x)
}

// packed brings the embeddings of the images of an index into the layout of the products, where there are any.
func packed(ctx context.Context, x *Index) error {
	members, together := x.dotProducts()
	if !together {
		return nil
	}
	images := make([][]float32, len(members))
	for i, m := range members {
		var err error
		if images[i], err = m.imageRows(ctx); err != nil {
			return err
		}
	}
	x.batching.Lock()
	defer x.batching.Unlock()
	return x.packImages(images)
}

func compileBatches(encode func(ids [][]int32) ([]float32, error)) error {
	const longest = 32
	full := make([][]int32, MaxBatch) // takes the memory of all
	for i := range full {
		full[i] = make([]int32, longest)
	}
	if _, err := encode(full); err != nil {
		return err
	}
	for n := 1; n <= MaxBatch; n *= 2 {
		for l := 8; l <= longest; l += 8 {
			ids := make([][]int32, n)
			for i := range ids {
				ids[i] = make([]int32, 1)
			}
			ids[0] = make([]int32, l)
			if _, err := encode(ids); err != nil {
				return err
			}
		}
	}
	return nil
}

// Refused reports whether an error lies in the query, not in the network or the machine.
func Refused(err error) bool {
	var unknown *UnknownError
	var query *QueryError
	var none *NoEmbeddingError
	return errors.As(err, &unknown) || errors.As(err, &query) || errors.As(err, &none)
}
