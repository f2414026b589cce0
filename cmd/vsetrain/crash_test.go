package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/verify"
	"vsetrain/lab/crash"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// noGPU is an environment in which none is looked for.
var noGPU = []string{"VSETRAIN_CUDA_DRIVER=none", "VSETRAIN_CUBLAS=none"}

// inProcess runs a command of the program in this process, which may be asked by HTTP, and returns its exit code and
// what it printed.
func inProcess(ask []string, words ...string) (int, string) {
	c := &conversation{ask: ask, answers: make(chan struct{}, len(ask)), ended: make(chan struct{})}
	defer close(c.ended)
	a := newApp(c, c)
	a.In, a.Environ = c, noGPU
	code := a.run(words)
	return code, c.String()
}

// answered is how an answer begins.
const answered = "HTTP/1.1 "

// conversation asks a program that answers on its standard output: each request when the one before was answered.
type conversation struct {
	ask            []string
	asked          int
	answers, ended chan struct{}
	safeBuffer
}

// Read returns a request, which is shorter than what anybody reads at once.
func (c *conversation) Read(b []byte) (int, error) {
	if c.asked > 0 {
		select {
		case <-c.answers:
		case <-c.ended:
		}
	}
	if c.asked == len(c.ask) {
		return 0, io.EOF
	}
	c.asked++
	return copy(b, c.ask[c.asked-1]), nil
}

// Write takes an answer, or what is said besides.
func (c *conversation) Write(b []byte) (int, error) {
	n, err := c.safeBuffer.Write(b)
	for range bytes.Count(b, []byte(answered)) {
		select {
		case c.answers <- struct{}{}:
		default:
		}
	}
	return n, err
}

// mustInProcess is inProcess for what cannot fail. Commands are separated by ";".
func mustInProcess(commands string) error {
	for _, line := range strings.Split(commands, ";") {
		if words := strings.Fields(line); len(words) > 0 {
			if code, out := inProcess(nil, words...); code != exitOK {
				return fmt.Errorf("%s: exit code %d: %s", line, code, out)
			}
		}
	}
	return nil
}

// crashJob is a command that is disturbed.
type crashJob struct {
	name    string
	copies  string   // of the world, those that it changes
	before  string   // what is done first
	command string   // what is disturbed
	again   string   // what a person does afterwards; "" is the command
	outputs string   // files of a set, all old or all new if all are there; the others are remade by again
	journal string   // one of them, of records, of which a torn one at the end is not read
	runs    string   // folders that are compared as runs
	ask     []string // requests of HTTP that the command answers on standard input
}

