package training_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/files/runfs"
	"vsetrain/internal/files/tfevents"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/training"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/train"
)

// interrupted trains with an interruption after every k-th step, resuming each time with the next number of threads,
// and returns how often it was interrupted.
func interrupted(t *testing.T, c *config.Config, dir string, every int64, threads ...int) (interruptions int) {
	t.Helper()
	for i := 0; ; i++ {
		ctx, cancel := context.WithCancel(t.Context())
		done := int64(0)
		w := &runtest.Watcher{OnStep: func(train.StepInfo) {
			if done++; done == every {
				cancel()
			}
		}}
		again := *c
		again.Device.Threads = threads[i%len(threads)]
		r := runtest.Request(&again, dir, w)
		r.Resume = i > 0
		_, err := training.Train(ctx, r)
		cancel()
		if err == nil {
			return interruptions
		}
		if !errors.Is(err, train.ErrInterrupted) {
			t.Fatal(err)
		}
		interruptions++
	}
}

// A run that is interrupted again and again, in the middle of epochs, before and after validations, ends with the
// weights, moments and metrics of the uninterrupted run, bit for bit, whatever the number of threads of each session.
func TestResumeEqualsUninterrupted(t *testing.T) {
	variants := map[string]func(*config.Config){
		"lseh": func(*config.Config) {},
		"bf16, warm-up": func(c *config.Config) {
			c.Device.Precision, c.Loss.Name, c.Loss.WarmupEpochs = "bf16", loss.LMH, 1
		},
		"fp64, adamw, cosine": func(c *config.Config) {
			c.Device.Precision, c.Optim.Name, c.Optim.WeightDecay = "fp64", "adamw", 0.01
			c.Optim.Schedule, c.Optim.WarmupSteps = train.Cosine, 4
		},
		"vsrn": func(c *config.Config) { // dropout, running statistics
			c.Model.Network, c.Train.Epochs, c.Train.ValStep = "vsrn", 1, 0
		},
		"crcl": func(c *config.Config) { c.Loss.Name, c.Loss.WarmupEpochs, c.Train.Epochs = "crcl", 1, 2 },
		"fne":  func(c *config.Config) { c.Loss.Name = "fne" }, // forgets its sums between the epochs
		"decl": func(c *config.Config) { c.Loss.Name, c.Loss.WarmupEpochs = "decl", 1 },
		"sam, dropped last": func(c *config.Config) {
			c.Loss.Name, c.Train.DropLast, c.Train.ValStep = "sam", true, 0
		},
		"siglip, averaged": func(c *config.Config) { c.Loss.Name, c.Optim.EMA, c.Train.Keep = "siglip", 0.9, 3 },
		"overfit":          func(c *config.Config) { c.Train.Overfit = 3 },
		"micro-batches": func(c *config.Config) {
			c.Model.Network, c.Model.TextEncoder, c.Train.MicroBatch = "vseinf", "bigru", 5
		},
		"pairs in micro-batches, bf16": func(c *config.Config) { // dropout, running statistics
			c.Model.Network, c.Model.TextEncoder, c.Train.MicroBatch, c.Device.Precision = "saf", "bigru", 5, "bf16"
		},
	}
	for name, change := range variants {
		t.Run(name, func(t *testing.T) {
			c := runtest.TinyConfig()
			change(c)
			whole := runtest.Train(t, c)
			for _, every := range []int64{1, 7} {
				if every < 7 && name != "lseh" {
					continue
				}
				dir := filepath.Join(t.TempDir(), "run")
				n := interrupted(t, c, dir, every, 1, 2, 3)
				steps := 26
				if c.Train.DropLast {
					steps = 24
				} else if c.Train.Epochs == 1 {
					steps = 13
				}
				if n != steps/int(every) {
					t.Errorf("every %d: %d interruptions", every, n)
				}
				runtest.SameTensors(t, runtest.Checkpoint(dir, runfs.LastName), runtest.Checkpoint(whole,
					runfs.LastName))
				runtest.SameTensors(t, runtest.Checkpoint(dir, runfs.BestName), runtest.Checkpoint(whole,
					runfs.BestName))
				sameCheckpoints(t, dir, whole)
				if got, want := runtest.Metrics(t, dir), runtest.Metrics(t, whole); !slices.Equal(got, want) {
					t.Errorf("every %d: %d lines of metrics, want the same %d", every, len(got), len(want))
				}
			}
		})
	}
}

