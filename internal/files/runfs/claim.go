package runfs

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/integrity"
)

// Unclaimed returns an error if a directory that will become a run has something under a name that the run will write,
// one of names or of this package: the run would replace it, or write elsewhere through a link. A run owns what it has,
// also one that ended before it wrote its configuration: the configuration, the lock, or the sealed file first, which a
// run writes first, shows that.
func Unclaimed(dir, first string, names ...string) error {
	if there, err := Exists(filepath.Join(dir, ConfigName)); there || err != nil {
		return err
	}
	begun := false
	for _, name := range append([]string{lockName, first, CheckpointsName}, names...) {
		path := filepath.Join(dir, name)
		st, err := os.Lstat(path)
		if there, bad := Exists(path); bad != nil {
			return bad
		} else if !there {
			continue
		}
		own := err == nil && begun && st.Mode().IsRegular()
		switch {
		case name == lockName:
			begun = err == nil && st.Mode().IsRegular() && isLock(path)
			own = begun
		case name == first && !begun:
			begun = err == nil && st.Mode().IsRegular() && isSealed(path)
			own = begun
		case name == CheckpointsName && err == nil && st.IsDir():
			entries, err := os.ReadDir(path)
			own = begun || err == nil && len(entries) == 0
		}
		if !own {
			return &atomicfile.Error{Op: "write", Path: path, Err: errors.New("it is there already, but is not of a " +
				"run: a new run would overwrite it"),
				Remedy: "choose another directory with --run DIR, or move it away"}
		}
	}
	return nil
}

// isSealed reports whether a file has a checksum of this program and matches it.
func isSealed(path string) bool {
	b, err := os.ReadFile(path)
	_, sealed, bad := integrity.Unseal(b)
	return err == nil && sealed && bad == nil
}

// isLock reports whether a file is the lock of a run: an owner, or empty if the process was just writing it.
func isLock(path string) bool {
	b, err := os.ReadFile(path)
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	return err == nil && (len(b) == 0 || dec.Decode(new(Owner)) == nil)
}
