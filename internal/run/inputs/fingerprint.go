package inputs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"vsetrain/data"
	"vsetrain/internal/files/integrity"
)

// DataName is the file of a run directory that holds the fingerprint of the data set that the run began with.
const DataName = "data.json"

// maxFingerprint bounds that file in bytes; a file of the data set has 200.
const maxFingerprint = 16 << 20

// Fingerprint returns the marks of the files of a data set, by which another version of it is told apart.
func Fingerprint(dir string) (integrity.Marks, error) {
	return integrity.MarksOf(dir, func(string) bool { return true })
}

// readFingerprint returns that of the data set that a run began with, nil where it kept none.
func readFingerprint(run string) (integrity.Marks, error) {
	path := filepath.Join(run, DataName)
	b, err := integrity.ReadSealed(path, maxFingerprint, "a fingerprint of data")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var marks integrity.Marks
	if err == nil {
		err = json.Unmarshal(b, &marks)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; remove it to go on without the comparison of the data", path, err)
	}
	return marks, nil
}

// ChangedData returns the names of the files that a split was read from which are not those that a run began with.
func ChangedData(run string, s *data.Split) ([]string, error) {
	began, err := readFingerprint(run)
	if err != nil || began == nil {
		return nil, err
	}
	names := data.Files(s)
	now, err := integrity.MarksOf(s.Dir(), func(name string) bool { return slices.Contains(names, name) })
	if err != nil {
		return nil, err
	}
	return began.Changed(now), nil
}
