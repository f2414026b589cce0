package mapped

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

const pages = 8 * 4096

// open maps a new file.
func open(t *testing.T) (*File, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.npy")
	try.Do(t, os.WriteFile(path, make([]byte, pages), 0o666))
	in := try.Get(os.Open(path))(t)
	defer in.Close()
	f := try.Get(Map(in, pages))(t)
	t.Cleanup(func() { f.Close() })
	return f, path
}

// sum reads all of a file.
func sum(f *File) (n int, err error) {
	defer f.Recover(Watch(), &err)
	for _, b := range f.Bytes() {
		n += int(b) + 1
	}
	return n, nil
}

// A file that becomes shorter is an error that names it, in every goroutine, and the memory can be read again later.
// Windows does not let a mapped file become shorter.
func TestFileThatBecomesShorter(t *testing.T) {
	f, path := open(t)
	if n, err := sum(f); n != pages || err != nil {
		t.Fatal(n, err)
	}
	err := os.Truncate(path, 5000)
	if runtime.GOOS == "windows" {
		if n, readErr := sum(f); err == nil || n != pages || readErr != nil {
			t.Errorf("truncating: %v; then %d bytes, %v", err, n, readErr)
		}
		return
	}
	try.Do(t, err)
	failed := make(chan error, 4)
	for range cap(failed) {
		go func() {
			_, err := sum(f)
			failed <- err
		}()
	}
	for range cap(failed) {
		want := path + " became shorter while it was in use: it had 32768 bytes when it was opened, now it has 5000"
		if err := <-failed; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v", err)
		}
	}
	try.Do(t, os.Truncate(path, pages))
	if n, err := sum(f); n != pages || err != nil {
		t.Errorf("a file that is whole again: %d, %v", n, err)
	}
	if err := f.explain(7); !strings.Contains(err.Error(), "a.npy: byte 7 cannot be read") {
		t.Errorf("a file that has its length: %v", err)
	}
}

// Panics that have nothing to do with the file continue.
func TestOtherPanics(t *testing.T) {
	f, _ := open(t)
	for name, broken := range map[string]func(){"index": func() { _ = make([]int, 1)[pages] },
		"nil": func() { *(*int)(nil) = 1 }} {
		for _, f := range []*File{f, nil} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: the panic was swallowed", name)
					}
				}()
				var err error
				defer f.Recover(Watch(), &err)
				broken()
			}()
		}
	}
	try.Do(t, f.Close())
	if err := f.Close(); err != nil || f.Bytes() != nil {
		t.Errorf("closed twice: %v", err)
	}
}
