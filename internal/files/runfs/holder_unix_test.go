//go:build unix

package runfs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vsetrain/internal/house/try"
)

// The moment in which somebody asks for the holder does not keep a run from starting.
func TestHolderDisturbsNobody(t *testing.T) {
	path := t.TempDir()
	f := try.Get(os.Create(filepath.Join(path, lockName)))(t)
	defer f.Close()
	if err := flock(f, unix.LOCK_SH); err != nil { // as isHeld does
		t.Fatal(err)
	}
	unlocked := make(chan error)
	time.AfterFunc(lockPause, func() { unlocked <- flock(f, unix.LOCK_UN) })
	d, err := Open(path, Owner{})
	if err != nil {
		t.Error(err)
	} else {
		d.Close()
	}
	if err := <-unlocked; err != nil { // the timer is done with the file
		t.Error(err)
	}
}
