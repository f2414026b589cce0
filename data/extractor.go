package data

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"vsetrain/internal/files/jsontext"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/regular"
)

// ExtractorRecord says which model made the features of a split. It is stored in {split}_extractor.json.
type ExtractorRecord struct {
	Model   string `json:"model"`  // path, absolute
	Hash    string `json:"sha256"` // of model, weights and preprocessing
	Runtime string `json:"onnxruntime"`
	Regions int    `json:"regions"`
	Dim     int    `json:"dim"`
	DType   string `json:"dtype"`
}

const extractorEnd = "_extractor.json"

// maxRecord bounds that file.
const maxRecord = 1 << 20

// ExtractorFile returns the path of the record of a split.
func ExtractorFile(dir, split string) string { return filepath.Join(dir, split+extractorEnd) }

// LoadExtractor reads the record of a split. It returns nil if there is none.
func LoadExtractor(dir, split string) (*ExtractorRecord, error) {
	path := ExtractorFile(dir, split)
	b, err := regular.ReadFile(path, maxRecord, "the record of an extractor")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := &ExtractorRecord{}
	if err == nil {
		err = jsontext.Unmarshal(b, r)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; remove the file if the features were not made by 'vsetrain data extract'", path,
			err)
	}
	return r, nil
}

// Published names the published features that fit the training, validation and test arrays of a folder by type and
// shape; "" if none do.
func Published(dir string) string {
	var files []FileReport
	for _, name := range []string{"train_ims.npy", "dev_ims.npy", "test_ims.npy"} {
		f, err := npy.Open(filepath.Join(dir, name))
		if err != nil {
			return ""
		}
		files = append(files, FileReport{Name: name, Kind: "features", DType: string(f.DType), Shape: f.Shape})
		f.Close()
	}
	return recognise(files)
}
