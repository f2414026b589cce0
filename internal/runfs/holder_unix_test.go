//go:build unix

package runfs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The moment in which somebody asks for the holder does not keep a run from starting.
func TestHolderDisturbsNobody(t *testing.T) {
	path := t.TempDir()
	f, err := os.Create(filepath.Join(path, lockName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := flock(f, unix.LOCK_SH); err != nil { // as isHeld does
		t.Fatal(err)
	}
	time.AfterFunc(lockPause, func() { flock(f, unix.LOCK_UN) })
	d, err := Open(path, Owner{})
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
}
