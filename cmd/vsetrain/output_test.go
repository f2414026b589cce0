package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"vsetrain/eval"
	"vsetrain/internal/apps/sweep"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/training"
	"vsetrain/internal/stats"
	"vsetrain/lab/try"
	"vsetrain/train"
)

// On a terminal the bar of embed ends with the number of all rows, and what is printed begins below it.
func TestBarOfEmbedEnds(t *testing.T) {
	var terminal bytes.Buffer
	a := newApp(&terminal, &terminal)
	a.OutTTY, a.ErrTTY = true, true
	line := "embed ../../testdata/torch/vsepp/checkpoint.pth.tar --data ../../testdata/torch/vsepp/data --of images " +
		"--device cpu --out " + filepath.Join(t.TempDir(), "x.npy")
	if code := a.run(strings.Fields(line)); code != exitOK || !strings.Contains(terminal.String(), "  100%\r\n") {
		t.Errorf("exit code %d, %q", code, &terminal)
	}
}

// What a run says first: one of a thing is singular, and a run that was never validated has no best.
func TestStartedLines(t *testing.T) {
	for _, c := range []struct {
		resumed train.Position
		want    string
	}{
		{train.Position{Step: 3}, "resumed after step 3 (1.50 of 1 epoch done), no validation yet\n"},
		{train.Position{Step: 3, Best: 12.5, BestStep: 2},
			"resumed after step 3 (1.50 of 1 epoch done), best M-Recall so far 12.50\n"},
	} {
		var out, errs bytes.Buffer
		cfg := config.Default()
		v := &trainView{app: newApp(&out, &errs), cfg: &cfg}
		v.Started(training.Plan{TrainCaptions: 200, TrainImages: 1, DevImages: 1, Batches: 2, Pairs: 128, Epochs: 1,
			Resume: true, Resumed: c.resumed})
		v.close()
		want := "200 captions of 1 image, 1 validation image, 2 batches of 128 an epoch, 1 epoch\n"
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q does not say %q", &out, want)
		}
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("%q does not say %q", &out, c.want)
		}
	}
}

// The progress bar has what the GPU tells.
func TestGPUUsage(t *testing.T) {
	for _, c := range []struct {
		u    *device.Usage
		want string
	}{
		{nil, ""},
		{&device.Usage{Used: 15e8, Total: 80e9, Busy: 93}, "  GPU 93 % 1.5 of 80.0 GB"},
		{&device.Usage{Used: 15e8, Total: 80e9, Busy: -1}, "  GPU 1.5 of 80.0 GB"},
	} {
		if got := gpuUsage(c.u); got != c.want {
			t.Errorf("%+v: %q, want %q", c.u, got, c.want)
		}
	}
}

// The tables of eval are sober: headings and what counts in bold, how it was measured faint. Files, pipes, NO_COLOR and
// --json are plain.
func TestEvalColours(t *testing.T) {
	dir := t.TempDir()
	files := make([]string, 2)
	for k := range files {
		d := &eval.Dense[float64]{Images: 4, Captions: 8, Data: make([]float64, 32)}
		for i := range d.Data {
			d.Data[i] = float64(i * (7 + 5*k) % 32)
		}
		files[k] = filepath.Join(dir, string(rune('a'+k))+".npy")
		try.Do(t, eval.SaveScores(nil, files[k], d))
	}
	run := func(tty, colour bool, args ...string) string {
		var out, errs bytes.Buffer
		a := newApp(&out, &errs)
		a.OutTTY, a.Color, a.Width = tty, colour, 200
		if code := a.run(append([]string{"eval", "--threads", "1"}, args...)); code != exitOK {
			t.Fatalf("%v: exit code %d, %s", args, code, errs.String())
		}
		return out.String()
	}
	one, two := []string{"--scores", files[0]}, []string{"--compare", files[0], files[1], "--resamples", "50"}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{one, []string{"\x1b[1mprotocol whole\x1b[0m\n", "M-Recall \x1b[1m", "\x1b[2mties: "}},
		{two, []string{"\x1b[2mi2t: image to text, t2i: text to image; intervals: ", "\nM-Recall  "}},
	} {
		text := run(true, true, c.args...)
		plain := run(true, false, c.args...)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
		bare := strings.NewReplacer("\x1b[1m", "", "\x1b[2m", "", "\x1b[0m", "").Replace(text)
		if bare != plain || run(false, true, c.args...) != plain || strings.Contains(plain, "\x1b") {
			t.Errorf("colours change more than colours:\n%s\n%s", bare, plain)
		}
		json := run(true, true, append(c.args, "--json", "-")...)
		if strings.Contains(json, "\x1b") || !strings.HasPrefix(json, "{") {
			t.Errorf("--json: %.100q", json)
		}
	}
	for _, pair := range [][]string{files, {files[1], files[0]}} {
		rows := 0
		for line := range strings.Lines(run(true, true, "--compare", pair[0], pair[1], "--resamples", "50")) {
			if m := compared.FindStringSubmatch(line); m != nil {
				rows++
				a, b := try.Get(strconv.ParseFloat(m[2], 64))(t), try.Get(strconv.ParseFloat(m[4], 64))(t)
				if (m[1] != "") != (a > b) || (m[3] != "") != (b > a) {
					t.Errorf("the better of %v and %v is not in bold: %q", a, b, line)
				}
			}
		}
		if rows != 7 {
			t.Errorf("%d measures have the better value in bold and their intervals faint, want 7", rows)
		}
	}
}