// Every command works in an empty folder beside the folders of the world: a data set, a gallery, two configurations and
// what they trained. Time that one leaves is for those after it, so those with many quick states are the last.
var crashJobs = []crashJob{
	{name: "train", command: "train --config ../c.yaml --run run",
		again: "train --config ../c.yaml --run run --auto-resume", runs: "run"},
	{name: "train, keep and EMA", command: "train --config ../c.yaml --run run --set train.keep=2 --set optim.ema=0.9",
		again: "train --config ../c.yaml --run run --auto-resume --set train.keep=2 --set optim.ema=0.9", runs: "run"},
	{name: "train --resume", before: "train --config ../c.yaml --run run --set train.max_steps=3",
		command: "train --config ../c.yaml --run run --resume", runs: "run"},
	{name: "train --resume, finished", before: "train --config ../c.yaml --run run",
		command: "train --config ../c.yaml --run run --resume", runs: "run"},
	{name: "train --seeds", command: "train --config ../c.yaml --run run --seeds 7,8",
		again: "train --config ../c.yaml --run run --seeds 7,8 --auto-resume", runs: "run-seed7 run-seed8"},
	{name: "mine", command: "mine ../trained --out mined.safetensors --force", outputs: "mined.safetensors"},
	{name: "report --test", copies: "trained pairs", command: "report trained pairs --test --out rep"},
	{name: "average", command: "average ../trained/checkpoints/best.safetensors " +
		"../trained/checkpoints/last.safetensors --out soup.safetensors --force", outputs: "soup.safetensors"},
	{name: "eval --work", command: "eval --checkpoint ../pairs --work work --json e.json --save-scores s.npy " +
		"--save-ranks r.csv", outputs: "s.npy"},
	{name: "search --cache", command: "search two dogs --checkpoint ../trained --cache cache"},
	{name: "data convert", command: "data convert ../world/train_ims.npy --out half.npy --dtype f16 --force",
		outputs: "half.npy"},
	{name: "data vocab", before: "data vocab ../world --out v.json --threshold 1",
		command: "data vocab ../world --out v.json --threshold 3 --force", outputs: "v.json"},
	{name: "precompute-svd", command: "precompute-svd --data ../world --k 4 --out v.npy --force",
		outputs: "v.npy v.npy.json"},
	{name: "precompute-svd over another", before: "precompute-svd --data ../world --k 5 --out v.npy",
		command: "precompute-svd --data ../world --k 4 --out v.npy --force", outputs: "v.npy v.npy.json"},
	{name: "precompute-bert over another",
		before:  "precompute-bert --data ../world --bert ../bert --pool mean --out v.npy",
		command: "precompute-bert --data ../world --bert ../bert --out v.npy --force", outputs: "v.npy v.npy.json"},
	{name: "embed over another", before: "embed --checkpoint ../trained --of captions --out e.npy",
		command: "embed --checkpoint ../trained --of images --out e.npy --force", outputs: "e.npy e_ids.txt"},
	{name: "embed as safetensors", command: "embed --checkpoint ../trained --of images --out e.safetensors --force",
		outputs: "e.safetensors"},
	{name: "export", command: "export ../trained --out m.pth.tar --force", outputs: "m.pth.tar"},
	{name: "import", before: "export ../trained --out m.pth.tar",
		command: "import m.pth.tar --out i.safetensors --force", outputs: "i.safetensors"},
	{name: "data noise", command: "data noise ../world --out n.npy --force", outputs: "n.npy"},
	{name: "data remove", copies: "gallery", before: "data remove --data gallery --split test 11",
		command: "data remove --data gallery --split test 10", outputs: "gallery/test_changes.bin",
		journal: "gallery/test_changes.bin"},
	{name: "serve, images removed", copies: "gallery", before: "data remove --data gallery --split test 11",
		command: "serve ../trained --data gallery --split test --allow-changes --stdio --log none --cache cache",
		ask:     []string{posted("images/remove", `{"ids":["10"]}`), posted("search", `{"query":"two dogs"}`)},
		outputs: "gallery/test_changes.bin", journal: "gallery/test_changes.bin"},
	{name: "data synth over another", before: "data synth new --train 6 --dev 2 --test 2 --regions 2 --dim 16 --seed 9",
		command: "data synth new --train 6 --dev 2 --test 2 --regions 2 --dim 16 --force",
		outputs: "new/train_ims.npy new/train_caps.txt new/test_caps.txt"},
	{name: "data synth", command: "data synth new --train 6 --dev 2 --test 2 --regions 2 --dim 16 --force",
		outputs: "new/train_ims.npy new/train_caps.txt"},
	{name: "export --onnx", command: "export ../trained --onnx onnx --force"},
	{name: "export --hub over another", before: "export ../pairs --hub hub",
		command: "export ../trained --hub hub --force",
		outputs: "hub/README.md hub/config.json hub/model.safetensors"},
	{name: "export --hub", command: "export ../trained --hub hub --force",
		outputs: "hub/README.md hub/config.json hub/vocab.json hub/image_encoder.onnx hub/model.safetensors"},
}

// posted is a request to a server.
func posted(path, body string) string {
	return fmt.Sprintf("POST /v1/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", path, len(body), body)
}

const crashConfig = `data: {dir: ../world}
model: {embed_dim: 4, word_dim: 4%s}
optim: {lr: 2e-3, lr_update: 1}
train: {epochs: 2, batch: 16, val_step: 2, log_step: 1}
device: {threads: 1}
`

// crashWorld makes what all commands read, from a folder beside it.
func crashWorld(dir string) error {
	const pairs = ", network: saf, text_encoder: bigru, sgraf: {sim_dim: 4}"
	for name, model := range map[string]string{"c.yaml": "", "p.yaml": pairs} {
		if err := os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, crashConfig, model), 0o666); err != nil {
			return err
		}
	}
	err := mustInProcess("data synth ../world --train 8 --dev 2 --test 4 --regions 2 --dim 16;" +
		"train --config ../c.yaml --run ../trained;" +
		"train --config ../p.yaml --run ../pairs --set train.max_steps=1;" +
		"data convert ../world/test_ims.npy --out ../gallery/test_ims.npy")
	if err != nil {
		return err
	}
	ids, err := os.ReadFile(filepath.Join(dir, "world/test_ids.txt"))
	return errors.Join(err, os.WriteFile(filepath.Join(dir, "gallery/test_ids.txt"), ids, 0o666))
}

// crashJobsWorld makes the world of the commands, and an empty folder in it that is the working directory.
func crashJobsWorld(t *testing.T) (world, dir string) {
	t.Helper()
	for _, library := range noGPU {
		name, file, _ := strings.Cut(library, "=")
		t.Setenv(name, file)
	}
	world = try.MemoryDir(t)
	dir = filepath.Join(world, "job")
	try.Do(t, os.Mkdir(dir, 0o777))
	try.Do(t, os.CopyFS(filepath.Join(world, "bert"), os.DirFS("../../testdata/torch/vseinf-bert/bert")))
	t.Chdir(dir)
	try.Do(t, crashWorld(world))
	return world, dir
}

// begin copies what a job changes of the world, and does what comes first.
func (j *crashJob) begin(t *testing.T) {
	for _, name := range strings.Fields(j.copies) {
		try.Do(t, os.CopyFS(name, os.DirFS(filepath.Join("..", name))))
	}
	try.Do(t, mustInProcess(j.before))
}

