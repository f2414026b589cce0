package inputs

import (
	"path/filepath"

	"vsetrain/data"
	"vsetrain/internal/files/integrity"
)

// Features names the model that made the features of a split, as far as known; the zero value means unknown.
type Features struct {
	Model     string `json:"model,omitempty"`     // file of 'vsetrain data extract', for people
	SHA256    string `json:"sha256,omitempty"`    // of that model, its weights and preprocessing
	Published string `json:"published,omitempty"` // set of published features
}

// String names the model.
func (f Features) String() string {
	switch {
	case f.SHA256 != "":
		return f.Model + " (SHA-256 " + f.SHA256[:min(12, len(f.SHA256))] + ")"
	case f.Published != "":
		return "the model of the published " + f.Published
	}
	return "an unknown model"
}

// FeaturesOf finds out which model made the features [.., regions, dim] of a split; regions and dim are 0 if unknown.
// The record beside the features says so if it has the same size, and for published features the arrays of the folder
// do.
func FeaturesOf(dir, split string, regions, dim int) (Features, error) {
	r, err := data.LoadExtractor(dir, split)
	switch {
	case err != nil:
		return Features{}, err
	case r == nil:
		return Features{Published: data.Published(dir)}, nil
	case r.Hash == "" || dim > 0 && r.Dim > 0 && (r.Regions != regions || r.Dim != dim): // of an earlier array
		return Features{}, nil
	}
	return Features{Model: filepath.Base(r.Model), SHA256: r.Hash}, nil
}

// featuresKey is the key of the features of the training split in the fingerprint of a run. No file has that name, so
// programs that do not know the key see only files.
const featuresKey = "/features"

// WithFeatures is a fingerprint as a run keeps it.
func WithFeatures(marks integrity.Marks, f Features) map[string]any {
	all := map[string]any{featuresKey: f}
	for name, mark := range marks {
		all[name] = mark
	}
	return all
}
