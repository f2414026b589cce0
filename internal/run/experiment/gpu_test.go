package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"vsetrain/internal/files/runfs"

	"vsetrain/data/synth"
	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/emulator"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/run/config"
	"vsetrain/models"
	"vsetrain/train"
)

// onEmulator lets device.kind cuda and auto find the emulated driver, with cuBLAS or without.
func onEmulator(t *testing.T, blas bool) {
	t.Helper()
	path := emulator.Library(t)
	t.Setenv("VSETRAIN_CUDA_DRIVER", path)
	t.Setenv("VSETRAIN_CUBLAS", "/nowhere/libcublas.so.12")
	if blas {
		t.Setenv("VSETRAIN_CUBLAS", path)
	}
}

// gpuRun trains eight steps on the emulated driver and returns every loss and norm, the measures of the validations,
// and the plan of the run; sent are the bytes that went to the GPU from the second step on, those of a step.
func gpuRun(t *testing.T, c *config.Config) (curve []string, plan Plan, sent int) {
	t.Helper()
	c.Device.Kind, c.Train.MaxSteps = "cuda", 8
	first := 0
	w := &watcher{onStep: func(i train.StepInfo) {
		curve = append(curve, fmt.Sprint(i.Step, i.StepResult))
		switch i.Step {
		case 2:
			first = emulator.Uploaded(t)
		case 4:
			sent = (emulator.Uploaded(t) - first) / 2
		}
	}}
	if _, err := Train(t.Context(), request(c, filepath.Join(t.TempDir(), "run"), w)); err != nil {
		t.Fatal(err)
	}
	if len(curve) != 8 || len(w.validations) == 0 {
		t.Fatalf("%d steps and %d validations are reported", len(curve), len(w.validations))
	}
	for _, v := range w.validations {
		curve = append(curve, fmt.Sprint(v.Metrics))
	}
	return curve, w.plan, sent
}