// A comparison with the usual numbers fits a terminal of 80 columns, its p-values included.
func TestComparisonFits(t *testing.T) {
	var out bytes.Buffer
	a := newApp(&out, &out)
	a.OutTTY = true
	var list []eval.Difference
	for name := range measureNames {
		list = append(list, eval.Difference{Measure: name, P: 0.0123,
			A:          eval.Estimate{Value: 53.1, Interval: stats.Interval{Low: 50.1, High: 56.2}},
			B:          eval.Estimate{Value: 52.5, Interval: stats.Interval{Low: 49.9, High: 55.8}},
			Difference: eval.Estimate{Value: 0.6, Interval: stats.Interval{Low: -1.48, High: 2.71}}})
	}
	printDifferences(a, eval.DefaultCompareOptions(), list, 1000)
	if n := strings.Count(out.String(), " 0.0123\n"); n != len(list) {
		t.Errorf("%d of %d rows show their p-value:\n%s", n, len(list), out.String())
	}
}

// compared is a row of a comparison: A and B, with the escape sequence in front of a bold one.
var compared = regexp.MustCompile(`^\S.* {2,}(\x1b\[1m)?([0-9.]+)(?:\x1b\[0m)? +\x1b\[2m[0-9.]+ to [0-9.]+\x1b\[0m +` +
	`(\x1b\[1m)?([0-9.]+)(?:\x1b\[0m)? +\x1b\[2m`)

func TestSweepProgress(t *testing.T) {
	low, high := 31.25, 42.5
	st := &sweep.Status{Metric: "m_recall", Trials: []sweep.Line{{State: sweep.Done, Best: &low}, {State: sweep.Failed},
		{Number: 2, State: sweep.Running, Best: &high}, {Number: 3, State: sweep.Waiting},
		{Number: 4, State: sweep.Paused, Best: &high}}}
	through, best := sweepProgress(st, 5)
	if through != 3 || best != "best m_recall 42.50, 2 trials equal" {
		t.Errorf("%d, %q", through, best)
	}
	st.Trials[4].Best = &low
	if _, best = sweepProgress(st, 5); best != "best m_recall 42.50, trial 2" {
		t.Errorf("one is best: %q", best)
	}
	if through, _ = sweepProgress(st, 3); through != 2 {
		t.Errorf("%d of 3 trials of a sweep that is not done", through)
	}
	st.Done = true
	if through, _ = sweepProgress(st, 3); through != 3 {
		t.Errorf("%d of 3 trials of a sweep that is done", through)
	}
	if through, best = sweepProgress(&sweep.Status{}, 5); through != 0 || best != "" {
		t.Errorf("of nothing: %d, %q", through, best)
	}
}

// On a terminal the lines stand above a bar; a pipe gets the lines alone, as results.
func TestSweepView(t *testing.T) {
	dir := t.TempDir()
	f := sweepFlags{File: filepath.Join(dir, "s.yaml"), Dir: filepath.Join(dir, "sw")}
	try.Do(t, os.WriteFile(f.File, []byte(killedSweep), 0o666))
	plan, store, err := f.load()
	try.Do(t, err)
	for _, tty := range []bool{false, true} {
		var out, errs bytes.Buffer
		v := &sweepView{app: newApp(&out, &errs), plan: plan, store: store}
		v.OutTTY, v.ErrTTY, v.Width = tty, tty, 100
		try.Do(t, v.open())
		v.event(sweep.Event{Kind: sweep.Failed, Job: sweep.Job{State: &sweep.State{Trial: plan.Trials[1]}},
			Fail: sweep.Failure{Error: "no memory"}})
		v.bar.Close()
		lines, rest := &out, &errs
		if tty {
			lines, rest = rest, lines
		}
		if !strings.Contains(lines.String(), "failed   trial 1 ") ||
			!strings.Contains(lines.String(), ": no memory\n") || rest.Len() > 0 || v.failed != 1 {
			t.Errorf("terminal %v: results %q, messages %q, %d failed", tty, &out, &errs, v.failed)
		}
		if strings.Contains(lines.String(), "0/2  0%") != tty {
			t.Errorf("terminal %v: %q", tty, lines)
		}
	}
}

