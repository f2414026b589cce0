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

// EncodeOptions say how a split is embedded. The result does not depend on them.
type EncodeOptions struct {
	Batch    int                   // images or captions at a time; 0 is 128
	Workers  int                   // goroutines that prefetch batches; 0 is 2
	Progress func(done, total int) // images and captions embedded so far; nil reports nothing
	Boxes    *data.StoredBoxes     // of a network that looks at boxes; nil is the images' own
	// Work is a folder where a network that scores pairs keeps the tiles it has scored, and finds those of a run that
	// was killed; "" keeps nothing.
	Work        string
	WorkSetting string                // how a person names another folder for Work, for messages; "" is --work
	Pairs       func(done, total int) // pairs scored so far, of a network that scores pairs; nil reports nothing
	// Plan is told what a device with memory of its own keeps while a network scores pairs; nil reports nothing.
	Plan func(PairPlan)
	// First is the network of the runner in bf16, where ranks alone are wanted of a network that scores pairs: it
	// scores all pairs, and those that may rank otherwise in fp32 are scored again, see settling. nil scores all by the
	// runner.
	First   *models.PairRunner
	Settled func(Settled) // is told how many those were; nil reports nothing
	// ProcessorTime is that of the process, by which First is compared with the runner; nil compares by the clock.
	ProcessorTime func() time.Duration
	// tile is the size of the tiles of pairs; zero is usualPairs.
	tile tileSize
	// Warn is told once that a device has no memory for tiles of the usual size; nil reports nothing.
	Warn func(error)
}

// encode embeds every distinct image and every caption of a split with a network in evaluation mode: images [N, E] and
// captions [M, E], both in file order.
func encode(ctx context.Context, r *models.EmbedRunner, s *data.Split, v text.Tokenizer, o EncodeOptions) (images,
	captions []float32, err error) {
	n, c := s.NumImages(), s.NumCaptions()
	report := o.Progress
	if report == nil {
		report = func(_, _ int) {}
	}
	o.Progress = func(done, _ int) { report(done, n+c) }
	if images, err = EncodeImages(ctx, r, s, o); err != nil {
		return nil, nil, err
	}
	o.Progress = func(done, _ int) { report(n+done, n+c) }
	if captions, err = EncodeCaptions(ctx, r, s, v, o); err != nil {
		return nil, nil, err
	}
	return images, captions, nil
}

// EncodeImages embeds every distinct image of a split: [N, E] in file order.
func EncodeImages(ctx context.Context, r *models.EmbedRunner, s *data.Split, o EncodeOptions) ([]float32, error) {
	e, n := r.Dim(), s.NumImages()
	images := make([]float32, n*e)
	l, err := data.NewImageLoader(s, o.imageLoader(r.Resident))
	if err != nil {
		return nil, err
	}
	done, pieces := 0, NewShardedRows(r.Model.Instance.Dev, images, e)
	err = drain(context.WithoutCancel(ctx), l, func(b *data.Batch) error {
		if done += b.N; o.Progress != nil {
			o.Progress(done, n)
		}
		return pieces.Next(ctx, b.N, func(to []float32) error { return r.Images(to, b.Images) })
	})
	if err == nil {
		err = pieces.Finish(ctx)
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

// EncodeTexts embeds captions given as word ids: [N, dim] in their order. encode is given them in the order of their
// lengths, so that batches need little padding: atOnce captions at a time, which may depend on the longest of those
// that are left. The ranks of a job divide the batches. progress is told how many are done; nil reports nothing.
func EncodeTexts(ctx context.Context, d device.Device, ids [][]int32, dim int, atOnce func(longest int) int,
	encode func(to []float32, b batch.Captions) error, progress func(done, total int)) ([]float32, error) {
	order := make([]int32, len(ids))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return len(ids[b]) - len(ids[a]) })
	rows, sorted := make([]float32, len(ids)*dim), make([]float32, len(ids)*dim)
	pieces := NewShardedRows(d, sorted, dim)
	for lo := 0; lo < len(order); {
		b := batch.Captions{Indices: order[lo:min(len(order), lo+atOnce(len(ids[order[lo]])))]}
		for _, i := range b.Indices {
			b.Add(ids[i])
		}
		n := len(b.Indices)
		if lo += n; progress != nil {
			progress(lo, len(ids))
		}
		if err := pieces.Next(ctx, n, func(to []float32) error { return encode(to, b) }); err != nil {
			return nil, err
		}
	}
	if err := pieces.Finish(ctx); err != nil {
		return nil, err
	}
	for j, i := range order {
		copy(rows[int(i)*dim:][:dim], sorted[j*dim:])
	}
	return rows, nil
}

// loader returns the options of the loaders of a split.
func (o *EncodeOptions) loader() data.LoaderOptions {
	return data.LoaderOptions{Batch: cmp.Or(o.Batch, 128), Workers: o.Workers}
}

// imageLoader returns those of a loader of images, which reads what does not stay on the device.
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

// Score embeds a split and returns its scores: float64 dot products of the embeddings, or what the network's graph
// computes where its score is not a dot product. The ranks of a job divide the work, and rank 0 alone has the scores:
// the others return nil.
func Score(ctx context.Context, pool *par.Pool, r *models.Runner, s *data.Split, v text.Tokenizer,
	o EncodeOptions) (Scores, error) {
	if r.Pairs != nil {
		return scorePairs(ctx, r.Pairs, s, v, o)
	}
	images, captions, err := encode(ctx, r.Embeds, s, v, o)
	if rank, _ := device.RankOf(r.Embeds.Model.Instance.Dev); err != nil || rank > 0 {
		return nil, err
	}
	return ScoreEmbeddings(ctx, pool, r.Embeds, images, captions)
}

// ScoreEmbeddings returns the scores of image embeddings [N, E] and caption embeddings [M, E] of an embedder.
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