// An interruption inside a validation: the state is saved, and the resumed run validates first.
func TestInterruptedInsideAValidation(t *testing.T) {
	c := runtest.TinyConfig()
	whole := runtest.Train(t, c)
	dir := filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &runtest.Watcher{OnValidate: func(int) { cancel() }}
	out, err := training.Train(ctx, runtest.Request(c, dir, w))
	if !errors.Is(err, train.ErrInterrupted) || out.Position.Step != 5 || !out.Position.Pending ||
		len(w.Validations) != 0 {
		t.Fatalf("%v at %+v", err, out.Position)
	}
	w = &runtest.Watcher{}
	runtest.Resume(t, runtest.Request(c, dir, w))
	if w.Plan.Resumed.Step != 5 || w.Validations[0].Step != 5 || w.Steps[0] != 6 {
		t.Errorf("resumed at %+v, first validation after %d, first step %d", w.Plan.Resumed, w.Validations[0].Step,
			w.Steps[0])
	}
	runtest.SameTensors(t, runtest.Checkpoint(dir, runfs.LastName), runtest.Checkpoint(whole, runfs.LastName))
	if got, want := runtest.Metrics(t, dir), runtest.Metrics(t, whole); !slices.Equal(got, want) {
		t.Errorf("metrics %q, want %q", got, want)
	}
}

// A session killed between logging a validation and saving it repeats the validation; its line must not stand twice.
func TestRepeatedValidationIsLoggedOnce(t *testing.T) {
	c := runtest.TinyConfig()
	dir := filepath.Join(t.TempDir(), "run")
	runtest.Interrupt(t, runtest.Request(c, dir, &runtest.Watcher{}), 5)
	runtest.AppendLine(t, dir, `{"kind":"val","step":5}`)
	runtest.Resume(t, runtest.Request(c, dir, &runtest.Watcher{}))
	if got, want := runtest.Metrics(t, dir), runtest.Metrics(t, runtest.Train(t, c)); !slices.Equal(got, want) {
		t.Errorf("metrics %q, want %q", got, want)
	}
}

// More epochs can be added to a finished run; the result is that of the longer run.
func TestResumeForLonger(t *testing.T) {
	c := runtest.TinyConfig()
	c.Train.Epochs = 1
	dir := runtest.Train(t, c)
	c.Train.Epochs = 2
	other := &runtest.Watcher{}
	r := runtest.Request(c, dir, other)
	r.Env.Version, r.Env.Commit = "1.2", "abc"
	runtest.Resume(t, r)
	if len(other.Warnings) != 1 || !strings.Contains(other.Warnings[0].Error(), "goes on with 1.2 (abc), which") {
		t.Errorf("a resume by another build warns %q", other.Warnings)
	}
	runtest.SameTensors(t, runtest.Checkpoint(dir, runfs.LastName), runtest.Checkpoint(runtest.Train(t, c),
		runfs.LastName))
}

func TestTensorBoardEvents(t *testing.T) {
	c := runtest.TinyConfig()
	c.Train.Epochs, c.Train.LogStep = 1, 2
	dir := runtest.Train(t, c)
	files, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*.host*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("event files %v, %v", files, err)
	}
	events := try.Get(tfevents.Read(files[0]))(t)
	count := map[string]int{}
	for _, e := range events {
		count[e.Tag]++
	}
	if count["train/loss"] != 6 || count["val/m_recall"] != 3 || count["time/data_wait_ms"] != 6 ||
		count["val/i2t_r1"] != 3 {
		t.Errorf("events %v", count)
	}
	c.Run.TensorBoard = false
	if files, _ := filepath.Glob(filepath.Join(runtest.Train(t, c), "events*")); len(files) != 0 {
		t.Errorf("events although they are off: %v", files)
	}
}

// A session killed after its last checkpoint has logged steps that the next one repeats; each must stand once in the
// event files, and a TensorBoard that watches must be told.
func TestEventsOfAResumedRun(t *testing.T) {
	c := runtest.TinyConfig()
	c.Train.Epochs = 1
	dir := filepath.Join(t.TempDir(), "run")
	runtest.Interrupt(t, runtest.Request(c, dir, &runtest.Watcher{}), 5)
	killed := try.Get(tfevents.Create(dir, time.Unix(1, 0), "killed"))(t)
	for _, e := range []struct {
		tag  string
		step int64
	}{{"train/loss", 5}, {"val/m_recall", 5}, {"train/loss", 6}, {"train/loss", 7}} {
		try.Do(t, killed.Scalar(e.tag, e.step, time.Unix(1, 0), -1))
	}
	try.Do(t, killed.Close())
	runtest.Resume(t, runtest.Request(c, dir, &runtest.Watcher{}))
	files, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	if err != nil || len(files) != 3 {
		t.Fatalf("event files %v, %v", files, err)
	}
	count := map[string]int{}
	for _, f := range files {
		events := try.Get(tfevents.Read(f))(t)
		for _, e := range events {
			count[fmt.Sprintf("%s %d start %v", e.Tag, e.Step, e.Start)]++
		}
	}
	for step := 1; step <= 13; step++ {
		want := 1
		if step == 5 {
			want = 2 // of the first session and, not to be repeated, of the killed one
		}
		if got := count[fmt.Sprintf("train/loss %d start false", step)]; got != want {
			t.Errorf("%d losses of step %d, want %d", got, step, want)
		}
	}
	if count["val/m_recall 5 start false"] != 1 || count[" 6 start true"] != 1 {
		t.Errorf("validation or start of the second session not there once: %v", count)
	}
}

