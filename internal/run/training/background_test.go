package training_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/disk"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/training"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/models"
	"vsetrain/train"
)

// heldDisk holds the first write to one checkpoint until it is told how that ends. With errKilled the process writes
// nothing more.
type heldDisk struct {
	disk.Host
	file string // that checkpoint,
	nth  int    // from 1 of its name
	ends chan error

	begun        func() // when it is held; may be nil
	mu           sync.Mutex
	dead, full   bool // no write is made any more; none to the log
	writing, two bool // checkpoints; two at a time
}

var errKilled = errors.New("killed")

func (h *heldDisk) Create(path string) (disk.File, error) {
	f, err := h.Host.Create(path)
	if err != nil || !strings.Contains(path, runfs.CheckpointsName) {
		return f, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.two = h.two || h.writing
	h.writing = true
	if strings.HasPrefix(filepath.Base(path), "."+h.file) {
		h.nth--
	}
	return &heldFile{f, h, h.nth == 0 && strings.HasPrefix(filepath.Base(path), "."+h.file)}, nil
}

func (h *heldDisk) Open(path string) (disk.File, error) {
	f, err := h.Host.Open(path)
	return &fullFile{f, h}, err
}

type fullFile struct {
	disk.File
	h *heldDisk
}

func (f *fullFile) WriteAt(b []byte, at int64) (int, error) {
	if f.h.full {
		return 0, syscall.ENOSPC
	}
	return f.File.WriteAt(b, at)
}

func (h *heldDisk) Remove(path string) error {
	if h.dead {
		return errKilled
	}
	return h.Host.Remove(path)
}

type heldFile struct {
	disk.File
	h    *heldDisk
	held bool
}

func (f *heldFile) Write(b []byte) (int, error) {
	if f.held {
		if f.held = false; f.h.begun != nil {
			f.h.begun()
		}
		select {
		case err := <-f.h.ends:
			if f.h.dead = errors.Is(err, errKilled); err != nil {
				n, _ := f.File.Write(b[:len(b)/2])
				return n, err
			}
		case <-time.After(20 * time.Second):
			return 0, errors.New("the training stands while a checkpoint is written")
		}
	}
	return f.File.Write(b)
}

func (f *heldFile) Close() error {
	f.h.mu.Lock()
	f.h.writing = false
	f.h.mu.Unlock()
	return f.File.Close()
}

// While a checkpoint is written steps are done. A kill, or an error of the disk, leaves the one before, from which the
// run comes to the end of the undisturbed one, bit for bit.
func TestCheckpointBehindSteps(t *testing.T) {
	c := runtest.TinyConfig() // validations after steps 5, 10, 13, 15, 20, 25, 26
	c.Optim.EMA, c.Train.Keep = 0.5, 2
	want := try.Get(runtest.ReadOutcome(runtest.Train(t, c)))(t)
	for _, at := range []struct {
		file  string
		nth   int
		until int64 // step
		saved int64
		lines int // of the log, with the lines of validations
	}{
		{runfs.LastName, 1, 6, 0, 6}, {runfs.BestName, 1, 6, 0, 6}, // nothing is logged before there is one
		{runfs.LastName, 2, 12, 5, 13}, {runfs.LastName, 4, 18, 13, 21},
	} {
		for _, end := range []error{errKilled, syscall.ENOSPC, nil} {
			t.Run(fmt.Sprintf("%s %d, %v", at.file, at.nth, end), func(t *testing.T) {
				h := &heldDisk{file: at.file, nth: at.nth, ends: make(chan error, 1)}
				dir, lines := filepath.Join(t.TempDir(), "run"), 0
				w := &runtest.Watcher{OnStep: func(i train.StepInfo) {
					if i.Step == at.until {
						lines = len(runtest.Metrics(t, dir))
						h.ends <- end
					}
				}}
				var saved int64
				r := runtest.Request(c, dir, w)
				r.Saved = func(step int64) { saved = step }
				restore := disk.Use(h)
				out, err := training.Train(t.Context(), r)
				restore()
				if h.two || lines != at.lines {
					t.Errorf("two checkpoints at a time: %v; %d lines in the log, want %d", h.two, lines, at.lines)
				}
				if end == nil {
					try.Do(t, errors.Join(err, want.Differs(dir)))
					return
				}
				try.Fails(t, err, "save ", "checkpoint", at.file, end.Error())
				if errors.Is(err, atomicfile.ErrDiskFull) != (end == syscall.ENOSPC) || saved != at.saved ||
					out.Position.Step < at.until || out.Position.Step > at.until+3 {
					t.Errorf("%v at step %d; the checkpoint of step %d is there", err, out.Position.Step, saved)
				}
				left := try.Get(filepath.Glob(filepath.Join(dir, runfs.CheckpointsName, ".*")))(t)
				if len(left) > 0 != (end == errKilled) {
					t.Errorf("half-written files: %v", left)
				}
				runtest.Resume(t, runtest.Request(c, dir, &runtest.Watcher{}))
				try.Do(t, want.Differs(dir))
			})
		}
	}
}

// A checkpoint that is due while one is written waits for that, and so does what a validation logs.
func TestCheckpointsInQuickSuccession(t *testing.T) {
	c := runtest.TinyConfig()
	want := try.Get(runtest.ReadOutcome(runtest.Train(t, c)))(t)
	h := &heldDisk{file: runfs.LastName, nth: 2, ends: make(chan error, 1)}
	dir := filepath.Join(t.TempDir(), "run")
	var w *runtest.Watcher
	waits := true
	w = &runtest.Watcher{OnValidate: func(done int) {
		if len(w.Validations) == 2 && waits { // the third, of step 13; the checkpoint of step 10 is being written
			waits = false
			time.AfterFunc(100*time.Millisecond, func() {
				last, err := models.ReadInfo(runtest.Checkpoint(dir, runfs.LastName))
				if n := len(runtest.Metrics(t, dir)); err != nil || last.Step != 5 || n != 15 {
					t.Errorf("last is of step %d, %v; %d lines in the log, want 13 steps and 2 validations", last.Step,
						err, n)
				}
				h.ends <- nil
			})
		}
	}}
	restore := disk.Use(h)
	_, err := training.Train(t.Context(), runtest.Request(c, dir, w))
	restore()
	if try.Do(t, errors.Join(err, want.Differs(dir))); waits || h.two {
		t.Errorf("nothing waited: %v; two checkpoints at a time: %v", waits, h.two)
	}
}

// A training that ends with an error waits for the checkpoint that is being written, and names that.
func TestErrorBesideACheckpoint(t *testing.T) {
	h := &heldDisk{file: runfs.LastName, nth: 2, ends: make(chan error, 1)}
	dir := filepath.Join(t.TempDir(), "run")
	w := &runtest.Watcher{OnStep: func(i train.StepInfo) {
		if h.full = i.Step == 12; h.full {
			time.AfterFunc(100*time.Millisecond, func() { h.ends <- nil })
		}
	}}
	var saved int64
	r := runtest.Request(runtest.TinyConfig(), dir, w)
	r.Saved = func(step int64) { saved = step }
	restore := disk.Use(h)
	_, err := training.Train(t.Context(), r)
	restore()
	try.Fails(t, err, runfs.MetricsName, "no space left on device")
	if last, err := models.ReadInfo(runtest.Checkpoint(dir, runfs.LastName)); err != nil || last.Step != 10 ||
		saved != 10 {
		t.Errorf("last is of step %d, %v; %d was told", last.Step, err, saved)
	}
}

// A training that is interrupted waits for the checkpoint that is being written before it writes its last.
func TestInterruptedBesideACheckpoint(t *testing.T) {
	c := runtest.TinyConfig()
	want := try.Get(runtest.ReadOutcome(runtest.Train(t, c)))(t)
	h := &heldDisk{file: runfs.LastName, nth: 2, ends: make(chan error, 1)}
	dir := filepath.Join(t.TempDir(), "run")
	restore := disk.Use(h)
	h.begun = func() { time.AfterFunc(200*time.Millisecond, func() { h.ends <- nil }) }
	runtest.Interrupt(t, runtest.Request(c, dir, &runtest.Watcher{}), 11)
	restore()
	if last, err := models.ReadInfo(runtest.Checkpoint(dir, runfs.LastName)); err != nil || last.Step != 11 || h.two {
		t.Errorf("last is of step %d, %v; two checkpoints at a time: %v", last.Step, err, h.two)
	}
	runtest.Resume(t, runtest.Request(c, dir, &runtest.Watcher{}))
	try.Do(t, want.Differs(dir))
}

// Without memory for a copy the training stands while a checkpoint is written, which is said once; the files are the
// same.
func TestCheckpointsWithoutACopy(t *testing.T) {
	c := runtest.TinyConfig()
	c.Optim.EMA, c.Train.Keep, c.Train.LogStep = 0.5, 2, 0 // logs differ in how long a step waited for data
	need := try.Get(training.DryRun(t.Context(), runtest.Request(c, t.TempDir(), &runtest.Watcher{})))(t).Last
	var files [2]map[string][]byte
	for i, free := range []int64{2 * need, 2*need - 1} {
		w, dir := &runtest.Watcher{}, filepath.Join(t.TempDir(), "run")
		r := runtest.Request(c, dir, w)
		r.FreeMemory = func() int64 { return free }
		clock := time.Unix(1, 0) // the log is hashed
		r.Now = func() time.Time { clock = clock.Add(time.Millisecond); return clock }
		try.Get(training.Train(t.Context(), r))(t)
		if len(w.Warnings) != i || i == 1 && !strings.Contains(w.Warnings[0].Error(), "training stands while") {
			t.Errorf("%d bytes are free: %v", free, w.Warnings)
		}
		files[i] = map[string][]byte{}
		for _, f := range try.Get(filepath.Glob(runtest.Checkpoint(dir, "*")))(t) {
			files[i][filepath.Base(f)] = try.Get(os.ReadFile(f))(t)
		}
	}
	for name, b := range files[0] {
		if !bytes.Equal(b, files[1][name]) {
			t.Errorf("%s is another file", name)
		}
	}
	if len(files[0]) != 5 || len(files[1]) != 5 { // best, last, ema and two that are kept
		t.Errorf("%d and %d files", len(files[0]), len(files[1]))
	}
}
