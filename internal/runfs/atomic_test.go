package runfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// faulty fails every write beyond limit bytes, or sync or close, as a full or broken disk does.
type faulty struct {
	file
	limit                int
	failSync, failClosed bool
}

func (f *faulty) Write(b []byte) (int, error) {
	if len(b) > f.limit {
		n, _ := f.file.Write(b[:f.limit])
		f.limit = 0
		return n, syscall.ENOSPC
	}
	f.limit -= len(b)
	return f.file.Write(b)
}

func (f *faulty) Sync() error {
	if f.failSync {
		return syscall.EIO
	}
	return f.file.Sync()
}

func (f *faulty) Close() error {
	err := f.file.Close()
	if f.failClosed {
		return syscall.EIO
	}
	return err
}

func put(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// intact checks that the directory holds the file with that text and nothing else.
func intact(t *testing.T, path, text string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil || string(b) != text {
		t.Errorf("%s holds %q (%v), want %q", path, b, err, text)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "last")
	for _, text := range []string{"first", "", strings.Repeat("second ", 1<<18)} {
		if err := WriteFile(path, put(text)); err != nil {
			t.Fatal(err)
		}
		intact(t, path, text)
	}
}

func TestWriteFileRelative(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := WriteFile("last", put("here")); err != nil {
		t.Fatal(err)
	}
	intact(t, "last", "here")
}

// A disk that fills up after any number of bytes leaves the earlier file and no other.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "last")
	if err := WriteFile(path, put("old")); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("x", 3<<20)
	for _, limit := range []int{0, 1, 4095, 1 << 20, 1<<20 + 1, len(text) - 1} {
		sys := hostSystem
		sys.create = func(p string) (file, error) {
			f, err := hostSystem.create(p)
			return &faulty{file: f, limit: limit}, err
		}
		err := sys.writeFile(path, put(text))
		if !errors.Is(err, ErrDiskFull) || !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("limit %d: %v", limit, err)
		}
		want := "write " + path + ": no space left on device; the earlier file is intact; free space and resume"
		if err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
		intact(t, path, "old")
	}
}

func TestOtherFailures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "last")
	if err := WriteFile(path, put("old")); err != nil {
		t.Fatal(err)
	}
	broken := func(change func(*faulty)) system {
		sys := hostSystem
		sys.create = func(p string) (file, error) {
			f, err := hostSystem.create(p)
			w := &faulty{file: f, limit: 1 << 30}
			change(w)
			return w, err
		}
		return sys
	}
	noRename := hostSystem
	noRename.rename = func(string, string) error { return syscall.EIO }
	for name, sys := range map[string]system{
		"sync":   broken(func(f *faulty) { f.failSync = true }),
		"close":  broken(func(f *faulty) { f.failClosed = true }),
		"rename": noRename,
	} {
		if err := sys.writeFile(path, put("new")); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: got %v", name, err)
		}
		intact(t, path, "old")
	}
	own := errors.New("the caller's own")
	if err := WriteFile(path, func(w io.Writer) error { return errors.Join(put("half")(w), own) }); !errors.Is(err, own) {
		t.Errorf("got %v", err)
	}
	intact(t, path, "old")
	noSync := hostSystem
	noSync.syncDir = func(string) error { return syscall.EIO }
	if err := noSync.writeFile(path, put("new")); !errors.Is(err, syscall.EIO) {
		t.Errorf("directory sync: got %v", err)
	}
}

// An error of the callback about another file keeps that file's name.
func TestForeignError(t *testing.T) {
	dir := t.TempDir()
	err := WriteFile(filepath.Join(dir, "last"), func(io.Writer) error {
		_, err := os.Open(filepath.Join(dir, "sub", "source.npy"))
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "source.npy") {
		t.Errorf("got %v", err)
	}
}

// A temporary file of a killed process with the same process number is stepped over.
func TestLeftOverTemp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "last")
	next := tempCount.Load() + 1
	left := filepath.Join(filepath.Dir(path), fmt.Sprintf(".last%s%d-%d", tempMark, os.Getpid(), next))
	if err := os.WriteFile(left, []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, put("whole")); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); !bytes.Equal(b, []byte("whole")) {
		t.Errorf("got %q", b)
	}
	if err := removeTemps(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	intact(t, path, "whole")
}
