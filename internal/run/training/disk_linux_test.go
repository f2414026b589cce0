package training_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/evaluate"
	"vsetrain/internal/run/training"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/train"
)

// mount mounts a tmpfs and skips the test where that is not allowed.
func mount(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("needs the right to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill writes a file that leaves about free bytes of the disk.
func fill(t *testing.T, path string, free int64) {
	t.Helper()
	var st unix.Statfs_t
	try.Do(t, unix.Statfs(filepath.Dir(path), &st))
	try.Do(t, os.WriteFile(path, make([]byte, int64(st.Bavail)*st.Bsize-free), 0o666))
}

// A disk that becomes full ends the run with a message; the checkpoint before is whole, and with space again the run
// continues to the result of the undisturbed one.
func TestFullDisk(t *testing.T) {
	for _, c := range []struct {
		name    string
		logStep int
		at      int64 // step at which the disk becomes full
		free    int64 // bytes that are left
		words   []string
	}{
		{"while a checkpoint is written", 0, 7, 8192,
			[]string{"save ", "checkpoint", ".safetensors: no space left on device; the earlier file is intact; free " +
				"space and resume"}},
		{"while a step is logged", 1, 27, 0, []string{"metrics.jsonl: no space left on device; free space and resume"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := mount(t, "size=1m")
			dir, filler := filepath.Join(disk, "run"), filepath.Join(disk, "filler")
			cfg := runtest.TinyConfig()
			cfg.Train.LogStep, cfg.Run.TensorBoard = c.logStep, false
			if c.logStep > 0 { // many lines between the validations
				cfg.Train.Batch, cfg.Train.ValStep = 8, 0
			}
			w := &runtest.Watcher{OnStep: func(i train.StepInfo) {
				if i.Step == c.at {
					for there := false; !there; time.Sleep(time.Millisecond) { // the first checkpoint
						there, _ = runfs.Exists(runtest.Checkpoint(dir, runfs.LastName))
					}
					fill(t, filler, c.free)
				}
			}}
			out, err := training.Train(t.Context(), runtest.Request(cfg, dir, w))
			try.Fails(t, err, c.words...)
			if !errors.Is(err, atomicfile.ErrDiskFull) || out.Position.Step <= c.at {
				t.Fatalf("%v at %+v", err, out.Position)
			}
			if r, err := evaluate.Run(t.Context(), evaluate.Request{Checkpoints: []string{runtest.Checkpoint(dir,
				runfs.LastName)}, Split: "dev",
				Protocol: eval.Auto, Device: device.DefaultOptions()}); err != nil {
				t.Errorf("the earlier checkpoint: %v", err)
			} else if got, want := r.Results[0].Metrics.MRecall, w.Validations[0].Metrics.MRecall; got != want {
				t.Errorf("the earlier checkpoint has M-Recall %v, the first validation gave %v", got, want)
			}
			if files, _ := filepath.Glob(filepath.Join(dir, "checkpoints", ".*")); len(files) > 0 {
				t.Errorf("half-written files stay: %v", files)
			}
			try.Do(t, os.Remove(filler))
			runtest.Resume(t, runtest.Request(cfg, dir, &runtest.Watcher{}))
			whole := runtest.Train(t, cfg)
			runtest.SameTensors(t, runtest.Checkpoint(dir, runfs.LastName), runtest.Checkpoint(whole, runfs.LastName))
			runtest.SameTensors(t, runtest.Checkpoint(dir, runfs.BestName), runtest.Checkpoint(whole, runfs.BestName))
			if got, want := runtest.Metrics(t, dir), runtest.Metrics(t, whole); !slices.Equal(got, want) {
				t.Errorf("metrics %q, want %q", got, want)
			}
		})
	}
}

func TestReadOnlyRunDirectory(t *testing.T) {
	disk := mount(t, "size=1m")
	cfg := runtest.TinyConfig()
	cfg.Train.Epochs = 1
	dir := filepath.Join(disk, "run")
	try.Get(training.Train(t.Context(), runtest.Request(cfg, dir, &runtest.Watcher{})))(t)
	try.Do(t, unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	for _, resume := range []bool{true, false} {
		r := runtest.Request(cfg, dir, &runtest.Watcher{})
		if r.Resume = resume; !resume {
			r.RunDir = filepath.Join(disk, "new")
		}
		try.Refuses(training.Train(t.Context(), r))(t, r.RunDir, "read-only file system",
			"choose another run directory with --run DIR or make "+
				"this one writable")
	}
	if _, err := evaluate.Run(t.Context(), evaluate.Request{Checkpoints: []string{dir}, Split: "test",
		Protocol: eval.Auto,
		Device:   device.DefaultOptions()}); err != nil {
		t.Errorf("a read-only run cannot be evaluated: %v", err)
	}
}
