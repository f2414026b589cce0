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
	"vsetrain/internal/house/try"
	"vsetrain/internal/run/runtest"
	"vsetrain/internal/run/verify"
)

var (
	crashTime = flag.Duration("crash-time", time.Second, "how long TestDisturbedCommands tries power failures")
	faultTime = flag.Duration("fault-time", time.Second, "how long TestDisturbedCommands tries pairs of faults")
	crashSeed = flag.Uint64("crash-seed", 1, "seed of what TestDisturbedCommands draws")
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
	journal string // file of records, of which a torn one at the end is not read
	runs    string // folders that are compared as runs
}

// Every command begins in a folder with a data set of its own, two configurations and a trained network.
var crashJobs = []crashJob{
	{name: "train", command: "train --config c.yaml --run run", again: "train --config c.yaml --run run --auto-resume",
		runs: "run"},
	{name: "train, keep and EMA", command: "train --config c.yaml --run run --set train.keep=2 --set optim.ema=0.9",
		again: "train --config c.yaml --run run --auto-resume --set train.keep=2 --set optim.ema=0.9", runs: "run"},
	{name: "train --resume", before: "train --config c.yaml --run run --set train.max_steps=3",
		command: "train --config c.yaml --run run --resume", runs: "run"},
	{name: "train --seeds", command: "train --config c.yaml --run run --seeds 7,8",
		again: "train --config c.yaml --run run --seeds 7,8 --auto-resume", runs: "run-seed7 run-seed8"},
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
	{name: "export --hub", command: "export trained --hub hub --force",
		outputs: "hub/README.md hub/config.json hub/vocab.json hub/image_encoder.onnx hub/model.safetensors"},
	{name: "export --hub over another", before: "export pairs --hub hub", command: "export trained --hub hub --force",
		outputs: "hub/README.md hub/config.json hub/model.safetensors"},
	{name: "import", before: "export trained --out m.pth.tar", command: "import m.pth.tar --out i.safetensors --force",
		outputs: "i.safetensors"},
	{name: "data noise", command: "data noise world --out n.npy --force", outputs: "n.npy"},
	{name: "data remove", before: "data remove --data gallery --split test 11",
		command: "data remove --data gallery --split test 10", journal: "gallery/test_changes.bin"},
	{name: "mine", command: "mine trained --out mined.safetensors --force", outputs: "mined.safetensors"},
	{name: "report --test", command: "report trained pairs --test --out rep"},
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
	err := mustInProcess("data synth world --train 8 --dev 2 --test 4 --regions 2 --dim 16;" +
		"train --config c.yaml --run trained; train --config p.yaml --run pairs --set train.max_steps=1;" +
		"data convert world/test_ims.npy --out gallery/test_ims.npy")
	if err != nil {
		return err
	}
	ids, err := os.ReadFile(filepath.Join(dir, "world/test_ids.txt"))
	return errors.Join(err, os.WriteFile(filepath.Join(dir, "gallery/test_ids.txt"), ids, 0o666))
}

// disturbances are what every command that writes is tried with: a power failure, and two calls that fail.
var disturbances = []struct {
	name string
	time *time.Duration
	try  func(b *baseline, r *crash.Recorder, dir string, until time.Time) (crash.Outcome, error)
}{{"power failures", crashTime, powerFailures}, {"pairs of faults", faultTime, faultPairs}}

// TestDisturbedCommands disturbs every command that writes. The next command finds what was there before or arrives at
// what the undisturbed command left, the files of a set are never mixed, and verify finds no damage. A second of each
// kind is drawn; -crash-time and -fault-time try more, 0 none. It prints what was tried, and scripts/campaign.sh reads
// that.
func TestDisturbedCommands(t *testing.T) {
	world := t.TempDir()
	t.Chdir(world)
	try.Do(t, crashWorld(world))
	all := make([]crash.Outcome, len(disturbances))
	for i := range crashJobs {
		j := &crashJobs[i]
		t.Run(j.name, func(t *testing.T) {
			b, r, err := begin(j, t, world)
			try.Do(t, err)
			for k, d := range disturbances {
				if *d.time == 0 {
					continue
				}
				began := time.Now()
				until := began.Add(*d.time / time.Duration(len(crashJobs)-i))
				o := try.Get(d.try(b, r, filepath.Join(t.TempDir(), "work"), until))(t)
				*d.time = max(time.Millisecond, *d.time-time.Since(began))
				for _, err := range o.Errors {
					t.Errorf("%s: %v", d.name, err)
				}
				all[k].Add(o)
				t.Logf("campaign: %s: %s: %d found, %d tried, %d failed", d.name, j.name, o.Found, o.Tried, o.Failed)
			}
		})
	}
	for k, d := range disturbances {
		t.Logf("campaign: %s: all: %d found, %d tried, %d failed", d.name, all[k].Found, all[k].Tried, all[k].Failed)
		if *d.time > 0 && all[k].Tried == 0 {
			t.Errorf("no %s were tried", d.name)
		}
	}
}

