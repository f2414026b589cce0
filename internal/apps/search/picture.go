package search

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vsetrain/batch"
	"vsetrain/data"
	"vsetrain/internal/apps/extract"
	"vsetrain/internal/files/pictures"
)

// Extractor computes the features of pictures with the same model as the features of the split.
type Extractor struct {
	*extract.Extractor
	index *Index
}

// ErrNoExtractor means that the model which made the features of a split is unknown.
var ErrNoExtractor = errors.New("nothing says which model")

// OpenExtractor opens a model for pictures; "" is the model that made the features of the split, as recorded by
// 'vsetrain data extract'. Another model than the recorded one is an error. If there is no record, Options.Warn is
// told. getenv reads the environment, for the library of ONNX Runtime.
func (x *Index) OpenExtractor(model string, getenv func(string) string) (_ *Extractor, err error) {
	s := x.split
	for _, m := range x.all() {
		if other := m.common().Split; other.Dir() != s.Dir() {
			return nil, fmt.Errorf("the networks read features of %s and %s; a picture has the features of one model: "+
				"name one data set with --data", s.Dir(), other.Dir())
		}
	}
	record, err := data.LoadExtractor(s.Dir(), s.Name())
	if err != nil {
		return nil, err
	}
	switch {
	case model == "" && record == nil:
		return nil, fmt.Errorf("%w made the features of %s: there is no %s; name it with --extractor FILE.onnx",
			ErrNoExtractor, s.FeaturePath(), data.ExtractorFile(s.Dir(), s.Name()))
	case model == "":
		model = record.Model
	}
	e := &Extractor{index: x}
	if e.Extractor, err = extract.Open(model, getenv, x.opt.Device.Threads); err != nil {
		return nil, err
	}
	if err := e.fits(s, record); err != nil {
		e.Close()
		return nil, err
	}
	if record == nil {
		x.opt.warn(fmt.Errorf("there is no record that %s made the features of %s; with features of another model, "+
			"scores mean nothing", model, s.FeaturePath()))
	}
	return e, nil
}

// fits checks that the extractor made the features of the split.
func (e *Extractor) fits(s *data.Split, record *data.ExtractorRecord) error {
	if record != nil {
		if err := e.Made(record); err != nil {
			return err
		}
	}
	regions, dim := s.Regions(), s.Dim()
	if regions == 0 { // captions alone: the size that the network reads
		d := e.index.members[0].common().Model.Dims
		regions, dim = d.Regions, d.Feature
	}
	if e.Regions*e.Dim != regions*dim || s.Regions() > 0 && e.Dim != dim {
		return fmt.Errorf("%s makes features of %d x %d, %s has %d x %d; name the model that made them with "+
			"--extractor", e.Model, e.Regions, e.Dim, s.FeaturePath(), regions, dim)
	}
	for _, m := range e.index.all() {
		if err := m.common().Takes(e.Features()); err != nil {
			return err
		}
		if m.common().Model.Options.Traits().Boxes && !e.HasBoxes() {
			return fmt.Errorf("%s: the network reads boxes of regions, and %s has none: its output is not a grid",
				m.common().Name, e.Model)
		}
	}
	return nil
}

// picture is an image outside the split: features [regions, dim], and boxes [regions, 4] as shares of its width and
// height, or nil.
type picture struct{ features, boxes []float32 }

// OfPicture ranks captions for a picture; Answer.Rank is -1.
func (e *Extractor) OfPicture(ctx context.Context, p *pictures.RGB, k int) (Answer, error) {
	start := time.Now()
	if err := needs(e.index.split, ImageQueries); err != nil {
		return Answer{}, err
	}
	features, err := e.Picture(ctx, p)
	if err != nil {
		return Answer{}, err
	}
	in := picture{features: features}
	if e.HasBoxes() {
		in.boxes = e.Boxes(p.Width, p.Height)
		for i := range in.boxes {
			in.boxes[i] /= float32([]int{p.Width, p.Height}[i%2])
		}
	}
	return e.index.answer(ctx, start, k, &probe{picture: &in})
}

var errNoBoxes = errors.New("the network reads boxes of regions, and the picture has none")

func (e *encoder) batch(p picture) (batch.Images, error) {
	b := batch.Images{N: 1, Features: p.features}
	if e.Model.Options.Traits().Boxes {
		if b.Boxes = p.boxes; b.Boxes == nil {
			return b, errNoBoxes
		}
	}
	return b, nil
}
