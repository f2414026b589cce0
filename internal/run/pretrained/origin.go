package pretrained

import (
	"fmt"

	"vsetrain/data"
	"vsetrain/internal/run/inputs"
)

// Origin says whether the same model made the features of a split and of the training. Features of another model give
// meaningless scores even if the sizes fit.
type Origin string

// The origins of features.
const (
	SameOrigin      Origin = "same"
	OtherOrigin     Origin = "different"
	UnknownOrigin   Origin = "unknown"
	WithoutFeatures Origin = "" // of captions alone
)

// provenance is what is known of the features of a training.
type provenance struct {
	checkpoint string // as users call it
	features   inputs.Features
	own        bool // the split belongs to the data set of the training
}

// compare returns the origin of features and a note for the user, "" if the origin is the same.
func (p *provenance) compare(of string, f inputs.Features) (Origin, string) {
	a := &p.features
	switch {
	case a.SHA256 != "" && a.SHA256 == f.SHA256, a.Published != "" && f.Published != "", p.own && *a == f:
		return SameOrigin, ""
	case a.SHA256 != "" && f.SHA256 != "":
		return OtherOrigin, fmt.Sprintf("the features of %s were made by %s, the training features of %s by %s: "+
			"scores mean nothing; compute them with that model ('vsetrain data extract')", of, f, p.checkpoint, a)
	}
	note := fmt.Sprintf("there is no record that the features of %s and the training features of %s come from the "+
		"same model; with another model's scores mean nothing", of, p.checkpoint)
	switch unnamed := (inputs.Features{}); {
	case *a != unnamed && f == unnamed:
		note += fmt.Sprintf(" (the latter come from %s, the former have no record)", a)
	case *a == unnamed && f != unnamed:
		note += fmt.Sprintf(" (the former come from %s, the latter have no record)", f)
	case *a != unnamed:
		note += fmt.Sprintf(" (the latter come from %s, the former from %s)", a, f)
	}
	return UnknownOrigin, note
}

// trace finds out what is known of the features of the training of a checkpoint; data is the folder of a split.
func trace(checkpoint, data string) (p provenance, err error) {
	p.checkpoint = checkpoint
	dir, ok, err := RunOf(checkpoint)
	if err == nil && ok {
		p.features, p.own, err = inputs.TrainedOn(dir, data)
	}
	return p, err
}

// of returns the origin of the features of a split and the note of compare.
func (p *provenance) of(s *data.Split) (Origin, string, error) {
	if s.Regions() == 0 {
		return WithoutFeatures, "", nil
	}
	f, err := inputs.FeaturesOf(s.Dir(), s.Name(), s.Regions(), s.Dim())
	if err != nil {
		return UnknownOrigin, "", err
	}
	o, note := p.compare(s.FeaturePath(), f)
	return o, note, nil
}