// A data set that stays on the GPU and one that is streamed give the same bits, and so do recorded steps and others;
// with size augmentation the regions that are kept are named by number, and words are sent. A step is sent numbers
// only.
func TestResidentFeatures(t *testing.T) {
	onEmulator(t, true)
	for network, tables := range map[string]string{models.VSEPP: "word ids, semantic vectors, validation features",
		models.VSEInf: "validation features",
		models.GSMN:   "word ids, boxes, semantic vectors, validation features"} {
		var want []string
		streamed := 0
		for _, o := range [][2]string{{"never", "never"}, {"always", "auto"}, {"auto", "never"}} {
			c := tinyConfig()
			setNetwork(c, network)
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

// takenMemory is what a device takes before anybody asks for memory.
func takenMemory(t *testing.T) int {
	t.Helper()
	d, err := OpenDevice(device.Options{Kind: "cuda", Precision: "fp32"}, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	free, total, err := d.(device.Resident).FreeMemory()
	if err != nil {
		t.Fatal(err)
	}
	return int(total - free)
}

// Features for which the GPU has no room are streamed, or an error where they were to stay in any case; where they fit,
// as float16 as they are in the file, they give the same bits.
func TestFeaturesThatDoNotFit(t *testing.T) {
	onEmulator(t, true)
	o := synth.Default()
	o.Train, o.Dev, o.Test, o.Regions, o.Dim, o.DType = 40, 4, 4, 8, 512, npy.F16
	dir := filepath.Join(t.TempDir(), "world")
	if err := synth.Generate(dir, o, nil); err != nil {
		t.Fatal(err)
	}
	c := tinyConfig()
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
		(takenMemory(t)+int(m.Parameters+m.Gradients+m.Optimiser+m.Values+m.Inputs)+150_000)*16/15, 4<<30)
	c.Device.Resident = "always"
	_, err := Train(t.Context(), request(c, filepath.Join(t.TempDir(), "run"), &watcher{}))
	wantError(t, err, "device.resident always", "train_ims.npy", "set device.resident to auto")
	emulator.Set(t, "memory", takenMemory(t)+30_000, 4<<30)
	c.Device.Resident = "never"
	_, err = Train(t.Context(), request(c, filepath.Join(t.TempDir(), "run"), &watcher{}))
	wantError(t, err, "allocate", "the GPU is full", "lower train.batch")
}

// Features of float16 that are streamed from pinned memory give the bits of resident ones and of those that the host
// decodes, whichever stream is quicker: shuffled, of a last short batch, with dropped regions, and of a run that is
// resumed. They are half the bytes. Without that memory a warning says so.
func TestStreamedHalves(t *testing.T) {
	onEmulator(t, true)
	o := synth.Default()
	o.Train, o.Dev, o.Test, o.Regions, o.Dim, o.DType = 6, 2, 2, 6, 32, npy.F16
	dir := filepath.Join(t.TempDir(), "world")
	if err := synth.Generate(dir, o, nil); err != nil {
		t.Fatal(err)
	}
	for network, ways := range map[string][][2]int{models.VSEPP: {{0, 2}}, models.VSEInf: {{0, 1}, {0, 2}, {4, 1}}} {
		c := tinyConfig()
		setNetwork(c, network)
		c.Data.Dir, c.Loss.Name, c.Model.EmbedDim, c.Model.WordDim = dir, "lmh", 8, 4
		c.Train.Batch, c.Train.ValStep, c.Device.Resident = 8, 0, "always" // 8, 8, 8, 6 captions
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
		if saved := sent[4] - sent[0]; saved > 2*8*6*32 || saved < 2*7*4*32 {
			t.Errorf("%s: a step is sent %d bytes, %d where the host decodes them", network, sent[0], sent[4])
		}
		emulator.Set(t, "defer", 1, 0)
		whole, part := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "part")
		if _, err := Train(t.Context(), request(c, whole, &watcher{})); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if _, err := Train(ctx, request(c, part, &watcher{onStep: func(i train.StepInfo) {
			if i.Step == 3 {
				cancel()
			}
		}})); !errors.Is(err, train.ErrInterrupted) {
			t.Fatal(err)
		}
		emulator.Set(t, "no_pinned", 3, 0)
		w := &watcher{}
		r := request(c, part, w)
		r.Resume = true
		if _, err := Train(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if len(w.warnings) == 0 || !strings.Contains(w.warnings[0].Error(), "free main memory") {
			t.Errorf("warnings %v", w.warnings)
		}
		sameTensors(t, filepath.Join(part, "checkpoints", runfs.LastName), filepath.Join(whole, "checkpoints", runfs.LastName))
	}
}

// Pairs for whose usual tiles the GPU has no room are scored in smaller ones, to the same scores, with one warning; a
// GPU that holds not even the encoder is an error.
func TestEvalInSmallTiles(t *testing.T) {
	onEmulator(t, true)
	c := tinyConfig()
	setNetwork(c, models.SGR)
	c.Device.Kind, c.Model.SGRAF.Steps, c.Train.Epochs, c.Train.MaxSteps = "cpu", 2, 1, 2
	r := EvalRequest{Checkpoints: []string{mustTrain(t, c)}, Split: "dev", Data: world, Protocol: eval.Auto,
		Device: device.DefaultOptions()}
	r.Device.Kind = "cuda"
	_, want := evaluateWith(t, r)
	taken := takenMemory(t)
	emulator.Set(t, "memory", taken+3<<20, 4<<30)
	var warnings []error
	r.Warn = func(err error) { warnings = append(warnings, err) }
	if _, got := evaluateWith(t, r); worst(got, want) != 0 || len(got) == 0 {
		t.Errorf("scores differ by %g", worst(got, want))
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0].Error(), "smaller tiles") {
		t.Errorf("warnings %v", warnings)
	}
	emulator.Set(t, "memory", taken+1<<20, 4<<30)
	_, err := Eval(t.Context(), r)
	wantError(t, err, "the GPU is full", "lower train.batch (--batch), or end")
}

// device.kind auto takes the GPU if there is one, the CPU otherwise, and says so.
func TestAutoChooses(t *testing.T) {
	o := device.DefaultOptions()
	choose := func() (string, Choice) {
		t.Helper()
		d, c, err := chooseDevice(o, "")
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		return d.Name(), c
	}
	want := func(name string, c Choice, device, reason string) {
		t.Helper()
		if !strings.HasPrefix(name, device) || !strings.Contains(c.Reason, reason) {
			t.Errorf("auto chose %s because %q, expected %s and %q", name, c.Reason, device, reason)
		}
	}
	name, c := choose()
	want(name, c, "cpu", noDriver)
	onEmulator(t, true)
	if name, c = choose(); c.Warnings != nil {
		t.Errorf("warnings %v with cuBLAS", c.Warnings)
	}
	want(name, c, "cuda", "chose the GPU")
	if name, _ = choose(); !strings.Contains(name, "cuBLAS") {
		t.Errorf("device %s", name)
	}
	path := os.Getenv("VSETRAIN_CUBLAS")
	t.Setenv("VSETRAIN_CUBLAS", "")
	if name, c = choose(); strings.Contains(name, "own products") && (len(c.Warnings) == 0 ||
		!strings.Contains(c.Warnings[0].Error(), "cuBLAS not found")) {
		t.Errorf("%s: warnings %v", name, c.Warnings)
	}
	t.Setenv("VSETRAIN_CUBLAS", path)
	o.Precision = "fp64"
	name, c = choose()
	want(name, c, "cpu", "fp64")
	o.Precision, o.Index = "fp32", 3
	_, _, err := chooseDevice(o, "")
	wantError(t, err, "GPU 3 does not exist", "lists 1", "device.index")
	emulator.Set(t, "devices", 4, 1)
	name, c = choose()
	want(name, c, "cuda", "chose the GPU")
	o.Index = 0
	emulator.Set(t, "no_device", 1, 0)
	name, c = choose()
	want(name, c, "cpu", "finds no GPU")
	if c.Warnings != nil {
		t.Errorf("without a GPU: warnings %v", c.Warnings)
	}
	emulator.Set(t, "no_device", 0, 0)
	// a GPU is there
	for setting, says := range map[string]string{"version": "is for CUDA 0.0",
		"capability": "has compute capability 0.0"} {
		emulator.Set(t, setting, 0, map[string]int{"version": 13000, "capability": 90}[setting])
		name, c = choose()
		want(name, c, "cpu", says)
		if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0].Error(), "a GPU is there and cannot be used, so "+
			"the CPU computes: ") {
			t.Errorf("%s: warnings %v", setting, c.Warnings)
		}
		emulator.Set(t, setting, map[string]int{"version": 13000, "capability": 90}[setting], 0)
	}
	emulator.Set(t, "version", 13000, 13000)
	emulator.Set(t, "capability", 90, 90)
	emulator.Set(t, "stub", 1, 0)
	if name, c = choose(); c.Warnings != nil {
		t.Errorf("with a stub: warnings %v", c.Warnings)
	}
	want(name, c, "cpu", "out of LD_LIBRARY_PATH")
	emulator.Set(t, "stub", 0, 0)
	emulator.Set(t, "no_blas", 1, 0)
	if name, c = choose(); !strings.Contains(name, "own products") || len(c.Warnings) != 1 ||
		!strings.Contains(c.Warnings[0].Error(), "no cuBLAS starts") {
		t.Errorf("with a cuBLAS that does not start: %s, warnings %v", name, c.Warnings)
	}
	emulator.Set(t, "no_device", 1, 0)
	o.Kind = "cuda"
	_, _, err = chooseDevice(o, "")
	wantError(t, err, "finds no GPU", "set device.kind to auto or cpu")
}

