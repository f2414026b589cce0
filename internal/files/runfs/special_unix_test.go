//go:build unix

package runfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vsetrain/internal/files/regular"
	"vsetrain/lab/try"
)

// A pipe or an endless device in a run directory is an error at once, whichever file it stands for.
func TestSpecialFiles(t *testing.T) {
	dir := t.TempDir()
	for name, read := range map[string]func() error{
		MetricsName: func() error { _, err := OpenLog(filepath.Join(dir, MetricsName), All); return err },
		"read": func() error {
			all := func([]byte, int) (bool, error) { return true, nil }
			_, err := ReadLog(filepath.Join(dir, MetricsName), All, all)
			return err
		},
		EnvName:  func() error { _, err := ReadSessions(dir); return err },
		lockName: func() error { _, err := Open(dir, owner); return err },
		"holder": func() error { _, _, err := LockOwner(dir); return err },
	} {
		path := filepath.Join(dir, name)
		switch name {
		case "holder":
			path = filepath.Join(dir, lockName)
		case "read":
			path = filepath.Join(dir, MetricsName)
		}
		for kind, plant := range map[string]func() error{
			"pipe":   func() error { return unix.Mkfifo(path, 0o600) },
			"device": func() error { return os.Symlink("/dev/zero", path) },
		} {
			try.Do(t, plant())
			blocked := time.AfterFunc(5*time.Second, func() { panic(kind + " as " + name + " blocks") })
			if err := read(); !errors.Is(err, regular.ErrNot) {
				t.Errorf("%s as %s: got %v", kind, name, err)
			}
			blocked.Stop()
			try.Do(t, os.Remove(path))
		}
	}
}
