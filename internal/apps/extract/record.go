package extract

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"vsetrain/internal/files/regular"
)

// Record says which model made the features of a split: {split}_extractor.json beside them.
type Record struct {
	Model   string `json:"model"`  // path, absolute
	Hash    string `json:"sha256"` // of model, weights and preprocessing
	Runtime string `json:"onnxruntime"`
	Regions int    `json:"regions"`
	Dim     int    `json:"dim"`
	DType   string `json:"dtype"`
}

// RecordFile is where the record of a split lies.
func RecordFile(dir, split string) string { return filepath.Join(dir, split+recordEnd) }

const recordEnd = "_extractor.json"

const maxRecord = 1 << 20

// LoadRecord reads the record of a split; nil is none.
func LoadRecord(dir, split string) (*Record, error) {
	path := RecordFile(dir, split)
	b, err := regular.ReadFile(path, maxRecord, "the record of an extractor")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := &Record{}
	if err == nil {
		err = json.Unmarshal(b, r)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; remove the file if the features were not made by 'vsetrain data extract'", path,
			err)
	}
	return r, nil
}

// Check returns an error where the features of a record were made by another model.
func (r *Record) Check(x *Extractor) error {
	if r.Hash == x.Hash {
		return nil
	}
	return fmt.Errorf("%s is not the model that made the features of the data set, %s (SHA-256 %.12s, not %.12s with "+
		"its weights and preprocessing): scores would mean nothing", x.Model, r.Model, r.Hash, x.Hash)
}