// A GPU that is lost ends the run with what stands on disk, and the run continues from there to the same end.
func TestLostGPU(t *testing.T) {
	onEmulator(t, true)
	config := func() *config.Config {
		c := tinyConfig()
		c.Device.Kind, c.Train.MaxSteps, c.Train.Epochs = "cuda", 9, 9
		c.Train.Batch = 100 // half of the captions: batches of one shape
		return c
	}
	whole := filepath.Join(t.TempDir(), "whole")
	if _, err := Train(t.Context(), request(config(), whole, &watcher{})); err != nil {
		t.Fatal(err)
	}
	lose := func(step int64, launch int) *watcher {
		return &watcher{onStep: func(i train.StepInfo) {
			if i.Step == step {
				emulator.Set(t, "lose", launch, 0)
			}
		}}
	}
	early := filepath.Join(t.TempDir(), "early")
	_, err := Train(t.Context(), request(config(), early, lose(1, 1)))
	wantError(t, err, "CUDA_ERROR_UNKNOWN", "kernel copy_parts on a grid of ", " in the inputs of a training step",
		"the GPU or its driver failed", "no checkpoint had been written yet")
	emulator.Mend(t)
	dir := filepath.Join(t.TempDir(), "run")
	_, err = Train(t.Context(), request(config(), dir, lose(7, 5)))
	wantError(t, err, "CUDA_ERROR_UNKNOWN", "recorded training step of ", " pairs with captions of up to ",
		"device.capture: never", "the checkpoint of step 6 stands", "--resume --run "+dir)
	emulator.Set(t, "lose", 0, 0)
	emulator.Mend(t)
	r := request(config(), dir, &watcher{})
	r.Resume = true
	if _, err := Train(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	sameTensors(t, checkpoint(dir, "last.safetensors"), checkpoint(whole, "last.safetensors"))
}

// With precision bf16 the plan has room for the copies of operands, half of what the operands take.
func TestMemoryPlanOfCopies(t *testing.T) {
	onEmulator(t, true)
	for precision, share := range map[string]int64{"fp32": 0, "bf16": 1} {
		c := tinyConfig()
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
	onEmulator(t, false)
	o := synth.Default()
	o.Train, o.Dev, o.Test, o.Regions, o.Dim = 40, 4, 4, 8, 512
	dir := filepath.Join(t.TempDir(), "world")
	if err := synth.Generate(dir, o, nil); err != nil {
		t.Fatal(err)
	}
	train := func() (Plan, error) {
		c := tinyConfig()
		setNetwork(c, models.SAF)
		c.Data.Dir, c.Loss.Name, c.Device.Kind, c.Device.Capture = dir, "lmh", "cuda", "never"
		c.Train.Batch, c.Train.MaxSteps, c.Train.ValStep, c.Model.EmbedDim, c.Model.WordDim = 12, 1, 0, 32, 4
		w := &watcher{}
		_, err := Train(t.Context(), request(c, filepath.Join(t.TempDir(), "run"), w))
		return w.plan, err
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
