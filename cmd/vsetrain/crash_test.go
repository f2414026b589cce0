package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/files/crash"
	"vsetrain/internal/files/disk"
	"vsetrain/internal/files/safetensors"
	"vsetrain/internal/run/runtest"
	"vsetrain/internal/run/verify"
)

var (
	crashTime = flag.Duration("crash-time", time.Second, "how long TestCrashStates tries states in all")
	faultTime = flag.Duration("fault-time", time.Second, "how long TestFaultPairs tries pairs of faults in all")
	crashSeed = flag.Uint64("crash-seed", 1, "seed of what TestCrashStates and TestFaultPairs draw")
)

// inProcess runs a command of the program in this process and returns its exit code and what it printed.
func inProcess(words ...string) (int, string) {
	var out bytes.Buffer
	a := &app{Streams: &ui.Streams{In: &bytes.Buffer{}, Out: &out, Err: &out, Width: 80, Now: time.Now},
		Environ: []string{"VSETRAIN_CUDA_DRIVER=" + runtest.NoDriver}}
	return a.run(words), out.String()
}

// mustInProcess is inProcess for what cannot fail. Commands are separated by ";".
func mustInProcess(commands string) error {
	for _, line := range strings.Split(commands, ";") {
		if words := strings.Fields(line); len(words) > 0 {
			if code, out := inProcess(words...); code != exitOK {
				return fmt.Errorf("%s: exit code %d: %s", line, code, out)
			}
		}
	}
	return nil
}

// crashJob is a command that a power failure ends.
type crashJob struct {
	name    string
	before  string // what is done first
	command string // what is recorded
	again   string // what a person does afterwards; "" is the command
	outputs string // files of a set, all old or all new if all are there; the others are remade by again
	run     bool   // the folder run is compared as a run
}

// Every command begins in a folder with a data set of its own, two configurations and a trained network.
var crashJobs = []crashJob{
	{name: "train", command: "train --config c.yaml --run run", again: "train --config c.yaml --run run --auto-resume",
		run: true},
	{name: "train, keep and EMA", command: "train --config c.yaml --run run --set train.keep=2 --set optim.ema=0.9",
		again: "train --config c.yaml --run run --auto-resume --set train.keep=2 --set optim.ema=0.9", run: true},
	{name: "train --resume", before: "train --config c.yaml --run run --set train.max_steps=3",
		command: "train --config c.yaml --run run --resume", run: true},
	{name: "data synth", command: "data synth new --train 6 --dev 2 --test 2 --regions 2 --dim 16 --force",
		outputs: "new/train_ims.npy new/train_caps.txt"},
	{name: "data synth over another", before: "data synth new --train 6 --dev 2 --test 2 --regions 2 --dim 16 --seed 9",
		command: "data synth new --train 6 --dev 2 --test 2 --regions 2 --dim 16 --force",
		outputs: "new/train_ims.npy new/train_caps.txt new/test_caps.txt"},
	{name: "data convert", command: "data convert world/train_ims.npy --out half.npy --dtype f16 --force",
		outputs: "half.npy"},
	{name: "data vocab", before: "data vocab world --out v.json --threshold 1",
		command: "data vocab world --out v.json --threshold 3 --force", outputs: "v.json"},
	{name: "precompute-svd", command: "precompute-svd --data world --k 4 --out v.npy --force",
		outputs: "v.npy v.npy.json"},
	{name: "precompute-svd over another", before: "precompute-svd --data world --k 5 --out v.npy",
		command: "precompute-svd --data world --k 4 --out v.npy --force", outputs: "v.npy v.npy.json"},
	{name: "embed over another", before: "embed --checkpoint trained --of captions --out e.npy",
		command: "embed --checkpoint trained --of images --out e.npy --force", outputs: "e.npy e_ids.txt"},
	{name: "embed as safetensors", command: "embed --checkpoint trained --of images --out e.safetensors --force",
		outputs: "e.safetensors"},
	{name: "export", command: "export trained --out m.pth.tar --force", outputs: "m.pth.tar"},
	{name: "export --onnx", command: "export trained --onnx onnx --force"},
	{name: "average", command: "average trained/checkpoints/best.safetensors trained/checkpoints/last.safetensors " +
		"--out soup.safetensors --force", outputs: "soup.safetensors"},
	{name: "eval --work", command: "eval --checkpoint pairs --work work --json e.json --save-scores s.npy " +
		"--save-ranks r.csv", outputs: "s.npy"},
	{name: "search --cache", command: "search two dogs --checkpoint trained --cache cache"},
}

