package search

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"vsetrain/batch"
	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/files/safetensors"
	"vsetrain/models"
)

// embedder is a network with one vector per image and per caption: VSE++, VSRN, VSE-infinity.
type embedder struct {
	*encoder
	dim              int
	images, captions side[[]float32] // [N, E], [M, E]
	bf16             *bf16Queries
}

// imageRows returns the embeddings [N, E] of all images.
func (m *embedder) imageRows(ctx context.Context) ([]float32, error) {
	return m.images.get(m.encoder, func() ([]float32, error) {
		return m.imagesOf(ctx)
	})
}

// imagesOf takes the embeddings of all images from the cache, or makes them.
func (m *embedder) imagesOf(ctx context.Context) ([]float32, error) {
	return m.rows(ctx, imageSide, "image", m.Split.NumImages(), func() ([]float32, error) {
		if added, removed := data.Changed(m.Split); added+removed > 0 && m.opt.Cache != "" {
			return m.ofChanged(ctx)
		}
		return eval.EncodeImages(ctx, m.Runner.Embeds, m.Split, m.options(imageSide))
	})
}

// ofChanged embeds a gallery that has changed: the images of its original files, which may be in the cache, and the
// added images one by one.
func (m *embedder) ofChanged(ctx context.Context) ([]float32, error) {
	r := m.opt.trained("")
	r.Original = true
	t, err := r.Again(m.Network)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	base := &embedder{encoder: &encoder{Network: t, opt: m.opt, pool: m.pool, mu: m.mu, original: true}, dim: m.dim}
	rows, err := base.imagesOf(ctx)
	if err != nil {
		return nil, err
	}
	rows, _, err = m.takeOver(ctx, t.Split, rows, m.run)
	return rows, err
}