// A validation that a resumed session did first stands in the events for good, also when the run is resumed at its step
// once more.
func TestValidationEventsSurviveResuming(t *testing.T) {
	c := runtest.TinyConfig()
	dir := filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := training.Train(ctx, runtest.Request(c, dir,
		&runtest.Watcher{OnValidate: func(int) { cancel() }})); !errors.Is(err,
		train.ErrInterrupted) {
		t.Fatal(err)
	}
	for _, most := range []int{5, 6} { // the validation of step 5, then a step more
		c.Train.MaxSteps = most
		runtest.Resume(t, runtest.Request(c, dir, &runtest.Watcher{}))
	}
	files := try.Get(filepath.Glob(filepath.Join(dir, "events.out.tfevents.*")))(t)
	count := 0
	for _, f := range files {
		events := try.Get(tfevents.Read(f))(t)
		for _, e := range events {
			if e.Step == 5 && e.Tag == "val/m_recall" {
				count++
			}
		}
	}
	if count != 1 {
		t.Errorf("the validation of step 5 stands %d times in %d files of events", count, len(files))
	}
}

func TestMetricsOfARun(t *testing.T) {
	c := runtest.TinyConfig()
	c.Train.Epochs = 1
	got := runtest.Metrics(t, runtest.Train(t, c))
	if len(got) != 13+3 {
		t.Fatalf("%d lines", len(got))
	}
	for i, want := range []string{`"epoch":0.07692307692307693`, `"kind":"train"`, fmt.Sprintf(`"lr":%g`, 0.005),
		`"step":1`, `"grad_norm":`, `"loss_caption":`} {
		runtest.WantIn(t, got[0], want, i)
	}
	for i, want := range []string{`"kind":"val"`, `"best":true`, `"i2t":{"meanr":`, `"t2i":{"meanr":`, `"rsum":`,
		`"m_recall":`, `"step":5`} {
		runtest.WantIn(t, got[5], want, i)
	}
}

// sameCheckpoints compares the names of all checkpoints of two runs, and the weights of those beside best and last.
func sameCheckpoints(t *testing.T, a, b string) {
	t.Helper()
	names := func(dir string) (names []string) {
		files := try.Get(os.ReadDir(filepath.Join(dir, runfs.CheckpointsName)))(t)
		for _, f := range files {
			names = append(names, f.Name())
		}
		return names
	}
	if !slices.Equal(names(a), names(b)) {
		t.Fatalf("checkpoints %q, want %q", names(a), names(b))
	}
	for _, name := range names(a) {
		if name != runfs.LastName && name != runfs.BestName {
			runtest.SameTensors(t, runtest.Checkpoint(a, name), runtest.Checkpoint(b, name))
		}
	}
}

// points returns how often each point of a curve stands in the event files of a run, and with which value.
func points(t *testing.T, dir string) map[string]int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("event files %v, %v", files, err)
	}
	count := map[string]int{}
	for _, f := range files {
		events := try.Get(tfevents.Read(f))(t)
		for _, e := range events {
			if strings.HasPrefix(e.Tag, "train/") || strings.HasPrefix(e.Tag, "val/") {
				count[fmt.Sprint(e.Tag, " ", e.Step, " ", e.Value)]++
			}
		}
	}
	return count
}

// After a power failure the log ends with what was not synced: zeros between lines that came later. Events were lost,
// in a file that was cut off or with its name. Resuming ends the log where the checkpoint counts, and writes the events
// anew that the log has: each point is there once.
func TestPowerFailure(t *testing.T) {
	c := runtest.TinyConfig()
	c.Train.Epochs = 1
	whole := runtest.Train(t, c)
	want, wantLog := points(t, whole), runtest.Metrics(t, whole)
	dir := filepath.Join(t.TempDir(), "run")
	for _, lost := range []func(events string) error{
		func(string) error { return nil },
		os.Remove,
		func(events string) error { return os.Truncate(events, 600) },
		func(events string) error { return os.Truncate(events, 0) },
	} {
		try.Do(t, os.RemoveAll(dir))
		runtest.Interrupt(t, runtest.Request(c, dir, &runtest.Watcher{}), 7)
		log := filepath.Join(dir, runfs.MetricsName)
		b := try.Get(os.ReadFile(log))(t)
		last := bytes.SplitAfter(b, []byte("\n"))[0]
		b = slices.Concat(b, make([]byte, 4096), last, last)
		try.Do(t, os.WriteFile(log, b, 0o666))
		events, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
		if err != nil || len(events) != 1 {
			t.Fatalf("event files %v, %v", events, err)
		}
		try.Do(t, lost(events[0]))
		try.Do(t, resumed(t, c, dir, &runtest.Watcher{}))
		if got := runtest.Metrics(t, dir); !slices.Equal(got, wantLog) {
			t.Errorf("metrics %q, want %q", got, wantLog)
		}
		if got := points(t, dir); !maps.Equal(got, want) {
			t.Errorf("%d points of curves, want %d", len(got), len(want))
		}
	}
}
