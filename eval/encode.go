package eval

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"vsetrain/batch"
	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/par"
	"vsetrain/models"
)

// EncodeOptions control how a split is embedded. They do not change the result.
type EncodeOptions struct {
	Batch    int                   // images or captions at a time; 0 means 128
	Workers  int                   // goroutines that prefetch batches; 0 means 2
	Progress func(done, total int) // images and captions embedded so far; may be nil
	Boxes    *data.StoredBoxes     // for a network that reads boxes; nil takes the boxes of the images
	// Work is a folder in which a network that scores pairs keeps the tiles that it has scored, so that a killed run
	// can continue; "" keeps nothing.
	Work        string
	WorkSetting string                // how a user names another folder for Work, for messages; "" means --work
	Pairs       func(done, total int) // pairs scored so far, for a network that scores pairs; may be nil
	// Plan receives what stays in device memory while a network scores pairs; may be nil.
	Plan func(PairPlan)
	// First runs the same network in bf16, for a network that scores pairs when only ranks are needed. It scores all
	// pairs; pairs whose rank may differ in fp32 are scored again (see settling). nil scores all pairs in fp32.
	First   *models.PairRunner
	Settled func(Settled) // receives how many pairs were scored again; may be nil
	// ProcessorTime is the processor time of the process, to compare the speed of First; nil takes the wall clock.
	ProcessorTime func() time.Duration
	// tile is the size of the tiles of pairs; zero means usualPairs.
	tile tileSize
	// Warn is told once if device memory is too small for tiles of the usual size; may be nil.
	Warn func(error)
}

// part returns options whose progress is a part of a larger count, which begins at first.
func (o EncodeOptions) part(first, total int) EncodeOptions {
	if report := o.Progress; report != nil {
		o.Progress = func(done, _ int) { report(first+done, total) }
	}
	return o
}

// EncodeImages embeds every distinct image of a split: [N, E] in file order.
func EncodeImages(ctx context.Context, r *models.EmbedRunner, s *data.Split, o EncodeOptions) ([]float32, error) {
	e, n := r.Dim(), s.NumImages()
	images := make([]float32, n*e)
	l, err := data.NewImageLoader(s, o.imageLoader(r.Resident))
	if err != nil {
		return nil, err
	}
	done, pieces := 0, &shardedRows{v: divisionOf(r.Model.Instance.Dev), rows: images, width: e}
	err = drain(context.WithoutCancel(ctx), l, func(b *data.Batch) error {
		if done += b.N; o.Progress != nil {
			o.Progress(done, n)
		}
		return pieces.next(ctx, b.N, func(to []float32) error { return r.Images(to, b.Images) })
	})
	if err == nil {
		err = pieces.finish(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("embed images of split %s: %w", s.Name(), err)
	}
	return images, nil
}

// EncodeCaptions embeds every caption of a split: [M, E] in file order.
func EncodeCaptions(ctx context.Context, r *models.EmbedRunner, s *data.Split, v text.Tokenizer,
	o EncodeOptions) ([]float32, error) {
	words, starts, err := data.CaptionIDs(s, v)
	if err != nil {
		return nil, err
	}
	ids := make([][]int32, s.NumCaptions())
	for i := range ids {
		ids[i] = words[starts[i]:starts[i+1]]
	}
	captions, err := EncodeTexts(ctx, r.Model.Instance.Dev, ids, r.Dim(), func(int) int { return cmp.Or(o.Batch, 128) },
		r.Captions, o.Progress)
	if err != nil {
		return nil, fmt.Errorf("embed captions of split %s: %w", s.Name(), err)
	}
	return captions, nil
}

// EncodeTexts embeds captions given as word ids: [N, dim] in their order. To save padding, it passes them to encode
// longest first, atOnce captions at a time, which may depend on the longest caption left. The ranks of a job divide the
// batches. progress may be nil.
func EncodeTexts(ctx context.Context, d device.Device, ids [][]int32, dim int, atOnce func(longest int) int,
	encode func(to []float32, b batch.Captions) error, progress func(done, total int)) ([]float32, error) {
	order := make([]int32, len(ids))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return len(ids[b]) - len(ids[a]) })
	rows, sorted := make([]float32, len(ids)*dim), make([]float32, len(ids)*dim)
	pieces := &shardedRows{v: divisionOf(d), rows: sorted, width: dim}
	for lo := 0; lo < len(order); {
		b := batch.Captions{Indices: order[lo:min(len(order), lo+atOnce(len(ids[order[lo]])))]}
		for _, i := range b.Indices {
			b.Add(ids[i])
		}
		n := len(b.Indices)
		if lo += n; progress != nil {
			progress(lo, len(ids))
		}
		if err := pieces.next(ctx, n, func(to []float32) error { return encode(to, b) }); err != nil {
			return nil, err
		}
	}
	if err := pieces.finish(ctx); err != nil {
		return nil, err
	}
	for j, i := range order {
		copy(rows[int(i)*dim:][:dim], sorted[j*dim:])
	}
	return rows, nil
}