// powerFailures tries the states that a power failure may leave of a command.
func powerFailures(b *baseline, r *crash.Recorder, dir string, until time.Time) (crash.Outcome, error) {
	return r.Try(dir, *crashSeed, until, func() error { return b.check(dir) })
}

// baseline is what a command found and left.
type baseline struct {
	*crashJob
	root        string // what the command begins with
	want        string // what the undisturbed command left
	old, wanted map[string][]byte
}

// begin makes the folder of a command and records the command, undisturbed.
func begin(j *crashJob, t *testing.T, world string) (b *baseline, r *crash.Recorder, err error) {
	b = &baseline{crashJob: j, root: filepath.Join(t.TempDir(), "root"), want: filepath.Join(t.TempDir(), "want")}
	if err = os.CopyFS(b.root, os.DirFS(world)); err != nil {
		return nil, nil, err
	}
	t.Chdir(b.root)
	if err = mustInProcess(j.before); err != nil {
		return nil, nil, err
	}
	b.old = j.read()
	if err = errors.Join(os.CopyFS(b.want, os.DirFS(b.root)), os.Chdir(b.want)); err != nil {
		return nil, nil, err
	}
	if r, err = crash.Record(b.want); err != nil {
		return nil, nil, err
	}
	restore := disk.Use(r)
	err = mustInProcess(j.command)
	restore()
	b.wanted = j.read()
	return b, r, err
}

// check returns an error where a folder that a disturbed command left is not as promised.
func (b *baseline) check(dir string) error {
	if err := os.Chdir(dir); err != nil {
		return err
	}
	now := b.read()
	if b.journal == "" && mixed(b.old, b.wanted, now) {
		return fmt.Errorf("%s are neither all old nor all new", b.outputs)
	}
	if b.outputs != "" && len(now) == len(b.wanted) {
		if err := undamaged(missing); err != nil {
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
	for _, run := range strings.Fields(b.runs) {
		if err := differ(run, filepath.Join(b.want, run)); err != nil {
			return err
		}
	}
	return undamaged()
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

// faultPairs lets two calls of a command fail: with an error, with half of a write, or with the end of the process. The
// command must say so or succeed.
func faultPairs(b *baseline, recorded *crash.Recorder, dir string, until time.Time) (o crash.Outcome, err error) {
	const window = 60 // calls; within the same save, validation or set
	r := rand.New(rand.NewPCG(*crashSeed, 2))
	calls, kinds := recorded.Ops(), len(crash.FaultKinds)
	o.Found = calls * window * kinds * kinds
	for ; o.Tried == 0 || time.Now().Before(until); o.Tried++ {
		if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(b.root)), os.Chdir(dir)); err != nil {
			return o, err
		}
		first := r.IntN(calls)
		f := &crash.Faults{At: map[int]string{first: crash.FaultKinds[r.IntN(kinds)],
			first + 1 + r.IntN(window): crash.FaultKinds[r.IntN(kinds)]}}
		restore := disk.Use(f)
		code, out := inProcess(strings.Fields(b.command)...)
		restore()
		err := b.check(dir)
		if code != exitOK && !strings.Contains(out, "vsetrain: ") {
			err = errors.New("the command failed without a word")
		}
		if err != nil {
			o.Failed++
			o.Errors = append(o.Errors, fmt.Errorf("%v, exit code %d: %w\n%s", f.At, code, err, out))
		}
	}
	return o, nil
}

// read returns the outputs that are there.
func (j *crashJob) read() map[string][]byte {
	all := map[string][]byte{}
	for _, name := range strings.Fields(j.outputs + " " + j.journal) {
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