// takeOver returns the embeddings of all images: rows of an earlier split for images with the same features there,
// otherwise the result of embed. It also returns how many it embedded.
func (m *embedder) takeOver(ctx context.Context, earlier *data.Split, rows []float32,
	embed func(picture) ([]float32, error)) (all []float32, embedded int, err error) {
	same, err := data.Unchanged(earlier, m.Split)
	if err != nil {
		return nil, 0, err
	}
	all = make([]float32, len(same)*m.dim)
	for i, j := range same {
		if j >= 0 {
			copy(all[i*m.dim:(i+1)*m.dim], rows[int(j)*m.dim:])
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		p, err := m.readImage(i)
		if err != nil {
			return nil, 0, err
		}
		q, err := embed(p)
		if err != nil {
			return nil, 0, fmt.Errorf("image %q: %w", idOf(m.Split, i), err)
		}
		copy(all[i*m.dim:], q)
		embedded++
	}
	return all, embedded, nil
}

// captionRows returns the embeddings [M, E] of all captions.
func (m *embedder) captionRows(ctx context.Context) ([]float32, error) {
	return m.captions.get(m.encoder, func() ([]float32, error) {
		return m.rows(ctx, captionSide, "caption", m.Split.NumCaptions(), func() ([]float32, error) {
			return eval.EncodeCaptions(ctx, m.Runner.Embeds, m.Split, m.Tokenizer, m.options(captionSide))
		})
	})
}

// rows takes n embeddings from the cache, or makes them, and checks them.
func (m *embedder) rows(ctx context.Context, side, what string, n int, encode func() ([]float32, error)) (
	rows []float32, err error) {
	err = m.cached(ctx, side, func() ([]safetensors.Tensor, error) {
		if rows, err = encode(); err != nil || m.opt.Cache == "" {
			return nil, err
		}
		return []safetensors.Tensor{safetensors.FromFloat32s(side, []int{n, m.dim}, rows)}, nil
	}, func(f *safetensors.File) (err error) {
		rows, err = floats(f, side, n*m.dim)
		return err
	})
	if err == nil {
		err = finite(what, rows, m.dim)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	return rows, nil
}

func embedders() string {
	return strings.Join(models.NamesWhere(func(t models.Traits) bool { return t.Embeds }), ", ")
}

func query(words []int32) (b batch.Captions) {
	b.Add(words)
	return b
}

func (m *embedder) prepare(ctx context.Context, q Queries) (err error) {
	if q&TextQueries != 0 {
		if _, err = m.imageRows(ctx); err == nil {
			err = m.compileTexts()
		}
	}
	if err == nil && q&ImageQueries != 0 {
		_, err = m.captionRows(ctx)
	}
	return err
}

// compileTexts compiles the graphs of captions of usual lengths, so that the first typed query does not wait for them.
func (m *embedder) compileTexts() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := make([]float32, m.dim)
	for _, l := range []int{8, 16} {
		if err := m.Runner.Embeds.Captions(q, query(make([]int32, l))); err != nil {
			return err
		}
	}
	return nil
}

func (m *embedder) score(ctx context.Context, dst []float64, q *probe, of []int32) error {
	candidates := m.captionRows
	if q.forImages() {
		candidates = m.imageRows
	}
	x, err := candidates(ctx)
	if err != nil {
		return err
	}
	v, err := m.embedding(ctx, q)
	if err != nil {
		return err
	}
	return m.compare(dst, x, v, of, !q.forImages())
}

func (m *embedder) embedding(ctx context.Context, q *probe) ([]float32, error) {
	switch {
	case q.vector != nil:
		return q.vector, nil
	case q.words != nil:
		v, err := m.encodeQueries(ctx, [][]int32{q.words[m.encoder]})
		if err == nil {
			if err = finite("query", v, m.dim); err != nil {
				err = fmt.Errorf("%s: %w", m.Name, err)
			}
		}
		return v, err
	case q.caption:
		captions, err := m.captionRows(ctx)
		if err != nil {
			return nil, err
		}
		return captions[q.number*m.dim : (q.number+1)*m.dim], nil
	case q.picture != nil:
		return m.embed(*q.picture)
	}
	return m.imageRow(q.number)
}

// imageRow returns the embedding of one image without encoding the others.
func (m *embedder) imageRow(i int) ([]float32, error) {
	if images, ready := m.images.made(); ready {
		return images[i*m.dim : (i+1)*m.dim], nil
	}
	p, err := m.readImage(i)
	if err != nil {
		return nil, err
	}
	return m.embed(p)
}

func (m *embedder) embed(p picture) ([]float32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.run(p)
}

// run is embed for a caller that holds the lock.
func (m *embedder) run(p picture) ([]float32, error) {
	b, err := m.batch(p)
	if err != nil {
		return nil, err
	}
	q := make([]float32, m.dim)
	err = m.Runner.Embeds.Images(q, b)
	if err == nil {
		err = finite("image", q, m.dim)
	}
	return q, err
}

func (m *embedder) all(ctx context.Context, pool *par.Pool) (eval.Scores, error) {
	images, err := m.imageRows(ctx)
	if err != nil {
		return nil, err
	}
	captions, err := m.captionRows(ctx)
	if err != nil {
		return nil, err
	}
	if !m.Runner.Embeds.DotProduct() { // the network runs
		m.mu.Lock()
		defer m.mu.Unlock()
	}
	return eval.ScoreEmbeddings(ctx, pool, m.Runner.Embeds, images, captions)
}

// compare scores a query with rows of x. If the score is not a dot product, the network's graph computes it. image
// reports whether the query is an image.
func (m *embedder) compare(dst []float64, x, q []float32, of []int32, image bool) error {
	if m.Runner.Embeds.DotProduct() {
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
			err = m.Runner.Embeds.Scores(out[:n], q, part, 1, n)
		} else {
			err = m.Runner.Embeds.Scores(out[:n], part, q, n, 1)
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

// finite returns an error if embeddings [N, dim] are not finite.
func finite(what string, x []float32, dim int) error {
	for lo := 0; lo < len(x); lo += dim {
		var bad float32 // v-v is 0, or NaN when v is not finite
		for _, v := range x[lo : lo+dim] {
			bad += v - v
		}
		if bad != 0 {
			at := slices.IndexFunc(x[lo:lo+dim], func(v float32) bool { return v-v != 0 })
			return fmt.Errorf("%s embedding %d: component %d is %v: the weights have diverged, or the input of this "+
				"row is all zeros", what, lo/dim, at, x[lo+at])
		}
	}
	return nil
}