// A machine without fault gets no warning; each fault gets exactly its own.
func TestDoctorWarnings(t *testing.T) {
	healthy := func() diagnosis {
		return diagnosis{
			Arch: "amd64", CPUs: 8, Threads: 8, Load: 0.2, MemoryAvailable: 30e9, Dir: "runs", DiskFree: 100e9,
			Features: map[string]bool{"AVX2": true, "FMA": true, "AVX-512": true, "AVX512-BF16": true,
				"AMX-BF16": true}, GEMM: "avx512", BF16: "amx",
		}
	}
	for _, c := range []struct {
		name            string
		spoil           func(*diagnosis)
		problem, remedy string
	}{
		{"healthy", func(*diagnosis) {}, "", ""},
		{"arm", func(d *diagnosis) {
			d.Arch, d.Features, d.BF16 = "arm64", map[string]bool{"NEON": true, "BF16": true}, "neonbf16"
		}, "", ""},
		{"arm without bf16", func(d *diagnosis) {
			d.Arch, d.Features, d.BF16 = "arm64", map[string]bool{"NEON": true}, "emulated"
		}, "no bf16", "fp32"},
		{"riscv", func(d *diagnosis) { d.Arch, d.Features, d.BF16 = "riscv64", nil, "emulated" }, "", ""},
		{"no AVX2", func(d *diagnosis) { d.Features, d.BF16 = map[string]bool{"FMA": true}, "emulated" }, "no AVX2",
			"processor of 2015"},
		{"no bf16", func(d *diagnosis) { d.Features["AMX-BF16"], d.BF16 = false, "emulated" }, "no bf16", "fp32"},
		{"AMX forbidden", func(d *diagnosis) { d.BF16 = "avx512bf16" }, "does not permit", "Linux 5.16"},
		{"AMX forgone", func(d *diagnosis) { d.BF16, d.BLAS = "avx512bf16", "avx2" }, "", ""},
		{"limit met", func(d *diagnosis) { d.CPULimit = 7.5 }, "", ""},
		{"limit passed", func(d *diagnosis) { d.CPULimit = 1.5 }, "8 threads are started, but the container may use " +
			"1.5", "device.threads=1,"},
		{"busy", func(d *diagnosis) { d.Load = 5 }, "load 5.0 on 8 processors", "idle"},
		{"memory limit", func(d *diagnosis) { d.MemoryLimit = 1e9 }, "may use 1 GB", "--memory"},
		{"memory used up", func(d *diagnosis) { d.MemoryAvailable = 5e8 }, "only 500 MB", "train.batch"},
		{"disk", func(d *diagnosis) { d.DiskFree = 3e9 }, "runs has 3 GB free", "--run"},
	} {
		d := healthy()
		c.spoil(&d)
		d.check()
		if c.problem == "" {
			if len(d.Warnings) > 0 {
				t.Errorf("%s: unexpected warning %q", c.name, d.Warnings[0].Problem)
			}
			continue
		}
		if len(d.Warnings) != 1 {
			t.Errorf("%s: %d warnings, want 1: %q", c.name, len(d.Warnings), d.Warnings)
			continue
		}
		if w := d.Warnings[0]; !strings.Contains(w.Problem, c.problem) || !strings.Contains(w.Remedy, c.remedy) {
			t.Errorf("%s: got %q, %q; want %q, %q in them", c.name, w.Problem, w.Remedy, c.problem, c.remedy)
		}
	}
}

// An export is written beside the run or the file that it is of, and never into a run.
func TestExportName(t *testing.T) {
	work := t.TempDir()
	t.Chdir(work)
	for checkpoint, want := range map[string]string{
		"runs/a":                                 "runs/a.pth.tar",
		"runs/a/":                                "runs/a.pth.tar",
		"runs/a.b-lr0.1":                         "runs/a.b-lr0.1.pth.tar",
		"runs/a/checkpoints/last.safetensors":    "runs/a-last.pth.tar",
		"runs/a/checkpoints/../checkpoints/x.pt": "runs/a-x.pth.tar",
		"x.safetensors":                          "x.pth.tar",
		"d/model.pth":                            "d/model.pth.tar",
		"../x":                                   "../x.pth.tar",
		".":                                      "../" + filepath.Base(work) + ".pth.tar",
		"/abs/run":                               "/abs/run.pth.tar",
	} {
		if got := try.Get(exportName(filepath.FromSlash(checkpoint)))(t); filepath.ToSlash(got) != want {
			t.Errorf("%s: %s, want %s", checkpoint, got, want)
		}
	}
}
