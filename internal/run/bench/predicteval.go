package bench

import (
	"context"
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/device/cuda/model"
	"vsetrain/internal/run/place"
	"vsetrain/models"
)

// The test split of COCO that is evaluated whole ("5K").
const (
	EvalImages   = 5000
	EvalCaptions = 25000
)

// evalSide is the side of the tiles of pairs that a large GPU scores in one run (eval.PairPlan).
const evalSide = 256

// PredictEvaluation is the table of an evaluation of EvalImages images with EvalCaptions captions by a network that
// looks at pairs, on the GPU r.Model: encoding, and scoring all pairs. One batch of evalSide images, one of as many
// captions and one tile of their pairs are predicted, and counted as often as the split has them. What the host does,
// and what it copies, is not in it.
func PredictEvaluation(ctx context.Context, r Request) (*model.Table, error) {
	if r.Model == "" {
		return nil, fmt.Errorf("an evaluation is predicted for a GPU that --model names, and not measured")
	}
	g, err := model.Find(r.Model)
	if err != nil {
		return nil, err
	}
	d, err := openModel(r.Model, r.Config.Device)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return predictEvaluation(ctx, r, g, d)
}

func predictEvaluation(ctx context.Context, r Request, g model.GPU, d device.Device) (*model.Table, error) {
	dims := newBench(r).sizes()
	m, err := models.NewModel(d, r.Config.Model, dims)
	if err != nil {
		return nil, err
	}
	pairs := models.NewRunner(m, nil).Pairs
	if pairs == nil {
		return nil, fmt.Errorf("network %s embeds images and captions apart; --eval predicts networks that look at "+
			"pairs", r.Config.Model.Network)
	}
	x := place.SyntheticBatch(r.Config.Seed, evalSide, dims.Regions, dims.Feature, dims.Vocab, 0, nil)
	if r.Config.Model.Traits().Boxes {
		place.AddBoxes(x, r.Config.Seed)
	}
	var images, captions *models.EncodedSet
	encodeImages := func() error {
		images = &models.EncodedSet{}
		return pairs.AppendImages(images, x.Images, x.N)
	}
	encodeCaptions := func() error {
		captions = &models.EncodedSet{}
		return pairs.AppendCaptions(captions, x.Captions, x.N)
	}
	scores := make([]float32, evalSide*evalSide)
	score := func() error {
		return pairs.Score(scores, images, 0, evalSide, captions, 0, evalSide, len(x.Words))
	}
	stay := func() error {
		if err := pairs.MakeResident(images, 0, evalSide, 0); err != nil {
			return err
		}
		return pairs.MakeResident(captions, 0, evalSide, len(x.Words))
	}
	total := &model.Table{GPU: g.Name}
	over := func(n, side int) float64 { return float64((n + side - 1) / side) }
	tiles := over(EvalImages, evalSide) * over(EvalCaptions, evalSide)
	for _, part := range []struct {
		before, do func() error
		times      float64
	}{
		{nil, encodeImages, float64(EvalImages) / evalSide}, {nil, encodeCaptions, float64(EvalCaptions) / evalSide},
		{stay, score, tiles},
	} {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if part.before != nil {
			if err := part.before(); err != nil {
				return nil, err
			}
		}
		if err := part.do(); err != nil { // takes scratch memory
			return nil, err
		}
		calls, err := d.(cuda.Profiler).Profile(false, part.do)
		if err != nil {
			return nil, err
		}
		t, err := model.Predict(g, batchOf(x.Lengths), calls)
		if err != nil {
			return nil, err
		}
		total.Add(t, part.times)
	}
	return total, nil
}