const crashConfig = `data: {dir: world}
model: {embed_dim: 4, word_dim: 4%s}
optim: {lr: 2e-3, lr_update: 1}
train: {epochs: 2, batch: 16, val_step: 2, log_step: 1}
device: {threads: 1}
`

// crashWorld makes what every command begins with.
func crashWorld(dir string) error {
	const pairs = ", network: saf, text_encoder: bigru, sgraf: {sim_dim: 4}"
	for name, model := range map[string]string{"c.yaml": "", "p.yaml": pairs} {
		if err := os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, crashConfig, model), 0o666); err != nil {
			return err
		}
	}
	return mustInProcess("data synth world --train 8 --dev 2 --test 4 --regions 2 --dim 16;" +
		"train --config c.yaml --run trained; train --config p.yaml --run pairs --set train.max_steps=1")
}

// TestCrashStates ends every command that writes by power failures, in the states that a file system may leave, and
// sees that the next command finds what was there before or arrives at what the undisturbed command left, that the
// files of a set are never mixed, and that verify finds no damage then. A few seconds of states are drawn; -crash-time
// tries more.
func TestCrashStates(t *testing.T) {
	world := t.TempDir()
	t.Chdir(world)
	if err := crashWorld(world); err != nil {
		t.Fatal(err)
	}
	spread(t, crashTime, func(t *testing.T, j *crashJob, until func() time.Time) crash.Outcome {
		b, r, err := begin(j, t, world, crash.Record)
		if err != nil {
			t.Fatal(err)
		}
		state := filepath.Join(t.TempDir(), "state")
		if err := os.Mkdir(state, 0o777); err != nil {
			t.Fatal(err)
		}
		o, err := r.Try(state, *crashSeed, until(), func() error { return b.check(state) })
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range o.Errors {
			t.Error(err)
		}
		return o
	})
}

// spread divides a time over the commands and prints what was tried, as scripts/campaign.sh reads it.
func spread(t *testing.T, d *time.Duration, try func(t *testing.T, j *crashJob, until func() time.Time) crash.Outcome) {
	var all crash.Outcome
	left := *d
	for i := range crashJobs {
		j := &crashJobs[i]
		t.Run(j.name, func(t *testing.T) {
			var began time.Time
			n := try(t, j, func() time.Time {
				began = time.Now()
				return began.Add(left / time.Duration(len(crashJobs)-i))
			})
			left = max(time.Millisecond, left-time.Since(began))
			all.Found, all.Tried, all.Failed = all.Found+n.Found, all.Tried+n.Tried, all.Failed+n.Failed
			t.Logf("campaign: %s: %d found, %d tried, %d failed", j.name, n.Found, n.Tried, n.Failed)
		})
	}
	t.Logf("campaign: all: %d found, %d tried, %d failed", all.Found, all.Tried, all.Failed)
	if all.Tried == 0 {
		t.Error("nothing was tried")
	}
}

// baseline is what a command found and left.
type baseline struct {
	*crashJob
	root        string // what the command begins with
	want        string // what the undisturbed command left
	old, wanted map[string][]byte
}

// begin makes the folder of a command in which the command runs undisturbed, on the system that use makes.
func begin[S disk.System](j *crashJob, t *testing.T, world string, use func(root string) (S, error)) (b *baseline, s S,
	err error) {
	b = &baseline{crashJob: j, root: filepath.Join(t.TempDir(), "root"), want: filepath.Join(t.TempDir(), "want")}
	if err = os.CopyFS(b.root, os.DirFS(world)); err != nil {
		return b, s, err
	}
	t.Chdir(b.root)
	if err = mustInProcess(j.before); err != nil {
		return b, s, err
	}
	b.old = j.read()
	if err = os.CopyFS(b.want, os.DirFS(b.root)); err != nil {
		return b, s, err
	}
	if s, err = use(b.want); err != nil {
		return b, s, err
	}
	if err = os.Chdir(b.want); err != nil {
		return b, s, err
	}
	restore := disk.Use(s)
	err = mustInProcess(j.command)
	restore()
	b.wanted = j.read()
	return b, s, err
}

// check returns an error where a folder that a disturbed command left is not as promised.
func (b *baseline) check(dir string) error {
	if err := os.Chdir(dir); err != nil {
		return err
	}
	now := b.read()
	if mixed(b.old, b.wanted, now) {
		return fmt.Errorf("%s are neither all old nor all new", b.outputs)
	}
	if b.outputs != "" && len(now) == len(b.wanted) {
		if err := undamaged(); err != nil {
			return fmt.Errorf("before it is repeated: %w", err)
		}
	}
	if err := mustInProcess(cmp.Or(b.again, b.command)); err != nil {
		return err
	}
	now = b.read()
	for name, want := range b.wanted {
		if !bytes.Equal(now[name], want) {
			return fmt.Errorf("%s is not what the undisturbed command left", name)
		}
	}
	if b.run {
		if err := differ("run", filepath.Join(b.want, "run")); err != nil {
			return err
		}
	}
	return undamaged()
}

