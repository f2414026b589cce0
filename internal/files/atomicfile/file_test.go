package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"vsetrain/internal/files/disk"
	"vsetrain/lab/try"
)

// faulty fails every write beyond limit bytes, or sync or close, as a full or broken disk does.
type faulty struct {
	disk.File
	limit                int
	failSync, failClosed bool
}

func (f *faulty) Write(b []byte) (int, error) {
	if len(b) > f.limit {
		n, _ := f.File.Write(b[:f.limit])
		f.limit = 0
		return n, syscall.ENOSPC
	}
	f.limit -= len(b)
	return f.File.Write(b)
}

func (f *faulty) Sync() error {
	if f.failSync {
		return syscall.EIO
	}
	return f.File.Sync()
}

func (f *faulty) Close() error {
	err := f.File.Close()
	if f.failClosed {
		return syscall.EIO
	}
	return err
}

// faults is a system of which some calls are others.
type faults struct {
	disk.Host
	file    func(*faulty)
	rename  func(from, to string) error
	syncDir func(dir string) error
}

func (s *faults) Create(path string) (disk.File, error) {
	f, err := s.Host.Create(path)
	if err != nil || s.file == nil {
		return f, err
	}
	w := &faulty{File: f, limit: 1 << 30}
	s.file(w)
	return w, nil
}

func (s *faults) Rename(from, to string) error {
	if s.rename == nil {
		return s.Host.Rename(from, to)
	}
	return s.rename(from, to)
}

func (s *faults) SyncDir(dir string) error {
	if s.syncDir == nil {
		return s.Host.SyncDir(dir)
	}
	return s.syncDir(dir)
}

// on calls f while the files are written by another system.
func on(s disk.System, f func() error) error {
	defer disk.Use(s)()
	return f()
}

// broken is a system whose files are changed so.
func broken(change func(*faulty)) *faults { return &faults{file: change} }

func put(text string) func(io.Writer) error { return Bytes([]byte(text)) }

// wantIs checks what an error is.
func wantIs(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

// holds checks that a folder holds files with these names and texts, in pairs, and nothing else.
func holds(t *testing.T, dir string, want ...string) {
	t.Helper()
	got := map[string]string{}
	for _, e := range try.Get(os.ReadDir(dir))(t) {
		got[e.Name()] = string(try.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t))
	}
	for i := 0; i < len(want); i += 2 {
		if text, ok := got[want[i]]; !ok || text != want[i+1] {
			t.Errorf("%s holds %.40q (%v), want %.40q", want[i], text, ok, want[i+1])
		}
		delete(got, want[i])
	}
	for name := range got {
		t.Errorf("%s is there too", name)
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, path := range []string{"last", filepath.Join(dir, "last")} {
		for _, text := range []string{"first", "", strings.Repeat("second ", 1<<18)} {
			try.Do(t, WriteFile(path, put(text)))
			holds(t, dir, "last", text)
		}
	}
}

// A disk that fills up after any number of bytes leaves the earlier file and no other.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "last")
	text := strings.Repeat("x", 3<<20)
	for _, earlier := range []bool{false, true} {
		var old []string
		kept := ""
		if earlier {
			try.Do(t, WriteFile(path, put("old")))
			old, kept = []string{"last", "old"}, "; the earlier file is intact"
		}
		for _, limit := range []int{0, 1, 4095, 1 << 20, 1<<20 + 1, len(text) - 1} {
			err := on(broken(func(f *faulty) { f.limit = limit }), func() error { return WriteFile(path, put(text)) })
			wantIs(t, err, ErrDiskFull)
			wantIs(t, err, syscall.ENOSPC)
			try.Fails(t, err, "write "+path+": no space left on device"+kept+"; free space and run the command again")
			holds(t, dir, old...)
		}
	}
}

// A write that failed keeps a file from being committed, also where nobody looked at its error.
func TestForgottenError(t *testing.T) {
	dir := t.TempDir()
	err := on(broken(func(f *faulty) { f.limit = 3 }), func() error {
		f, err := Create(filepath.Join(dir, "last"))
		if err != nil {
			return err
		}
		fmt.Fprint(f, "card")
		fmt.Fprint(f, "") // succeeds
		return f.Commit()
	})
	wantIs(t, err, ErrDiskFull)
	holds(t, dir)
}

func TestOtherFailures(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "last")
	try.Do(t, WriteFile(path, put("old")))
	for _, sys := range []*faults{broken(func(f *faulty) { f.failSync = true }),
		broken(func(f *faulty) { f.failClosed = true }),
		{rename: func(string, string) error { return syscall.EIO }},
	} {
		err := on(sys, func() error { return WriteFile(path, put("new")) })
		wantIs(t, err, syscall.EIO)
		try.Fails(t, err, "earlier file is intact")
		holds(t, dir, "last", "old")
	}
	own := errors.New("the caller's own")
	err := WriteFile(path, func(w io.Writer) error { return errors.Join(put("half")(w), own) })
	wantIs(t, err, own)
	holds(t, dir, "last", "old")
	noSync := &faults{syncDir: func(string) error { return syscall.EIO }}
	if err := on(noSync, func() error { return WriteFile(path, put("new")) }); !errors.Is(err, syscall.EIO) ||
		strings.Contains(err.Error(), "intact") {
		t.Errorf("sync of the folder: got %v", err)
	}
}

// An error of the callback about another file keeps that file's name and gets no remedy for the written one.
func TestForeignError(t *testing.T) {
	dir := t.TempDir()
	err := WriteFile(filepath.Join(dir, "last"), func(io.Writer) error {
		return &fs.PathError{Op: "open", Path: filepath.Join(dir, "sub", "source.npy"), Err: fs.ErrPermission}
	})
	if try.Fails(t, err, "source.npy"); strings.Contains(err.Error(), "writable") {
		t.Errorf("got %v", err)
	}
}

// What must not be replaced is refused with a remedy, and stays.
func TestUnsuitableTargets(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		dir:                           "found a folder; name a file in it",
		os.DevNull:                    "found a device",
		filepath.Join(dir, "no", "f"): "make the folder " + filepath.Join(dir, "no") + " first",
	} {
		if path == os.DevNull && runtime.GOOS == "windows" {
			continue
		}
		try.Fails(t, WriteFile(path, put("x")), want)
	}
	if info, err := os.Stat(os.DevNull); err == nil && info.Mode().IsRegular() {
		t.Fatal("/dev/null is a regular file now")
	}
	holds(t, dir)
}

// late is a system on which another process is first.
type late struct{ disk.Host }

func (late) Link(from, to string) error {
	if err := os.WriteFile(to, []byte("other"), 0o666); err != nil {
		return err
	}
	return os.Link(from, to)
}

func TestWriteNew(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "point")
	try.Do(t, WriteNew(path, put("first")))
	wantIs(t, WriteNew(path, put("second")), fs.ErrExist)
	holds(t, dir, "point", "first")
	err := on(late{}, func() error { return WriteNew(filepath.Join(dir, "next"), put("mine")) })
	wantIs(t, err, fs.ErrExist)
	holds(t, dir, "point", "first", "next", "other")
}

// A file that is neither committed nor aborted twice over stays as it is.
func TestAbort(t *testing.T) {
	dir := t.TempDir()
	f := try.Get(Create(filepath.Join(dir, "a")))(t)
	try.Get(f.Write([]byte("half")))(t)
	f.Abort()
	f.Abort()
	wantIs(t, f.Commit(), fs.ErrClosed)
	holds(t, dir)
}
