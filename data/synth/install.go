package synth

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/runfs"
)

const (
	captionsEnd = "_caps.txt"
	imagesName  = "images" // the folder of drawings
)

var (
	splits    = []string{"train", "dev", "test", "testall"}
	endings   = []string{captionsEnd, "_ims.npy", "_ids.txt", "_ims_bbx.npy", "_ims_size.npy", "_caps.json"}
	semantics = []string{"train_svd.npy", "train_svd.txt", "train_bert.npy", "train_bert.txt"}
)

// owned returns the names of the files that Generate writes.
func owned() []string {
	var names []string
	for _, e := range endings {
		for _, s := range splits {
			names = append(names, s+e)
		}
	}
	return append(names, "vocab.json", "id_mapping.json")
}

// checkTarget refuses a folder that already holds a data set, unless force is set.
func checkTarget(dir string, force bool) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s: expected a folder, found a file", dir)
	}
	for _, name := range owned() {
		path := filepath.Join(dir, name)
		if there, err := runfs.Exists(path); err != nil {
			return err
		} else if there && !force {
			return fmt.Errorf("%s: already exists: the folder holds a data set; choose another folder or replace it "+
				"with --force", path)
		}
	}
	for _, name := range semantics {
		path := filepath.Join(dir, name)
		if there, err := runfs.Exists(path); err != nil {
			return err
		} else if there {
			return fmt.Errorf("%s: holds semantic vectors of other captions, which would not fit the new ones; "+
				"remove it first", path)
		}
	}
	return nil
}

// makeHidden makes the hidden folder to which a data set for dir is written. It is in dir if that exists, because dir
// may be a mount point, and otherwise beside it, so that a new folder appears complete.
func makeHidden(dir string) (string, error) {
	becomes := filepath.Join(dir, "synth")
	if _, err := os.Stat(dir); err != nil {
		becomes = dir
	}
	if err := atomicfile.MkdirAll(filepath.Dir(becomes)); err != nil {
		return "", err
	}
	return atomicfile.MkdirTemp(becomes)
}

// install moves the complete files of the staging folder to dir. One rename makes a new folder appear. In an existing
// folder the new data set replaces the old one, captions last; after an error the old one is unchanged.
func install(staging, dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		for _, folder := range []string{staging, filepath.Join(staging, imagesName)} {
			if _, err := integrity.Record(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return atomicfile.CommitDir(staging, dir)
	}
	set := &atomicfile.Set{}
	defer set.Abort()
	if err := collect(set, staging, dir); err != nil {
		return err
	}
	return integrity.Commit(set)
}

// collect adds the files below the staging folder to a set, captions last, and removes the files of an old data set
// that the new one does not have.
func collect(set *atomicfile.Set, staging, dir string) error {
	var captions []*atomicfile.File
	err := filepath.WalkDir(staging, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(staging, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, name)
		if e.IsDir() {
			atomicfile.RemoveLeft(to)
			return atomicfile.MkdirAll(to)
		}
		f := atomicfile.Adopt(path, to)
		if strings.HasSuffix(name, captionsEnd) {
			captions = append(captions, f)
		} else {
			set.Add(f)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, f := range captions {
		set.Add(f)
	}
	have := map[string]bool{}
	for _, path := range set.Paths() {
		have[path] = true
	}
	for _, name := range owned() {
		if path := filepath.Join(dir, name); !have[path] {
			set.Remove(path)
		}
	}
	for _, s := range splits {
		set.Remove(filepath.Join(dir, s+"_extractor.json")) // of features that were there before
	}
	return nil
}
