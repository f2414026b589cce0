package runfs

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/lab/try"
)

// mount mounts a tmpfs and skips the test where that is not allowed.
func mount(t *testing.T, flags uintptr, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
		t.Skipf("needs the right to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestReallyFullDisk(t *testing.T) {
	dir := mount(t, 0, "size=64k")
	d := open(t, dir)
	for i, want := range []string{"free space and resume", "the earlier file is intact; free space and resume"} {
		err := d.WriteFile("last", atomicfile.Bytes(make([]byte, 1<<20)))
		if try.Fails(t, err, "no space left on device; "+want); !errors.Is(err, atomicfile.ErrDiskFull) {
			t.Errorf("got %v", err)
		}
		if i == 0 {
			try.Do(t, d.WriteFile("last", atomicfile.Bytes([]byte("old"))))
		}
	}
	if b, err := os.ReadFile(d.Path("last")); err != nil || string(b) != "old" {
		t.Errorf("last holds %q (%v)", b, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".last*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}

	l, err := OpenLog(filepath.Join(dir, MetricsName), All)
	try.Do(t, err)
	defer l.Close()
	lines := 0
	for err == nil {
		if err = l.Append(map[string]any{"step": lines, "pad": strings.Repeat("y", 3000)}); err == nil {
			lines++
		}
	}
	if !errors.Is(err, atomicfile.ErrDiskFull) || lines == 0 {
		t.Errorf("after %d lines: %v", lines, err)
	}
	wantLines(t, l.path, lines, "full disk")
}

func TestReadOnlyFileSystem(t *testing.T) {
	dir := mount(t, unix.MS_RDONLY, "")
	if _, err := Open(filepath.Join(dir, "run"), owner); !errors.Is(err, atomicfile.ErrReadOnly) {
		t.Errorf("got %v", err)
	}
}

// A directory that permits no writing, also when the tests run as root: the thread takes another user's file rights.
func TestReadOnlyDirectory(t *testing.T) {
	top := t.TempDir()
	path := filepath.Join(top, "run")
	try.Do(t, os.MkdirAll(filepath.Join(path, CheckpointsName), 0o755))
	try.Do(t, os.Chmod(path, 0o555))
	for _, dir := range []string{top, filepath.Dir(top)} { // the test's own; others may enter
		try.Do(t, os.Chmod(dir, 0o755))
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its rights
		if os.Geteuid() == 0 {
			if err := unix.Setfsuid(65534); err != nil {
				done <- err
				return
			}
		}
		_, err := Open(path, owner)
		done <- err
	}()
	err := <-done
	try.Fails(t, err, "write to "+path+": permission denied; choose another run directory with --run DIR or make this "+
		"one writable")
	if !errors.Is(err, atomicfile.ErrReadOnly) {
		t.Errorf("got %v", err)
	}
}
