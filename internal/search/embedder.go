package search

import (
	"context"
	"fmt"
	"slices"

	"vsetrain/eval"
	"vsetrain/internal/safetensors"
)

// embedder is a network with one vector per image and per caption: VSE++, VSRN, VSE-infinity.
type embedder struct {
	*encoder
	dim              int
	images, captions []float32 // [N, E], [M, E]
}

func newEmbedder(ctx context.Context, e *encoder) (*embedder, error) {
	m := &embedder{encoder: e, dim: e.Model.EmbedDim()}
	err := e.cached(ctx, func() ([]safetensors.Tensor, error) {
		var err error
		if m.images, m.captions, err = eval.Encode(ctx, e.Model, e.Split, e.Lexicon, e.options()); err != nil || e.opt.Cache == "" {
			return nil, err
		}
		return []safetensors.Tensor{
			safetensors.FromFloat32s("images", []int{e.Split.NumImages(), m.dim}, m.images),
			safetensors.FromFloat32s("captions", []int{e.Split.NumCaptions(), m.dim}, m.captions),
		}, nil
	}, func(f *safetensors.File) (err error) {
		if m.images, err = floats(f, "images", e.Split.NumImages()*m.dim); err == nil {
			m.captions, err = floats(f, "captions", e.Split.NumCaptions()*m.dim)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := finite("image", m.images, m.dim); err != nil {
		return nil, fmt.Errorf("%s: %w", e.Name, err)
	}
	if err := finite("caption", m.captions, m.dim); err != nil {
		return nil, fmt.Errorf("%s: %w", e.Name, err)
	}
	return m, m.prepare()
}

// prepare compiles the graphs of queries of the usual lengths, so that the first query does not wait for them.
func (m *embedder) prepare() error {
	q := make([]float32, m.dim)
	for _, l := range []int{8, 16} {
		if err := m.Model.EncodeCaptions(q, make([]int32, l), []int32{int32(l)}, 1, l); err != nil {
			return err
		}
	}
	return nil
}

func (m *embedder) text(_ context.Context, dst []float64, words, of []int32) error {
	q := make([]float32, m.dim)
	m.mu.Lock()
	err := m.Model.EncodeCaptions(q, words, []int32{int32(len(words))}, 1, len(words))
	m.mu.Unlock()
	if err != nil {
		return err
	}
	if err := finite("query", q, m.dim); err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	return m.score(dst, m.images, q, of, false)
}

func (m *embedder) caption(_ context.Context, dst []float64, c int, of []int32) error {
	return m.score(dst, m.images, m.captions[c*m.dim:(c+1)*m.dim], of, false)
}

func (m *embedder) image(_ context.Context, dst []float64, i int, of []int32) error {
	return m.score(dst, m.captions, m.images[i*m.dim:(i+1)*m.dim], of, true)
}

func (m *embedder) all(ctx context.Context) (eval.Scores, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return eval.ScoreEmbeddings(ctx, m.pool, m.Model, m.images, m.captions)
}

// score compares a query with rows of x. Where the score is no dot product, the network's graph computes it; image tells which side
// the query is.
func (m *embedder) score(dst []float64, x, q []float32, of []int32, image bool) error {
	if m.Model.Embedder().DotProduct() {
		dotRows(m.pool, dst, x, widen(q), of)
		return nil
	}
	const tile = 1024
	if of != nil {
		picked := make([]float32, 0, len(of)*m.dim)
		for _, j := range of {
			picked = append(picked, x[int(j)*m.dim:(int(j)+1)*m.dim]...)
		}
		x = picked
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]float32, min(tile, len(dst)))
	for lo := 0; lo < len(dst); lo += tile {
		n := min(tile, len(dst)-lo)
		part := x[lo*m.dim : (lo+n)*m.dim]
		var err error
		if image {
			err = m.Model.Scores(out[:n], q, part, 1, n)
		} else {
			err = m.Model.Scores(out[:n], part, q, n, 1)
		}
		if err != nil {
			return err
		}
		for j, v := range out[:n] {
			dst[lo+j] = float64(v)
		}
	}
	return nil
}

// finite checks embeddings [N, dim].
func finite(what string, x []float32, dim int) error {
	for lo := 0; lo < len(x); lo += dim {
		var bad float32 // v-v is 0, or NaN when v is not finite
		for _, v := range x[lo : lo+dim] {
			bad += v - v
		}
		if bad != 0 {
			at := slices.IndexFunc(x[lo:lo+dim], func(v float32) bool { return v-v != 0 })
			return fmt.Errorf("%s embedding %d: component %d is %v: the weights have diverged, or the input of this row is all zeros", what, lo/dim, at, x[lo+at])
		}
	}
	return nil
}
