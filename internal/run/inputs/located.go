package inputs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"vsetrain/data"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
)

// LocateRun makes the relative paths in the configuration of a run usable from this process. They are relative to the
// directory where the run was started: data set, vocabulary, semantic vectors, noise index, mined negatives, BERT and
// word vectors. A path that does not exist is looked for in the working directories that env.json records, the latest
// first. A path that is found nowhere stays unchanged. Errors come from reading env.json.
func LocateRun(dir string, c *config.Config) error {
	started, err := StartedIn(dir)
	if err != nil {
		return err
	}
	for _, path := range []*string{&c.Data.Dir, &c.Data.Vocab, &c.Data.Semantics, &c.Data.NoiseIndex, &c.Data.Mined,
		&c.Model.Bert.Dir, &c.Model.WordInit} {
		*path = locate(*path, started)
	}
	return nil
}

// StartedIn returns the working directories of the sessions of a run without repetition, the latest first.
func StartedIn(dir string) (dirs []string, err error) {
	sessions, err := runfs.ReadSessions(dir)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{"": true}
	for i := len(sessions) - 1; i >= 0; i-- {
		if d := sessions[i].Dir; !seen[d] {
			seen[d] = true
			dirs = append(dirs, d)
		}
	}
	return dirs, nil
}

func locate(path string, started []string) string {
	if path == "" || path == "auto" || filepath.IsAbs(path) || !absent(path) {
		return path
	}
	for _, dir := range started {
		if there := filepath.Join(dir, path); !absent(there) {
			return there
		}
	}
	return path
}

func absent(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// LoadRun reads the configuration of the run in a directory, with its paths located.
func LoadRun(dir string) (*config.Resolved, error) {
	c, err := config.Load(config.Request{File: filepath.Join(dir, runfs.ConfigName)})
	if err == nil {
		err = LocateRun(dir, &c.Config)
	}
	if err != nil {
		return nil, fmt.Errorf("run directory %s: %w", dir, err)
	}
	return c, nil
}

// NameFolder adds a remedy to the error of a missing or wrong data folder: how to name another one, and where else
// vsetrain looked.
func NameFolder(err error, setting string, started []string) error {
	var f *data.FolderError
	if !errors.As(err, &f) {
		return err
	}
	f.Setting = setting
	if here, e := os.Getwd(); e == nil && !filepath.IsAbs(f.Dir) {
		f.Seen = append([]string{here}, started...)
	}
	return f // the wrapping error contains its text already
}

var errNoRun = errors.New("nothing to resume")

// RunConfig returns the configuration file of the run in a directory.
func RunConfig(dir string) (string, error) {
	path := filepath.Join(dir, runfs.ConfigName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: %w: the directory holds no run (no %s); start one without --resume", dir, errNoRun,
			runfs.ConfigName)
	} else if err != nil {
		return "", fmt.Errorf("resume: %w", err)
	}
	return path, nil
}
