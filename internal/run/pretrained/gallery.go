package pretrained

import (
	"errors"
	"fmt"

	"vsetrain/internal/run/inputs"
	"vsetrain/models"
)

// Gallery compares the origin of the features of a split with that recorded for a checkpoint, without opening either.
func Gallery(checkpoint, dir, split string) (note string, err error) {
	p, err := trace(checkpoint, dir)
	if err != nil {
		return "", err
	}
	f, err := inputs.FeaturesOf(dir, split, 0, 0)
	_, note = p.compare(fmt.Sprintf("split %s of %s", split, dir), f)
	return note, err
}

// Takes returns an error if the features that a model makes do not match the features of the training.
func (t *Network) Takes(f inputs.Features) error {
	if origin, note := t.provenance.compare("pictures", f); origin == OtherOrigin {
		return errors.New(note)
	}
	return nil
}

// Reads returns an error if a checkpoint cannot read the features [.., regions, dim] that a model makes: the size does
// not fit, the network needs boxes that are missing, or another model made the features of its training. If that model
// is unknown, the note says so.
func Reads(checkpoint string, regions, dim int, boxes bool, f inputs.Features) (note string, err error) {
	c, err := models.OpenWeights(checkpoint, nil)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_, err = sizesFit(c, regions, dim, f.Model+" makes", "name the model of its features with --extractor")
	if err != nil {
		return "", err
	}
	if o := c.Network(); o.Traits().Boxes && !boxes {
		return "", fmt.Errorf("%s looks at the boxes of regions, and %s makes none: its output is not a grid", c.File(),
			f.Model)
	}
	p, err := trace(checkpoint, "")
	if err != nil {
		return "", err
	}
	origin, note := p.compare("these pictures", f)
	if origin == OtherOrigin {
		return "", errors.New(note)
	}
	return note, nil
}
