//go:build unix

package regular

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"vsetrain/lab/try"
)

// A pipe without a writer and an endless device are refused at once, also through a link.
func TestSpecialFiles(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	try.Do(t, unix.Mkfifo(pipe, 0o600))
	try.Do(t, os.Symlink("/dev/zero", link))
	for path, want := range map[string]string{pipe: "a pipe", link: "a device"} {
		_, err := ReadFile(path, 1<<20, "a test file")
		if try.Fails(t, err, path+": expected a regular file, found "+want); !errors.Is(err, ErrNot) {
			t.Errorf("got %v", err)
		}
	}
}