// TestDisturbedCommands disturbs every command that writes. The next command finds what was there before or arrives at
// what the undisturbed command left, and verify finds no damage.
func TestDisturbedCommands(t *testing.T) {
	// Commands are short, and what they share is large; but cobra keeps the flags of each for ever.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(2 << 30))
	world, dir := crashJobsWorld(t)
	shared := listing(t, world)
	for i := range crashJobs {
		j := &crashJobs[i]
		t.Run(j.name, func(t *testing.T) {
			try.Do(t, crash.State{}.Write(dir))
			t.Chdir(dir)
			crash.Disturb(t, j.name, len(crashJobs)-i, j.program(t, dir))
		})
		if now := listing(t, world); now != shared {
			t.Fatalf("%s changed what all commands share:\n%s\nwant\n%s", j.name, now, shared)
		}
	}
}

// listing tells when the files of the world were changed, beside the files of a job.
func listing(t *testing.T, world string) string {
	var all strings.Builder
	try.Do(t, fs.WalkDir(os.DirFS(world), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() && path == "job" {
			return cmp.Or(err, fs.SkipDir)
		}
		info, err := e.Info()
		if err == nil && !e.IsDir() {
			fmt.Fprintln(&all, path, info.Size(), info.ModTime())
		}
		return err
	}))
	return all.String()
}

// program is the command as it is disturbed in the working directory.
func (j *crashJob) program(t *testing.T, dir string) *crash.Program {
	j.begin(t)
	again := cmp.Or(j.again, j.command)
	wanted := map[string]*runtest.Outcome{} // of the runs, undisturbed
	run := func(command string) error {
		code, out := inProcess(j.ask, strings.Fields(command)...)
		if err := claimed(out); err != nil {
			return fmt.Errorf("%w: exit code %d: %w\n%s", crash.ErrSilent, code, err, out)
		}
		if code == exitOK && strings.Count(out, answered+"200 OK") == len(j.ask) {
			for _, run := range strings.Fields(j.runs) {
				if wanted[run] == nil {
					wanted[run] = try.Get(runtest.ReadOutcome(run))(t)
				}
			}
			return nil
		}
		if !strings.Contains(out, "vsetrain: ") && !strings.Contains(out, `{"error":`) {
			return fmt.Errorf("%w: exit code %d: %s", crash.ErrSilent, code, out)
		}
		return fmt.Errorf("%s: exit code %d: %s", command, code, out)
	}
	left := func() error { return undamaged(missing) }
	if j.journal != "" { // verify names the torn record
		left = nil
	}
	return &crash.Program{Dir: dir, Outputs: strings.Fields(j.outputs), Journal: j.journal, Left: left,
		Run:   func() error { return run(j.command) },
		Again: func() error { return run(again) },
		Done: func() error {
			for run, want := range wanted {
				if err := want.Differs(run); err != nil {
					return err
				}
			}
			return undamaged()
		}}
}

// claims are what a command says that it has left, and each is a file.
var claims = []*regexp.Regexp{regexp.MustCompile(`(?m)\bwritten to (.+)$`), regexp.MustCompile(`(?m)^written: (.+)$`),
	regexp.MustCompile(`(?m)\bweights (?:in|are in) (.+)$`)}

// claimed returns an error where a command says that a file is there which is not.
func claimed(out string) error {
	for _, claim := range claims {
		for _, m := range claim.FindAllStringSubmatch(out, -1) {
			for _, file := range strings.FieldsFunc(strings.ReplaceAll(m[1], " and ", ","), func(r rune) bool {
				return r == ',' || r == ' '
			}) {
				if _, err := os.Stat(file); err != nil {
					return fmt.Errorf("it says %q: %w", m[0], err)
				}
			}
		}
	}
	saved := regexp.MustCompile(`(?:state is saved|checkpoint of step (\d+) is saved).*--run (\S+)`)
	for _, m := range saved.FindAllStringSubmatch(out, -1) {
		info, err := models.ReadInfo(filepath.Join(m[2], runfs.CheckpointsName, runfs.LastName))
		if err != nil || m[1] != "" && m[1] != fmt.Sprint(info.Step) {
			return fmt.Errorf("it says %q, and the checkpoint is of step %d (%v)", m[0], info.Step, err)
		}
	}
	return nil
}

// missing is what verify says of a file that a set lacks: anybody sees it. It is so where a file could neither be
// replaced nor brought back; the command has said where the earlier one lies.
const missing = "is missing; the manifest lists it"

// undamaged returns an error where verify finds a damage in the working directory, but for these.
func undamaged(but ...string) error {
	v, err := verify.Path(context.Background(), ".", func(string, int, int) {})
	for i := 0; err == nil && i < len(v.Damaged); i++ {
		if d := v.Damaged[i]; !slices.Contains(but, d.What) {
			err = fmt.Errorf("verify: %s: %s", d.Path, d.What)
		}
	}
	return err
}
