package crash

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/files/disk"
	"vsetrain/internal/house/try"
)

// record does something in a folder that holds the file old.
func record(t *testing.T, do func(s disk.System, dir string) error) *Recorder {
	t.Helper()
	dir := t.TempDir()
	try.Do(t, os.WriteFile(filepath.Join(dir, "old"), []byte("old"), 0o666))
	r := try.Get(Record(dir))(t)
	defer disk.Use(r)()
	try.Do(t, do(disk.Now(), dir))
	return r
}

// describe lists the states, each as its files and contents.
func describe(t *testing.T, r *Recorder) (all []string) {
	t.Helper()
	for s := range r.States {
		dir := t.TempDir()
		try.Do(t, s.Write(dir))
		var files []string
		entries := try.Get(os.ReadDir(dir))(t)
		for _, e := range entries {
			b, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if e.IsDir() {
				b, err = []byte("/"), nil
			}
			try.Do(t, err)
			files = append(files, e.Name()+"="+strings.ReplaceAll(string(b), "\x00", "0"))
		}
		all = append(all, strings.Join(files, " "))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func put(s disk.System, path, text string, sync bool) error {
	f, err := s.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(text))
	if sync {
		err = errors.Join(err, f.Sync())
	}
	return errors.Join(err, f.Close())
}

// The states of a few calls are those that one writes down by hand.
func TestStates(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(s disk.System, dir string) error
		want []string
	}{
		"a file without syncs": {func(s disk.System, dir string) error {
			return put(s, filepath.Join(dir, "new"), "abcd", false)
		}, []string{"new= old=old", "new=0000 old=old", "new=ab old=old", "new=abcd old=old", "old=old"}},
		"a replaced file, well": {func(s disk.System, dir string) error {
			temp := filepath.Join(dir, ".t")
			return errors.Join(put(s, temp, "new", true), s.Rename(temp, filepath.Join(dir, "old")), s.SyncDir(dir))
		}, []string{".t= old=old", ".t=000 old=old", ".t=n old=old", ".t=new old=old", "old=new", "old=old"}},
		"a replaced file without sync": {func(s disk.System, dir string) error {
			temp := filepath.Join(dir, ".t")
			return errors.Join(put(s, temp, "new", false), s.Rename(temp, filepath.Join(dir, "old")))
		}, []string{".t= old=old", ".t=000 old=old", ".t=n old=old", ".t=new old=old", "old=", "old=000", "old=n",
			"old=new", "old=old"}},
		"two names, any of them first": {func(s disk.System, dir string) error {
			return errors.Join(put(s, filepath.Join(dir, "a"), "", true), put(s, filepath.Join(dir, "b"), "", true))
		}, []string{"a= b= old=old", "a= old=old", "b= old=old", "old=old"}},
		"a file in a new folder": {func(s disk.System, dir string) error {
			sub := filepath.Join(dir, "sub")
			return errors.Join(s.Mkdir(sub), put(s, filepath.Join(sub, "a"), "", true), s.SyncDir(sub), s.SyncDir(dir))
		}, []string{"old=old", "old=old sub=/"}},
		"a file that is shortened": {func(s disk.System, dir string) error {
			f, err := s.Open(filepath.Join(dir, "old"))
			if err != nil {
				return err
			}
			return errors.Join(f.Truncate(1), f.Close())
		}, []string{"old=o", "old=old"}},
		"a file that goes": {func(s disk.System, dir string) error {
			return s.Remove(filepath.Join(dir, "old"))
		}, []string{"", "old=old"}},
	} {
		if got := describe(t, record(t, c.do)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// What a check does not like is named with its state.
func TestTry(t *testing.T) {
	r := record(t, func(s disk.System, dir string) error { return put(s, filepath.Join(dir, "new"), "abcd", false) })
	dir := filepath.Join(t.TempDir(), "state")
	o, err := r.Try(dir, 1, time.Now().Add(time.Minute), func() error {
		if b, err := os.ReadFile(filepath.Join(dir, "new")); err == nil && string(b) == "ab" {
			return errors.New("a half")
		}
		return nil
	})
	if err != nil || o.Found != o.Tried || o.Failed != 1 ||
		!strings.Contains(o.Errors[0].Error(), "1 of 1 names, data half: a half") {
		t.Errorf("%+v, %v", o, err)
	}
}