// loader returns the options for loaders of a split.
func (o *EncodeOptions) loader() data.LoaderOptions {
	return data.LoaderOptions{Batch: cmp.Or(o.Batch, 128), Workers: o.Workers}
}

// imageLoader returns the options for a loader of images, which skips the fields that are resident on the device.
func (o *EncodeOptions) imageLoader(r *models.Resident) data.LoaderOptions {
	lo := o.loader()
	lo.Boxes, lo.Fields = o.Boxes, []data.Field{}
	if !r.HasFeatures() {
		lo.Fields = append(lo.Fields, data.FieldFeatures)
	}
	if !r.HasBoxes() {
		lo.Fields = append(lo.Fields, data.FieldBoxes)
	}
	return lo
}

// Score embeds a split with a network in evaluation mode and returns its scores: float64 dot products of the
// embeddings, or the output of the network's graph if its score is not a dot product. The ranks of a job divide the
// work. Only rank 0 has the scores; the others return nil.
func Score(ctx context.Context, pool *par.Pool, r *models.Runner, s *data.Split, v text.Tokenizer,
	o EncodeOptions) (Scores, error) {
	if r.Pairs != nil {
		return scorePairs(ctx, r.Pairs, s, v, o)
	}
	n, all := s.NumImages(), s.NumImages()+s.NumCaptions()
	images, err := EncodeImages(ctx, r.Embeds, s, o.part(0, all))
	if err != nil {
		return nil, err
	}
	captions, err := EncodeCaptions(ctx, r.Embeds, s, v, o.part(n, all))
	if rank, _ := device.RankOf(r.Embeds.Model.Instance.Dev); err != nil || rank > 0 {
		return nil, err
	}
	return ScoreEmbeddings(ctx, pool, r.Embeds, images, captions)
}

// ScoreEmbeddings returns the scores of image embeddings [N, E] and caption embeddings [M, E].
func ScoreEmbeddings(ctx context.Context, pool *par.Pool, r *models.EmbedRunner, images, captions []float32) (Scores,
	error) {
	if r.DotProduct() {
		return newEmbeddings(pool, images, captions, r.Dim())
	}
	e := r.Dim()
	n, c := len(images)/e, len(captions)/e
	d, err := newDense[float32](n, c)
	if err != nil {
		return nil, err
	}
	const tile = 256
	out := make([]float32, tile*tile)
	for i := 0; i < n; i += tile {
		for j := 0; j < c; j += tile {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			in, jn := min(tile, n-i), min(tile, c-j)
			if err := r.Scores(out[:in*jn], images[i*e:(i+in)*e], captions[j*e:(j+jn)*e], in, jn); err != nil {
				return nil, err
			}
			if err := d.Put(out[:in*jn], i, i+in, j, j+jn); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}
