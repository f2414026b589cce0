package search

import (
	"context"
	"errors"
	"fmt"

	"vsetrain/batch"
	"vsetrain/internal/run/pretrained"
)

// NoEmbeddingError says why captions and images have no embedding.
type NoEmbeddingError struct{ text string }

// Error implements error.
func (e *NoEmbeddingError) Error() string { return e.text }

func noEmbedding(t *pretrained.Network) error {
	return &NoEmbeddingError{fmt.Sprintf("%s: network %s scores pairs of an image and a caption, so neither has an "+
		"embedding; expected an embedder (%s)", t.Name, t.Model.Options.Network, embedders())}
}

// single returns the only member if it is an embedder, otherwise a *NoEmbeddingError.
func (x *Index) single() (*embedder, error) {
	if len(x.members) > 1 {
		return nil, &NoEmbeddingError{fmt.Sprintf("an ensemble of %d networks has no common embedding; open one of "+
			"them", len(x.members))}
	}
	if e, ok := x.members[0].(*embedder); ok {
		return e, nil
	}
	return nil, noEmbedding(x.members[0].common().Network)
}

// Dims are the sizes of the inputs and outputs of an embedder.
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

// CaptionRows embeds captions, [len(captions), E], and returns the words of each that the vocabulary lacks. It returns
// the same errors as Text.
func (x *Index) CaptionRows(ctx context.Context, captions []string) (rows []float32, unknown [][]string, err error) {
	e, err := x.single()
	if err != nil {
		return nil, nil, err
	}
	ids := make([][]int32, len(captions))
	unknown = make([][]string, len(captions))
	for i, c := range captions {
		p, err := x.tokenise(c)
		if err != nil {
			return nil, nil, err
		}
		ids[i], unknown[i] = p.words[e.encoder], p.unknown
	}
	if rows, err = e.encode(ctx, ids); err == nil {
		err = finite("caption", rows, e.dim)
	}
	return rows, unknown, err
}

// ImageRows embeds images outside the split, given as features [N, Regions·Feature]: [N, E].
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
	for i := range n { // one at a time: each number of images would need a graph
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

// PrepareBatches does the work that the first calls of Batch would wait for: it encodes the images, brings them into
// the layout of the products, and compiles the graphs of captions of usual lengths for the numbers of captions that are
// embedded together. It runs the largest, which allocates the memory for all. With precision auto, it first chooses the
// precision of queries.
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
	return pack(ctx, x)
}

// pack brings the embeddings of the images into the layout of the products, if scores are dot products.
func pack(ctx context.Context, x *Index) error {
	members, together := x.dotProducts()
	if !together {
		return nil
	}
	x.batching.Lock()
	defer x.batching.Unlock()
	return x.packImages(ctx, members)
}

func compileBatches(encode func(ids [][]int32) ([]float32, error)) error {
	const longest = 32
	full := make([][]int32, MaxBatch) // allocates the memory for all
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

// Refused reports whether the query caused an error, not the network or the machine.
func Refused(err error) bool {
	_, unknown := errors.AsType[*UnknownError](err)
	_, query := errors.AsType[*QueryError](err)
	_, none := errors.AsType[*NoEmbeddingError](err)
	return unknown || query || none
}
