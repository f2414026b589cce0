package training_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/data/synth"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/training"
	"vsetrain/lab/emulator"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/models"
	"vsetrain/train"
)

// gpuRun trains eight steps on the emulated driver and returns every loss and norm, the measures of the validations,
// and the plan of the run; sent are the bytes that went to the GPU from the second step on, the bytes of a step.
func gpuRun(t *testing.T, c *config.Config) (curve []string, plan training.Plan, sent int) {
	t.Helper()
	c.Device.Kind, c.Train.MaxSteps = "cuda", 8
	first := 0
	w := &runtest.Watcher{OnStep: func(i train.StepInfo) {
		curve = append(curve, fmt.Sprint(i.Step, i.StepResult))
		switch i.Step {
		case 2:
			first = emulator.Uploaded(t)
		case 4:
			sent = (emulator.Uploaded(t) - first) / 2
		}
	}}
	try.Get(training.Train(t.Context(), runtest.Request(c, filepath.Join(t.TempDir(), "run"), w)))(t)
	if len(curve) != 8 || len(w.Validations) == 0 {
		t.Fatalf("%d steps and %d validations are reported", len(curve), len(w.Validations))
	}
	for _, v := range w.Validations {
		curve = append(curve, fmt.Sprint(v.Metrics))
	}
	return curve, w.Plan, sent
}

// worldOf is a synthetic data set of its own.
func worldOf(t *testing.T, o synth.Options) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "world")
	try.Do(t, synth.Generate(dir, o, nil))
	return dir
}

