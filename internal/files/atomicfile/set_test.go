package atomicfile

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"vsetrain/internal/files/disk"
	"vsetrain/lab/try"
)

// newSet makes a set of the files of a folder, each with the text.
func newSet(t *testing.T, dir, text string, names ...string) *Set {
	t.Helper()
	s := &Set{}
	for _, name := range names {
		f := try.Get(Create(filepath.Join(dir, name)))(t)
		try.Get(io.WriteString(f, text))(t)
		s.Add(f)
	}
	return s
}

func TestSet(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"old", "new"} {
		try.Do(t, newSet(t, dir, text, "boxes", "ids", "features").Commit())
		holds(t, dir, "boxes", text, "ids", text, "features", text)
	}
	newSet(t, dir, "never", "boxes", "features").Abort()
	holds(t, dir, "boxes", "new", "ids", "new", "features", "new")
	try.Do(t, newSet(t, dir, "one", "ids").Commit())
	holds(t, dir, "boxes", "new", "ids", "one", "features", "new")
	s := newSet(t, dir, "bare", "features")
	s.Remove(filepath.Join(dir, "boxes"))
	s.Remove(filepath.Join(dir, "sizes"))
	if got := s.Paths(); !slices.Equal(got, []string{filepath.Join(dir, "features")}) {
		t.Errorf("paths %v", got)
	}
	try.Do(t, s.Commit())
	holds(t, dir, "ids", "one", "features", "bare")
}

// A folder at the place of a file is not part of an earlier set.
func TestSetKeepsFolders(t *testing.T) {
	dir := t.TempDir()
	try.Do(t, os.MkdirAll(filepath.Join(dir, "boxes", "mine"), 0o777))
	s := newSet(t, dir, "new", "features")
	s.Remove(filepath.Join(dir, "boxes"))
	try.Fails(t, s.Commit(), "boxes: expected a file, found a folder")
	if all := try.Get(os.ReadDir(dir))(t); len(all) != 1 || all[0].Name() != "boxes" {
		t.Errorf("%v", all)
	}
}

// Whichever rename fails, and whichever kill comes, nobody finds files of two sets under the name of the last one: an
// error leaves the earlier set, a kill leaves a whole set or one without its last file.
func TestHalfSet(t *testing.T) {
	names := []string{"boxes", "ids", "features"}
	for _, earlier := range [][]string{nil, {"boxes"}, {"boxes", "ids", "features"}, {"features"}} {
		for _, killed := range []bool{false, true} {
			for fail := 0; ; fail++ {
				dir := t.TempDir()
				var want []string
				for _, name := range earlier {
					try.Do(t, WriteFile(filepath.Join(dir, name), put("old")))
					want = append(want, name, "old")
				}
				n := 0
				sys := &faults{rename: func(from, to string) error {
					if n++; n-1 == fail || killed && n > fail {
						return syscall.EIO
					}
					return os.Rename(from, to)
				}}
				s := newSet(t, dir, "new", names...)
				if killed {
					r := replacement{} // Commit without what it does after an error
					try.Do(t, s.Prepare())
					err := on(sys, func() error { return r.replace(s) })
					wholeOrVisible(t, dir, earlier)
					s.Abort()
					if err == nil {
						break
					}
					continue
				}
				err := on(sys, s.Commit)
				if err == nil {
					holds(t, dir, "boxes", "new", "ids", "new", "features", "new")
					break
				}
				wantIs(t, err, syscall.EIO)
				holds(t, dir, want...)
			}
		}
	}
}

// wholeOrVisible checks the folder of a killed set.
func wholeOrVisible(t *testing.T, dir string, earlier []string) {
	t.Helper()
	read := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(dir, name))
		return string(b)
	}
	last := read("features")
	if last == "" {
		return
	}
	for _, name := range []string{"boxes", "ids"} {
		if got := read(name); got != last && (got != "" || last == "new" || slices.Contains(earlier, name)) {
			t.Errorf("earlier %v: features are %s, %s %q", earlier, last, name, got)
		}
	}
}

// A set that cannot be written leaves the earlier one, whichever file meets the full disk.
func TestSetFullDisk(t *testing.T) {
	dir := t.TempDir()
	try.Do(t, newSet(t, dir, "old", "ids", "features").Commit())
	s := newSet(t, dir, "new", "ids")
	defer s.Abort()
	restore := disk.Use(broken(func(f *faulty) { f.failSync = true }))
	s.Add(newSet(t, dir, "new", "features").files[0])
	restore()
	wantIs(t, s.Commit(), syscall.EIO)
	holds(t, dir, "ids", "old", "features", "old")
}

// Before the last file of a set has its name, the names of all others are lasting.
func TestSetIsOrderedOnDisk(t *testing.T) {
	dir := t.TempDir()
	var calls []string
	sys := &faults{rename: func(from, to string) error {
		calls = append(calls, filepath.Base(to))
		return os.Rename(from, to)
	}, syncDir: func(string) error { calls = append(calls, "sync"); return nil }}
	try.Do(t, on(sys, newSet(t, dir, "new", "boxes", "ids", "features").Commit))
	if want := "boxes ids sync features sync"; strings.Join(calls, " ") != want {
		t.Errorf("%v, want %s", calls, want)
	}
}
