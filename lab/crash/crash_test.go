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
	"vsetrain/lab/try"
)

// record does something in a folder that holds the file old.
func record(t *testing.T, do func(s disk.System, dir string) error) *Recorder {
	t.Helper()
	dir := try.MemoryDir(t)
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
		dir := try.MemoryDir(t)
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
	f, err := s.Open(path)
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

// Mistakes of a program that replaces a file are found by what shows them, and none where there is none.
func TestPrograms(t *testing.T) {
	const power, faults = "power failures ", "faults "
	ignored := func(error) error { return nil }
	for name, c := range map[string]struct {
		run  func(s disk.System, temp, path string) error
		want string
	}{
		"no mistake": {func(s disk.System, temp, path string) error {
			return first(put(s, temp, "new", true), func() error { return s.Rename(temp, path) },
				func() error { return s.SyncDir(filepath.Dir(path)) })
		}, ""},
		"the file is not synced": {func(s disk.System, temp, path string) error {
			return first(put(s, temp, "new", false), func() error { return s.Rename(temp, path) },
				func() error { return s.SyncDir(filepath.Dir(path)) })
		}, power},
		"the folder is not synced": {func(s disk.System, temp, path string) error {
			return first(put(s, temp, "new", true), func() error { return s.Rename(temp, path) })
		}, power},
		"the name comes before the text": {func(s disk.System, temp, path string) error {
			return first(put(s, temp, "", true), func() error { return s.Rename(temp, path) },
				func() error { return put(s, path, "new", true) },
				func() error { return s.SyncDir(filepath.Dir(path)) })
		}, power + faults},
		"an error of the write is lost": {func(s disk.System, temp, path string) error {
			return first(ignored(put(s, temp, "new", true)), func() error { return s.Rename(temp, path) },
				func() error { return s.SyncDir(filepath.Dir(path)) })
		}, faults},
	} {
		dir := try.MemoryDir(t)
		try.Do(t, os.WriteFile(filepath.Join(dir, "file"), []byte("old"), 0o666))
		run := func() error {
			os.Remove(filepath.Join(dir, "temp"))
			return c.run(disk.Now(), filepath.Join(dir, "temp"), filepath.Join(dir, "file"))
		}
		p := &Program{Dir: dir, Run: run, Again: run, Outputs: []string{"file"}}
		try.Do(t, p.begin())
		d, found := draw{seed: 1, shards: 1, until: time.Now().Add(time.Minute)}, ""
		for _, kind := range []struct {
			name string
			try  func(draw) (Outcome, error)
		}{{power, p.powerFailures}, {faults, p.singleFaults}, {faults, p.faultPairs}} {
			o := try.Get(kind.try(d))(t)
			if o.Tried != o.Found || kind.name == power && o.Tried < 6 ||
				(o.Failed > 0) != (len(o.Errors) > 0) {
				t.Errorf("%s, %s: %+v", name, kind.name, o)
			}
			if o.Failed > 0 && !strings.HasSuffix(found, kind.name) {
				found += kind.name
			}
		}
		if found != c.want {
			t.Errorf("%s: found by %q, want %q", name, found, c.want)
		}
		d.until = time.Now().Add(10 * time.Millisecond)
		if o := try.Get(p.secondFailures(d))(t); name == "no mistake" && (o.Tried == 0 || o.Failed > 0) {
			t.Errorf("twice: %+v", o)
		}
	}
}

// first returns the first error of a row of calls, of which those after it are not made.
func first(err error, calls ...func() error) error {
	for _, call := range calls {
		if err == nil {
			err = call()
		}
	}
	return err
}

// The parts of several processes are the whole, and the same seed draws the same.
func TestShards(t *testing.T) {
	whole := draw{seed: 5, shards: 1}.perm(20, 1)
	parts := append(draw{seed: 5, shards: 2}.perm(20, 1), draw{seed: 5, shard: 1, shards: 2}.perm(20, 1)...)
	if slices.Sort(parts); slices.Equal(whole, parts) {
		t.Error("the order is not drawn")
	}
	if slices.Sort(whole); !slices.Equal(whole, parts) || len(whole) != 20 {
		t.Errorf("%v, %v", whole, parts)
	}
}
