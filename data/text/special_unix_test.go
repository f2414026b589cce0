//go:build unix

package text

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"vsetrain/internal/files/regular"
	"vsetrain/lab/try"
)

// An endless device is not read, a pipe not waited for, and a file that is far too large not taken into memory.
func TestNoVocabulary(t *testing.T) {
	dir := t.TempDir()
	zero, pipe, large := filepath.Join(dir, "zero"), filepath.Join(dir, "pipe"), filepath.Join(dir, "large")
	try.Do(t, errors.Join(os.Symlink("/dev/zero", zero), unix.Mkfifo(pipe, 0o600), os.WriteFile(large, nil, 0o666),
		os.Truncate(large, 1<<40)))
	for path, want := range map[string]error{zero: regular.ErrNot, pipe: regular.ErrNot, large: regular.ErrLarge} {
		if _, err := LoadVocabulary(path); !errors.Is(err, want) {
			t.Errorf("%s: got %v", path, err)
		}
		if _, err := LoadBertTokenizer(path, 9); !errors.Is(err, want) {
			t.Errorf("word pieces %s: got %v", path, err)
		}
	}
}
