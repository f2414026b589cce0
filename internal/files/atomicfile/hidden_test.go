package atomicfile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"vsetrain/internal/system/process"
	"vsetrain/lab/try"
)

// ended returns the number of a process that has ended.
func ended(t *testing.T) int {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^$")
	try.Do(t, c.Run())
	return c.Process.Pid
}

// Writing a target removes what ended processes left of it, and nothing else.
func TestLeftBehind(t *testing.T) {
	if process.Machine() == "" {
		t.Skip("this system does not tell which processes run")
	}
	dir := t.TempDir()
	here, dead, old := thisMachine(), ended(t), time.Now().Add(-2*foreignAge)
	plant := func(name string, age time.Time) {
		t.Helper()
		path := filepath.Join(dir, name)
		try.Do(t, os.WriteFile(path, nil, 0o666))
		try.Do(t, os.Chtimes(path, age, age))
	}
	now := time.Now()
	kept := []string{
		fmt.Sprintf(".a.tmp-%s-%d-1", here, os.Getppid()), // lives
		fmt.Sprintf(".a.tmp-ffffffff-%d-1", dead),         // elsewhere, not old
		fmt.Sprintf(".b.tmp-%s-%d-1", here, dead),         // of another target
		fmt.Sprintf(".a.tmp-%s-x-1", here),                // of no process
		".a.tmp-mine",
	}
	for _, name := range kept {
		plant(name, now)
	}
	plant(fmt.Sprintf(".a.tmp-%s-%d-1", here, dead), now)
	plant(fmt.Sprintf(".a.tmp-ffffffff-%d-2", os.Getpid()), old)
	plant(fmt.Sprintf(".a.tmp-%s-%d-%d", here, os.Getpid(), count.Load()+1), now) // this number, an earlier process
	folder := filepath.Join(dir, fmt.Sprintf(".a.tmp-%s-%d-7", here, dead))
	try.Do(t, os.MkdirAll(filepath.Join(folder, "images"), 0o777))
	path := filepath.Join(dir, "a")
	first := try.Get(Create(path))(t)
	second, err := Create(path) // must not take the first for left behind
	try.Do(t, err)
	for i, f := range []*File{first, second} {
		try.Get(fmt.Fprint(f, i))(t)
		try.Do(t, f.Commit())
	}
	want := []string{"a", "1"}
	for _, name := range kept {
		want = append(want, name, "")
	}
	holds(t, dir, want...)
	try.Do(t, Clean(dir))
	holds(t, dir, "a", "1")
}

func TestMkdirTemp(t *testing.T) {
	dir := t.TempDir()
	name := try.Get(MkdirTemp(filepath.Join(dir, "world")))(t)
	if info, err := os.Stat(name); err != nil || !info.IsDir() || filepath.Dir(name) != dir {
		t.Errorf("%s: %v, %v", name, info, err)
	}
	if _, err := MkdirTemp(filepath.Join(dir, "no", "world")); err == nil {
		t.Error("made in a folder that is not there")
	}
	try.Do(t, CommitDir(name, filepath.Join(dir, "world")))
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 || all[0].Name() != "world" {
		t.Errorf("%v, %v", all, err)
	}
}