// A data set that stays on the GPU and one that is streamed give the same bits, and so do recorded steps and others;
// with size augmentation the regions that are kept are named by number, and words are sent. A step is sent numbers
// only.
func TestResidentFeatures(t *testing.T) {
	runtest.OnEmulator(t, true)
	for network, tables := range map[string]string{models.VSEPP: "word ids, semantic vectors, validation features",
		models.VSEInf: "validation features",
		models.GSMN:   "word ids, boxes, semantic vectors, validation features"} {
		var want []string
		streamed := 0
		for _, o := range [][2]string{{"never", "never"}, {"always", "auto"}, {"auto", "never"}} {
			c := runtest.TinyConfig()
			runtest.SetNetwork(c, network)
			c.Train.Batch, c.Device.Resident, c.Device.Capture = 8, o[0], o[1]
			if network == models.VSEInf {
				c.Loss.Name = "lmh"
			}
			if network == models.GSMN { // slow on the emulated driver
				if c.Train.Batch, c.Train.ValStep = 3, 0; o[0] == "auto" {
					continue
				}
			}
			got, plan, sent := gpuRun(t, c)
			m, stays := plan.Memory, o[0] != "never"
			if m == nil || m.Resident != stays || network != models.GSMN && (m.CallByCall == "") != (o[1] == "auto") {
				t.Fatalf("%s %v: plan %+v", network, o, plan.Memory)
			}
			var names []string
			for _, table := range m.Tables {
				names = append(names, table.Name)
				if table.Resident != stays || table.Bytes == 0 {
					t.Errorf("%s %v: table %+v", network, o, table)
				}
			}
			if strings.Join(names, ", ") != tables {
				t.Errorf("%s: tables %v, expected %s", network, names, tables)
			}
			if want == nil {
				want, streamed = got, sent
				continue
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, resident %s, capture %s:\n%s\nwithout either:\n%s", network, o[0], o[1],
					strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			// at most 6 numbers of a pair and 24 of a step; regions that are kept and words that are augmented come
			// beside them
			most := 4 * (6*c.Train.Batch + 24)
			if network == models.VSEInf {
				most = streamed / 2
			}
			if sent > most || sent == 0 {
				t.Errorf("%s %v: a step is sent %d bytes, expected at most %d; %d are streamed", network, o, sent, most,
					streamed)
			}
		}
	}
}

// Features for which the GPU has no room are streamed, or an error where they were to stay in any case; where they fit,
// as float16 as they are in the file, they give the same bits.
func TestFeaturesThatDoNotFit(t *testing.T) {
	runtest.OnEmulator(t, true)
	o := synth.Default()
	o.Train, o.Dev, o.Test, o.Regions, o.Dim, o.DType = 40, 4, 4, 8, 512, npy.F16
	dir := worldOf(t, o)
	c := runtest.TinyConfig()
	c.Data.Dir, c.Loss.Name, c.Model.EmbedDim, c.Model.WordDim = dir, "lmh", 8, 4
	want, plan, _ := gpuRun(t, c)
	m := plan.Memory
	if !m.Resident || !m.Half || m.Features != 2*40*8*512 || m.Total != 4<<30 {
		t.Fatalf("plan %v", m)
	}
	emulator.Set(t, "memory", int(m.Total-m.Free+100_000)*16/15, 4<<30) // of which a sixteenth is the reserve
	got, plan, _ := gpuRun(t, c)
	if p := plan.Memory.String(); plan.Memory.Resident ||
		!strings.Contains(p, "streamed with the batches from 0.7 MB of pinned main memory; word ids 0.0 MB, "+
			"resident; ") {
		t.Errorf("plan %s", p)
	}
	if !slices.Equal(got, want) {
		t.Errorf("streamed:\n%s\nresident:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// With room enough they come beside the kernels, whichever stream is quicker.
	emulator.Set(t, "memory", 4<<30, 4<<30)
	for deferred := range 3 {
		emulator.Set(t, "defer", deferred, 0)
		c.Device.Resident = "never"
		got, plan, _ := gpuRun(t, c)
		if p := plan.Memory; p.Resident || p.Inputs != m.Inputs*3/2 || p.Pinned != m.Inputs/2*5 ||
			!strings.Contains(p.String(), "streamed with the batches from 0.7 MB of pinned main memory; ") {
			t.Errorf("plan %v", plan.Memory)
		}
		if !slices.Equal(got, want) {
			t.Errorf("streamed, defer %d:\n%s\nresident:\n%s", deferred, strings.Join(got, "\n"),
				strings.Join(want, "\n"))
		}
	}
	emulator.Set(t, "defer", 0, 0)
	emulator.Set(t, "memory",
		(runtest.TakenMemory(t)+int(m.Parameters+m.Gradients+m.Optimiser+m.Values+m.Inputs)+150_000)*16/15, 4<<30)
	c.Device.Resident = "always"
	runtest.Refuses(t, c, "device.resident always", "train_ims.npy", "set device.resident to auto")
	emulator.Set(t, "memory", runtest.TakenMemory(t)+30_000, 4<<30)
	c.Device.Resident = "never"
	runtest.Refuses(t, c, "allocate", "the GPU is full", "lower train.batch")
}

// Features of float16 that are streamed from pinned memory give the bits of resident ones and of those that the host
// decodes, whichever stream is quicker: shuffled, of a last short batch, with dropped regions, and of a run that is
// resumed. They are half the bytes. Without that memory a warning says so.
func TestStreamedHalves(t *testing.T) {
	runtest.OnEmulator(t, true)
	o := synth.Default()
	o.Train, o.Dev, o.Test, o.Regions, o.Dim, o.DType = 3, 1, 1, 6, 32, npy.F16
	dir := worldOf(t, o)
	for network, ways := range map[string][][2]int{models.VSEPP: {{0, 2}}, models.VSEInf: {{0, 1}, {0, 2}, {4, 1}}} {
		c := runtest.TinyConfig()
		runtest.SetNetwork(c, network)
		c.Data.Dir, c.Loss.Name, c.Model.EmbedDim, c.Model.WordDim = dir, "lmh", 8, 4
		c.Train.Batch, c.Train.ValStep, c.Device.Resident = 4, 0, "always" // 4, 4, 4, 3 captions
		want, _, _ := gpuRun(t, c)
		c.Device.Resident = "never"
		sent := map[int]int{}
		for _, way := range ways {
			decoded, deferred := way[0], way[1] // with 4 the third of the stages is not there
			emulator.Set(t, "no_pinned", decoded, 0)
			emulator.Set(t, "defer", deferred, 0)
			got, plan, bytes := gpuRun(t, c)
			if !slices.Equal(got, want) || (plan.Memory.Pinned == 0) != (decoded != 0) {
				t.Errorf("%s, defer %d, %d bytes pinned:\n%s\nresident:\n%s", network, deferred, plan.Memory.Pinned,
					strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			sent[decoded] = bytes
		}
		if network == models.VSEPP {
			continue
		}
		// what differs are 2 bytes a feature, of 4.8 regions of 6 where a fifth is dropped
		if saved := sent[4] - sent[0]; saved > 2*4*6*32 || saved < 2*3*4*32 {
			t.Errorf("%s: a step is sent %d bytes, %d where the host decodes them", network, sent[0], sent[4])
		}
		emulator.Set(t, "defer", 1, 0)
		whole, part := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "part")
		try.Get(training.Train(t.Context(), runtest.Request(c, whole, &runtest.Watcher{})))(t)
		runtest.Interrupt(t, runtest.Request(c, part, &runtest.Watcher{}), 3)
		emulator.Set(t, "no_pinned", 3, 0)
		w := &runtest.Watcher{}
		runtest.Resume(t, runtest.Request(c, part, w))
		if !slices.ContainsFunc(w.Warnings, func(err error) bool {
			return strings.Contains(err.Error(), "free main memory")
		}) {
			t.Errorf("warnings %v", w.Warnings)
		}
		runtest.SameTensors(t, filepath.Join(part, "checkpoints", runfs.LastName), filepath.Join(whole, "checkpoints",
			runfs.LastName))
	}
}

// A GPU that is lost ends the run with what stands on disk, and the run continues from there to the same end.
func TestLostGPU(t *testing.T) {
	runtest.OnEmulator(t, true)
	config := func() *config.Config {
		c := runtest.TinyConfig()
		c.Device.Kind, c.Train.MaxSteps, c.Train.Epochs = "cuda", 9, 9
		c.Train.Batch = 100 // half of the captions: batches of one shape
		return c
	}
	whole := filepath.Join(t.TempDir(), "whole")
	try.Get(training.Train(t.Context(), runtest.Request(config(), whole, &runtest.Watcher{})))(t)
	lose := func(step int64, launch int) *runtest.Watcher {
		return &runtest.Watcher{OnStep: func(i train.StepInfo) {
			if i.Step == step {
				emulator.Set(t, "lose", launch, 0)
			}
		}}
	}
	early := filepath.Join(t.TempDir(), "early")
	_, err := training.Train(t.Context(), runtest.Request(config(), early, lose(1, 1)))
	try.Fails(t, err, "CUDA_ERROR_UNKNOWN", "kernel copy_parts on a grid of ",
		" in the inputs of a training step",
		"the GPU or its driver failed", "no checkpoint had been written yet")
	emulator.Mend(t)
	dir := filepath.Join(t.TempDir(), "run")
	_, err = training.Train(t.Context(), runtest.Request(config(), dir, lose(7, 5)))
	try.Fails(t, err, "CUDA_ERROR_UNKNOWN", "recorded training step of ", " pairs with captions of up to ",
		"device.capture: never", "the checkpoint of step 6 is saved", "--resume --run "+dir)
	emulator.Set(t, "lose", 0, 0)
	emulator.Mend(t)
	runtest.Resume(t, runtest.Request(config(), dir, &runtest.Watcher{}))
	runtest.SameTensors(t, runtest.Checkpoint(dir, "last.safetensors"), runtest.Checkpoint(whole, "last.safetensors"))
}

// With precision bf16 the plan has room for the copies of operands, half of what the operands take.
func TestMemoryPlanOfCopies(t *testing.T) {
	runtest.OnEmulator(t, true)
	for precision, share := range map[string]int64{"fp32": 0, "bf16": 1} {
		c := runtest.TinyConfig()
		c.Device.Precision = precision
		_, plan, _ := gpuRun(t, c)
		m := plan.Memory
		if want := share * (m.Parameters + m.Values + m.Inputs) / 2; m.Copies != want || m.Values == 0 ||
			strings.Contains(m.String(), "bf16 copies") != (want > 0) {
			t.Errorf("%s: copies of %d bytes, want %d: %v", precision, m.Copies, want, m)
		}
	}
}

// With device.resident auto the features of the data set do not take the memory that a step needs beside its values,
// which the first step takes before them.
func TestResidentLeavesRoomForAStep(t *testing.T) {
	runtest.OnEmulator(t, false)
	o := synth.Default()
	o.Train, o.Dev, o.Test, o.Regions, o.Dim = 40, 4, 4, 8, 512
	dir := worldOf(t, o)
	train := func() (training.Plan, error) {
		c := runtest.TinyConfig()
		runtest.SetNetwork(c, models.SAF)
		c.Data.Dir, c.Loss.Name, c.Device.Kind, c.Device.Capture = dir, "lmh", "cuda", "never"
		c.Train.Batch, c.Train.MaxSteps, c.Train.ValStep, c.Model.EmbedDim, c.Model.WordDim = 12, 1, 0, 32, 4
		w := &runtest.Watcher{}
		_, err := training.Train(t.Context(), runtest.Request(c, filepath.Join(t.TempDir(), "run"), w))
		return w.Plan, err
	}
	plan, err := train()
	if err != nil || !plan.Memory.Resident {
		t.Fatalf("with room enough: %v, %v", plan.Memory, err)
	}
	m := plan.Memory
	emulator.Set(t, "memory", int(m.Total-m.Free+m.Features/2), 4<<30)
	if plan, err = train(); err != nil || plan.Memory.Resident {
		t.Errorf("with room for half of the features: %v, %v", plan.Memory, err)
	}
}
