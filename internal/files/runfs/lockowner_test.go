package runfs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"vsetrain/lab/try"
)

// A directory is held from Open to Close, by the process that wrote itself into the lock; what was never locked is held
// by nobody.
func TestLockOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	for _, p := range []string{path, t.TempDir()} {
		if o, held, err := LockOwner(p); held || err != nil {
			t.Errorf("%s, never locked: %v, %v, %v", p, o, held, err)
		}
	}
	d := try.Get(Open(path, Owner{PID: 4711, Host: "here"}))(t)
	for range 2 { // asking changes nothing
		if o, held, err := LockOwner(path); !held || err != nil || o.PID != 4711 || o.Host != "here" {
			t.Errorf("locked: %v, %v, %v", o, held, err)
		}
	}
	d.Close()
	if o, held, err := LockOwner(path); held || err != nil {
		t.Errorf("closed: %v, %v, %v", o, held, err)
	}
}

// The moment in which somebody asks for the holder does not keep a run from starting.
func TestLockOwnerDisturbsNobody(t *testing.T) {
	path := t.TempDir()
	f := try.Get(os.Create(filepath.Join(path, lockName)))(t)
	try.Do(t, lockFile(f, false)) // like LockOwner
	unlocked := make(chan error)
	time.AfterFunc(lockPause, func() { unlocked <- f.Close() })
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
