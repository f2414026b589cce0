package inputs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"vsetrain/data"
	"vsetrain/internal/files/integrity"
)

// DataName is the file of a run directory with the fingerprint of the data set that the run started with.
const DataName = "data.json"

// maxFingerprint is the maximum size of that file in bytes; each file of the data set takes about 200.
const maxFingerprint = 16 << 20

// Fingerprint returns the marks of the files of a data set, which identify its version.
func Fingerprint(dir string) (integrity.Marks, error) {
	return integrity.MarksOf(dir, func(string) bool { return true })
}

// readFingerprint returns the fingerprint of the data set that a run started with, and which model made the features of
// its training split. Either is nil if the run did not record it.
func readFingerprint(run string) (integrity.Marks, *Features, error) {
	path := filepath.Join(run, DataName)
	b, err := integrity.ReadSealed(path, maxFingerprint, "a fingerprint of data")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	var marks integrity.Marks
	var kept struct {
		Features *Features `json:"/features"`
	}
	if err == nil {
		err = errors.Join(json.Unmarshal(b, &marks), json.Unmarshal(b, &kept))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w; remove it to continue without comparing the data", path, err)
	}
	return marks, kept.Features, nil
}

// ChangedData returns the names of the files of a split that have changed since a run started.
func ChangedData(run string, s *data.Split) ([]string, error) {
	began, _, err := readFingerprint(run)
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

// TrainedOn returns which model made the features that a run was trained on, and whether dir holds its data set: the
// same training features, in the original folder or in another. For a run without that record, the record of its data
// set counts.
func TrainedOn(run, dir string) (f Features, own bool, err error) {
	c, err := LoadRun(run)
	if err != nil {
		return f, false, err
	}
	began, kept, err := readFingerprint(run)
	if err != nil {
		return f, false, err
	}
	const name = "train_ims.npy"
	same := func(dir string) bool {
		if began == nil {
			return sameFolder(dir, c.Data.Dir)
		}
		now, err := integrity.MarksOf(dir, func(n string) bool { return n == name })
		return err == nil && len(now) == 1 && began[name].Size > 0 && began[name].Same(now[name])
	}
	own = same(dir)
	if kept != nil || !same(c.Data.Dir) {
		if kept != nil {
			f = *kept
		}
		return f, own, nil
	}
	f, err = FeaturesOf(c.Data.Dir, "train", 0, 0)
	return f, own, err
}

func sameFolder(a, b string) bool {
	x, err := os.Stat(a)
	y, e := os.Stat(b)
	return err == nil && e == nil && os.SameFile(x, y)
}
