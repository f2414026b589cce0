package synth

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"vsetrain/internal/runfs"
)

var (
	splits    = []string{"train", "dev", "test", "testall"}
	endings   = []string{"_caps.txt", "_ims.npy", "_ids.txt", "_ims_bbx.npy", "_ims_size.npy", "_caps.json"}
	semantics = []string{"train_svd.npy", "train_svd.txt", "train_bert.npy", "train_bert.txt"}
)

// owned lists the files of a data set that Generate writes, captions first: a folder without captions is visibly
// incomplete, so they are the first to go and the last to come.
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
			return fmt.Errorf("%s: already exists: the folder holds a data set; choose another folder or ask for it to be replaced (force)", path)
		}
	}
	for _, name := range semantics {
		path := filepath.Join(dir, name)
		if there, err := runfs.Exists(path); err != nil {
			return err
		} else if there {
			return fmt.Errorf("%s: holds semantic vectors of other captions, which would not fit the new ones; remove it first", path)
		}
	}
	return nil
}

// stage makes the hidden folder in which a data set for dir is written. It lies inside dir where that exists, because
// dir may be a file system of its own, and beside it otherwise, so that a new folder appears complete.
func stage(dir string) (string, error) {
	parent, pattern := dir, ".synth-*"
	if _, err := os.Stat(dir); err != nil {
		parent, pattern = filepath.Dir(dir), "."+filepath.Base(dir)+".synth-*"
	}
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return "", err
	}
	staging, err := os.MkdirTemp(parent, pattern)
	if err != nil {
		return "", err
	}
	return staging, os.Chmod(staging, 0o755)
}

// install moves the finished files of the staging folder to dir. A new folder appears in one rename; in an existing one the old
// data set goes first, its captions before everything else, and the new captions come last.
func install(staging, dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return os.Rename(staging, dir)
	}
	for _, name := range owned() {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	entries, err := os.ReadDir(staging)
	if err != nil {
		return err
	}
	var last []string
	for _, e := range entries {
		switch {
		case e.IsDir():
			if err := moveInto(filepath.Join(staging, e.Name()), filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		case strings.HasSuffix(e.Name(), "_caps.txt"):
			last = append(last, e.Name())
		default:
			if err := os.Rename(filepath.Join(staging, e.Name()), filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for _, name := range last {
		if err := os.Rename(filepath.Join(staging, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return os.RemoveAll(staging)
}

// moveInto moves the files of one folder into another, made when missing.
func moveInto(from, to string) error {
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Rename(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
