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

// Unclaimed returns an error where a directory that is to become a run has something of another owner under a name that
// the run will write, one of names or one of this package: the run would replace it, or write elsewhere through a link.
// A run itself, and one that was ended before its configuration was written, own what they have: the configuration, the
// lock, or the sealed file that a run writes first tells.
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
			return &atomicfile.Error{Op: "write", Path: path, Err: errors.New("it is there already, and of no run: " +
				"a new run would write over it"), Remedy: "choose another directory with --run DIR, or move it away"}
		}
	}
	return nil
}

// isSealed reports whether a file has the checksum that this program writes into its own, and fits it.
func isSealed(path string) bool {
	b, err := os.ReadFile(path)
	_, sealed, bad := integrity.Unseal(b)
	return err == nil && sealed && bad == nil
}

// isLock reports whether a file is the lock of a run: an owner, or nothing where the process was just writing it.
func isLock(path string) bool {
	b, err := os.ReadFile(path)
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	return err == nil && (len(b) == 0 || dec.Decode(new(Owner)) == nil)
}
