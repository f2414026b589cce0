package pretrained

import (
	"context"

	"vsetrain/batch"
	"vsetrain/data"
	"vsetrain/models"
)

// BatchScores scores the images of some captions with the captions themselves, as a training step does but with the
// network in evaluation mode: [n, n], row i the image of captions[i], column j captions[j].
func (t *Network) BatchScores(ctx context.Context, captions []int32) ([]float64, error) {
	n, s, m := len(captions), t.Split, t.Model
	size := s.Regions() * s.Dim()
	regions := make([]float32, n*size)
	var boxes []float32
	if m.Options.Traits().Boxes {
		boxes = make([]float32, n*4*s.Regions())
	}
	for i, c := range captions {
		row := s.ImageRow(int(c))
		if err := s.ReadImage(regions[i*size:(i+1)*size], row); err != nil {
			return nil, err
		}
		if boxes != nil {
			if err := s.ReadBoxes(boxes[i*4*s.Regions():(i+1)*4*s.Regions()], row); err != nil {
				return nil, err
			}
		}
	}
	loader, err := data.NewCaptionLoader(s, t.Tokenizer, captions, data.LoaderOptions{Batch: n, Workers: 1})
	if err != nil {
		return nil, err
	}
	defer loader.Close()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b, err := loader.Next()
	if err != nil {
		return nil, err
	}
	scores := make([]float32, n*n)
	im := batch.Images{N: n, Features: regions, Boxes: boxes}
	if r := t.Runner; r.Pairs != nil {
		err = scorePairBatch(r.Pairs, scores, im, b.Captions)
	} else {
		err = scoreEmbedded(r.Embeds, scores, im, b.Captions)
	}
	if err != nil {
		return nil, err
	}
	column := map[int32]int{} // the batch is sorted by length
	for j, c := range b.Indices {
		column[c] = j
	}
	out := make([]float64, n*n)
	for i := range n {
		for j, c := range captions {
			out[i*n+j] = float64(scores[i*n+column[c]])
		}
	}
	return out, nil
}

func scoreEmbedded(r *models.EmbedRunner, scores []float32, im batch.Images, ca batch.Captions) error {
	n, e := im.N, r.Dim()
	images, captions := make([]float32, n*e), make([]float32, n*e)
	if err := r.Images(images, im); err != nil {
		return err
	}
	if err := r.Captions(captions, ca); err != nil {
		return err
	}
	return r.Scores(scores, images, captions, n, n)
}

func scorePairBatch(r *models.PairRunner, scores []float32, im batch.Images, ca batch.Captions) error {
	var images, captions models.EncodedSet
	if err := r.AppendImages(&images, im, im.N); err != nil {
		return err
	}
	if err := r.AppendCaptions(&captions, ca, im.N); err != nil {
		return err
	}
	return r.Score(scores, &images, 0, im.N, &captions, 0, im.N, captions.First[im.N])
}