// undamaged returns an error where verify finds a damage in the working directory.
func undamaged() error {
	v, err := verify.Path(context.Background(), ".", func(string, int, int) {})
	if err == nil && len(v.Damaged) > 0 {
		err = fmt.Errorf("verify: %s: %s", v.Damaged[0].Path, v.Damaged[0].What)
	}
	return err
}

// TestFaultPairs lets two calls of every command that writes fail: with an error, with half of a write, or with the end
// of the process. The command must say so or succeed, and the next one arrives at what the undisturbed one left. A few
// seconds of pairs are drawn; -fault-time tries more.
func TestFaultPairs(t *testing.T) {
	world := t.TempDir()
	t.Chdir(world)
	if err := crashWorld(world); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(*crashSeed, 2))
	spread(t, faultTime, func(t *testing.T, j *crashJob, until func() time.Time) (n crash.Outcome) {
		b, s, err := begin(j, t, world, func(string) (*crash.Faults, error) { return &crash.Faults{}, nil })
		if err != nil {
			t.Fatal(err)
		}
		calls, kinds := s.Calls(), len(crash.FaultKinds)
		n.Found = calls * (calls - 1) / 2 * kinds * kinds
		dir := filepath.Join(t.TempDir(), "work")
		for end := until(); n.Tried == 0 || time.Now().Before(end); n.Tried++ {
			if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(b.root)), os.Chdir(dir)); err != nil {
				t.Fatal(err)
			}
			first := r.IntN(calls)
			second := first + 1 + r.IntN(60) // within the same save, validation or set
			f := &crash.Faults{At: map[int]string{first: crash.FaultKinds[r.IntN(kinds)],
				second: crash.FaultKinds[r.IntN(kinds)]}}
			restore := disk.Use(f)
			code, out := inProcess(strings.Fields(j.command)...)
			restore()
			err := b.check(dir)
			if code != exitOK && !strings.Contains(out, "vsetrain: ") {
				err = errors.New("the command failed without a word")
			}
			if err != nil {
				t.Errorf("%v, exit code %d: %v\n%s", f.At, code, err, out)
				n.Failed++
			}
		}
		return n
	})
}

// read returns the outputs that are there.
func (j *crashJob) read() map[string][]byte {
	all := map[string][]byte{}
	for _, name := range strings.Fields(j.outputs) {
		if b, err := os.ReadFile(name); err == nil {
			all[name] = b
		}
	}
	return all
}

// mixed reports whether a set that is there as a whole is neither the old nor the new one.
func mixed(old, wanted, now map[string][]byte) bool {
	if len(now) < len(wanted) {
		return false // visibly incomplete
	}
	same := func(a map[string][]byte) bool {
		for name, b := range now {
			if !bytes.Equal(b, a[name]) {
				return false
			}
		}
		return true
	}
	return !same(old) && !same(wanted)
}

// differ compares two runs: weights, moments, and the log but for what depends on the clock.
func differ(got, want string) error {
	files, err := filepath.Glob(filepath.Join(want, "checkpoints", "*.safetensors"))
	if err != nil || len(files) == 0 {
		return errors.Join(err, fmt.Errorf("%s has no checkpoint", want))
	}
	for _, file := range files {
		name := filepath.Base(file)
		a, err := tensors(filepath.Join(got, "checkpoints", name))
		if err != nil {
			return err
		}
		b, err := tensors(file)
		if err != nil {
			return err
		}
		if len(a) != len(b) || len(a) == 0 {
			return fmt.Errorf("%s of %s has %d tensors, of %s %d", name, got, len(a), want, len(b))
		}
		for k := range b {
			if !bytes.Equal(a[k], b[k]) {
				return fmt.Errorf("%s: tensor %s is not that of the uninterrupted run", name, k)
			}
		}
	}
	a, err := runtest.ReadMetrics(got)
	if err != nil {
		return err
	}
	b, err := runtest.ReadMetrics(want)
	if err == nil && !slices.Equal(a, b) {
		err = fmt.Errorf("metrics of %s: %d lines, want the %d of the uninterrupted run", got, len(a), len(b))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; the run has no log", err)
	}
	return err
}

// tensors reads the tensors of a checkpoint.
func tensors(path string) (map[string][]byte, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string][]byte{}
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		out[name] = bytes.Clone(x.Data)
	}
	return out, nil
}
