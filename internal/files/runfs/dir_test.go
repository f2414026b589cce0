package runfs

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/lab/try"
)

var owner = Owner{PID: 4711, Host: "gallery", Since: time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)}

const holdVariable = "RUNFS_TEST_HOLD"

// TestMain lets the test binary play the other process that holds a run directory.
func TestMain(m *testing.M) {
	dir := os.Getenv(holdVariable)
	if dir == "" {
		os.Exit(m.Run())
	}
	if _, err := Open(dir, Owner{PID: os.Getpid(), Host: "other"}); err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Stdout.WriteString("held\n")
	time.Sleep(time.Minute)
}

func open(t *testing.T, path string) *Dir {
	t.Helper()
	d := try.Get(Open(path, owner))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs", "a")
	d := open(t, path)
	_, err := Open(path, Owner{PID: 1})
	try.Fails(t, err, "lock "+path+": in use; it is held by process 4711 on gallery, since 2026-03-01 12:30:00: "+
		"end that process or choose another directory with --run DIR")
	if !errors.Is(err, ErrLocked) {
		t.Errorf("got %v", err)
	}
	try.Do(t, d.Close())
	open(t, path)
}

// kill -9 of the holder frees the directory at once.
func TestLockOfKilledProcess(t *testing.T) {
	path := t.TempDir()
	cmd := exec.Command(try.Get(os.Executable())(t))
	cmd.Env = append(os.Environ(), holdVariable+"="+path)
	out := try.Get(cmd.StdoutPipe())(t)
	try.Do(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "held\n" {
		t.Fatalf("%q, %v", line, err)
	}
	_, err = Open(path, owner)
	if try.Fails(t, err, fmt.Sprintf("process %d on other", cmd.Process.Pid)); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v", err)
	}
	try.Do(t, cmd.Process.Kill())
	cmd.Wait()
	open(t, path)
}

func TestOpenRemovesHalfWritten(t *testing.T) {
	half, kept := filepath.Join(CheckpointsName, ".last.tmp-0-99-1"), filepath.Join(CheckpointsName, "last")
	d := open(t, try.Files(t, map[string]string{half: "", kept: ""}))
	for name, want := range map[string]bool{half: false, kept: true, ConfigName: false} {
		if got := try.Get(d.Has(name))(t); got != want {
			t.Errorf("%s is there: %v", name, got)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	try.Refuses(Open("", owner))(t, "run.dir")
	path := filepath.Join(t.TempDir(), "file")
	try.Do(t, os.WriteFile(path, nil, 0o644))
	try.Refuses(Open(path, owner))(t, "create "+path+": ", // and what the system calls it
		"; no folder can be made there; choose another run directory with --run DIR")
}

func TestEnv(t *testing.T) {
	d := open(t, t.TempDir())
	first := Env{Version: "1", CPU: "a", CPUs: 2, Command: []string{"vsetrain", "train"}, Started: owner.Since}
	second := first
	second.Device = "cpu"
	for _, e := range []Env{first, second} {
		try.Do(t, d.AppendEnv(e))
	}
	got, err := ReadSessions(d.Path())
	if err != nil || len(got) != 2 || got[0].Command[1] != "train" || got[1].Device != "cpu" ||
		!got[0].Started.Equal(owner.Since) {
		t.Errorf("%+v, %v", got, err)
	}
	try.Do(t, os.WriteFile(d.Path(EnvName), []byte("{"), 0o644))
	try.Fails(t, d.AppendEnv(first), EnvName)
}

// What cannot be looked at is not taken for missing.
func TestExists(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	try.Do(t, os.WriteFile(file, nil, 0o666))
	if err := os.Symlink(filepath.Join(dir, "not", "mounted"), link); err != nil {
		t.Skip(err)
	}
	for path, want := range map[string]bool{dir: true, file: true, link: true, filepath.Join(dir, "none"): false,
		filepath.Join(file, "below"): false} {
		if got, err := Exists(path); got != want || err != nil {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
	try.Refuses(Exists(filepath.Join(dir, strings.Repeat("x", 5000))))(t, "xxx")
}

// Runs are found down to a depth, by the order of their names, and not within each other, in hidden folders or for ever
// in a folder that holds itself.
func TestFindRuns(t *testing.T) {
	files := map[string]string{}
	for _, dir := range []string{"b", "b/inner", "a/1/2/3/4", "a/1/2/3/4x/5", ".hidden/c"} {
		files[filepath.Join(dir, ConfigName)] = ""
	}
	root := try.Files(t, files)
	try.Do(t, os.Symlink("..", filepath.Join(root, "a", "up")))
	runs, full := FindRuns(root)
	if want := []string{"a/1/2/3/4", "a/up/a/up/b", "a/up/b", "b"}; full || !slices.Equal(runs, want) {
		t.Errorf("found %q, full %v, want %q", runs, full, want)
	}
}
