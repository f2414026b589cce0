//go:build linux && (amd64 || arm64) && !nodl

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"vsetrain/internal/apps/sweep"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/run/launch"
	"vsetrain/internal/system/mpi"
	"vsetrain/lab/try"
)

// ranksWorld is stopWorld, where MPICH is.
func ranksWorld(t *testing.T) string {
	t.Helper()
	for _, path := range mpi.Search("/", os.Getenv).Paths() {
		if kind, err := mpi.KindOf(path); err == nil && kind != mpi.OpenMPI {
			return stopWorld(t)
		}
	}
	t.Skip("MPICH is not here; scripts/install-test-tools.sh installs it")
	return ""
}

// stepLine is a line of metrics about a step.
type stepLine struct {
	Kind   string
	Loss   float64
	StepMS float64 `json:"step_ms"`
}

func stepLines(t *testing.T, run string) (out []stepLine) {
	t.Helper()
	for line := range bytes.Lines(try.Get(os.ReadFile(filepath.Join(run, "metrics.jsonl")))(t)) {
		var l stepLine
		if try.Do(t, json.Unmarshal(line, &l)); l.Kind == "train" {
			out = append(out, l)
		}
	}
	return out
}

// The ranks of --procs train what one process trains, but for rounding. A signal stops them at one step with the state
// saved, and another number of ranks goes on.
func TestProcs(t *testing.T) {
	ranksWorld(t) // or skip
	dir, _ := killWorld(t, 3)
	var out bytes.Buffer
	c := vsetrain(dir, &out, "train --config c.yaml --run r --procs 3")
	run, whole := filepath.Join(dir, "r"), filepath.Join(dir, "whole")
	code := stopped(t, c, syscall.SIGTERM, filepath.Join(run, "metrics.jsonl"), 4)
	if code != exitInterrupted || strings.Count(out.String(), "the state is saved") != 1 {
		t.Fatalf("exit code %d\n%s", code, &out)
	}
	if begun := stepLines(t, run); len(begun) == 0 || len(begun) >= len(stepLines(t, whole)) {
		t.Fatalf("%d steps before the signal", len(begun))
	}
	mustRun(t, dir, "train --resume --run r --procs 2")
	nearWhole(t, 1e-3, run, whole)
}

var neighbours = flag.Int("neighbours", 0, "how often TestBesideNeighbours trains on an idle machine; 0 skips it")

// A step of two or three ranks takes at most 2.5 times as long beside two programs that compute.
func TestBesideNeighbours(t *testing.T) {
	if *neighbours == 0 {
		t.Skip("times are measured with -neighbours N, on an idle machine")
	}
	dir := ranksWorld(t)
	mustRun(t, dir, "data synth larger --train 200 --dev 12 --test 0 --regions 12 --dim 256")
	step := func(procs string) float64 {
		t.Helper()
		try.Do(t, os.RemoveAll(filepath.Join(dir, "r")))
		mustRun(t, dir, "train --config c.yaml --run r --set data.dir=larger --set model.embed_dim=1024 --set "+
			"train.batch=64 --set train.max_steps=30 --set train.val_step=0 --procs", procs)
		all := stepLines(t, filepath.Join(dir, "r"))[5:]
		slices.SortFunc(all, func(a, b stepLine) int { return cmp.Compare(a.StepMS, b.StepMS) })
		return all[len(all)/2].StepMS
	}
	failed := 0
	for i := range 2 * *neighbours {
		procs := []string{"2", "3"}[i%2]
		alone := step(procs)
		var loops []*exec.Cmd
		for range 2 {
			c := exec.Command("sh", "-c", "while :; do :; done")
			try.Do(t, c.Start())
			loops = append(loops, c)
		}
		beside := step(procs)
		for _, c := range loops {
			c.Process.Kill()
			c.Wait()
		}
		if t.Logf("%s ranks: %.1f ms alone, %.1f ms beside two loops", procs, alone, beside); beside > 2.5*alone {
			failed++
			t.Errorf("a step takes %.1f times as long", beside/alone)
		}
	}
	t.Logf("campaign: two and three ranks beside two busy programs: %d found, %[1]d tried, %d failed", 2**neighbours,
		failed)
}

// nearWhole fails where the losses of a run are not the same as in one process, but for a share.
func nearWhole(t *testing.T, share float64, run, whole string) {
	t.Helper()
	got, want := stepLines(t, run), stepLines(t, whole)
	if len(got) == 0 || len(got) != len(want) {
		t.Fatalf("%d losses, with one process %d", len(got), len(want))
	}
	for i, w := range want {
		if math.Abs(got[i].Loss-w.Loss) > share*w.Loss {
			t.Errorf("the loss of line %d is %v, with one process %v", i, got[i].Loss, w.Loss)
		}
	}
}

// Processes that the real torchrun starts are ranks. Without -- it takes --run for its own option.
func TestTorchrun(t *testing.T) {
	torchrun, err := exec.LookPath(cmp.Or(os.Getenv("TORCHRUN"), "torchrun"))
	if err != nil {
		t.Skip("torchrun is not in PATH; name it with TORCHRUN, or pip install torch")
	}
	ranksWorld(t) // or skip
	dir, _ := killWorld(t, 1)
	cmd := exec.CommandContext(t.Context(), torchrun, "--standalone", "--no-python", "--nproc-per-node", "2", "--",
		*program, "train", "--config", "c.yaml", "--run", "r")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "next: vsetrain eval") != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	nearWhole(t, 1e-2, filepath.Join(dir, "r"), filepath.Join(dir, "whole"))
}

// Two ranks and four exchange values by a library with the ABI of MPI 5, such as the one from pip install mpich.
func TestProcsOfABI(t *testing.T) {
	paths := mpi.Search("/", os.Getenv).Paths()
	at := slices.IndexFunc(paths, func(path string) bool {
		kind, err := mpi.KindOf(path)
		return err == nil && kind == mpi.ABI
	})
	if at < 0 {
		t.Skip("no library with the ABI of MPI 5 is here; pip install mpich, or name it with VSETRAIN_MPI")
	}
	dir, _ := killWorld(t, 1)
	t.Setenv("VSETRAIN_MPI", paths[at])
	for _, procs := range []string{"2", "4"} {
		mustRun(t, dir, "train --config c.yaml --run", procs, "--procs", procs)
		nearWhole(t, 1e-2, filepath.Join(dir, procs), filepath.Join(dir, "whole"))
	}
}

// Trials of a sweep that have two ranks each end like trials of one process, but for rounding, also where a rank is
// killed or the worker is told to stop in between.
func TestSweepOfRanks(t *testing.T) {
	dir := ranksWorld(t) // or skip
	const text = "base: c.yaml\nset: {train.epochs: 3}\naxes: [{param: optim.lr, values: [1e-3, 2e-3]}]\n" +
		"launcher: {workers: 1, threads: 2, procs_per_trial: 2}\ndir: sw\n"
	try.Do(t, os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(text), 0o666))
	var out bytes.Buffer
	c := vsetrain(dir, &out, "sweep run --config s.yaml")
	try.Do(t, c.Start())
	trains := func(more int) {
		before := steps(t, dir)
		until(t, "a sweep trains", func() bool { return steps(t, dir) >= before+more })
	}
	trains(2)
	killed := 0
	for _, trial := range childrenOf(c.Process.Pid) {
		for _, rank := range childrenOf(trial) {
			if syscall.Kill(rank, syscall.SIGKILL) == nil {
				killed++
			}
		}
	}
	trains(2)
	try.Do(t, c.Process.Signal(syscall.SIGTERM))
	if code := exitCode(t, c); code != exitInterrupted || killed != 1 || strings.Count(out.String(), "stopped") != 2 {
		t.Fatalf("exit code %d, %d ranks killed\n%s", code, killed, &out)
	}
	mustRun(t, dir, "sweep run --config s.yaml")
	s := sweepStatus(t, dir)
	if !s.Done || s.Counts[sweep.Done] != 2 {
		t.Fatalf("%+v", s.Counts)
	}
	for _, l := range s.Trials {
		mustRun(t, dir, "train --config", filepath.Join(l.Dir, "trial.yaml"), "--run", "one"+l.ID)
		nearWhole(t, 1e-2, l.Dir, filepath.Join(dir, "one"+l.ID))
	}
}

// The ranks of eval --procs and embed --procs write what one process writes, and rank 0 alone prints: also of
// comparisons, and of a published checkpoint, which is measured twice. One that fails ends them all.
func TestProcsMeasure(t *testing.T) {
	ranksWorld(t) // or skip
	dir, _ := killWorld(t, 1)
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		try.Do(t, err)
		if b, _, err = integrity.Unseal(b); err != nil { // the checksum of all, the time of day included
			t.Fatal(err)
		}
		before, _, _ := strings.Cut(string(b), `"measured":`) // the time of day
		return before
	}
	var outs [2]string
	for i, procs := range []string{"", " --procs 3"} {
		name := fmt.Sprint(i)
		outs[i] = mustRun(t, dir, "eval whole --split dev --batch 7 --device cpu --threads 1"+procs, "--save-scores",
			name+".npy", "--save-ranks", name+".csv", "--json", name+".json")
		for _, of := range []string{"images", "captions"} {
			mustRun(t, dir, "embed whole --split dev --batch 7"+procs, "--of", of, "--out", of+name+".npy")
		}
	}
	for _, name := range []string{"%d.npy", "%d.csv", "%d.json", "images%d.npy", "captions%d.npy"} {
		if read(fmt.Sprintf(name, 0)) != read(fmt.Sprintf(name, 1)) {
			t.Errorf("%s of three processes is not that of one", name)
		}
	}
	files := strings.NewReplacer("0.npy", "1.npy", "0.csv", "1.csv")
	if files.Replace(outs[0]) != outs[1] {
		t.Errorf("three processes print\n%s\none prints\n%s", outs[1], outs[0])
	}
	fixtures := try.Get(filepath.Abs("../../testdata/torch"))(t)
	row := func(cells ...string) string { return strings.Join(cells, "\t") + "\n" }
	table := row("name", "files", "network", "data", "protocol", "i2t_r1", "i2t_r5", "i2t_r10", "t2i_r1", "t2i_r5",
		"t2i_r10", "quirks", "sha256", "where", "source", "note") + row("boxes", "checkpoint.pth.tar", "gsmn", "toy",
		"whole", "0.0", "", "", "", "", "", "Q9,Q10", "", "https://example.org/x", "none", "")
	for name, text := range map[string]string{"toy.tsv": table, "texts": "a dog\na red ball\ntwo dogs\na dog runs\n"} {
		try.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	for _, args := range [][]string{
		{"embed whole --texts texts --batch 1 --out texts.npy --force"},
		{"eval --compare whole whole --split dev --batch 7 --resamples 20"},
		{"eval --published boxes --manifest toy.tsv", filepath.Join(fixtures, "gsmn", "checkpoint.pth.tar"), "--data",
			filepath.Join(fixtures, "gsmn", "data")},
	} {
		var printed, vectors [2]string
		for i, procs := range []string{"1", "3"} {
			printed[i] = mustRun(t, dir, args[0]+" --device cpu --threads 1 --procs "+procs, args[1:]...)
			if strings.HasPrefix(args[0], "embed") {
				vectors[i] = read("texts.npy")
			}
		}
		if printed[0] != printed[1] || vectors[0] != vectors[1] {
			t.Errorf("%v: three processes print\n%s\none prints\n%s", args, printed[1], printed[0])
		}
	}
	var out bytes.Buffer
	c := vsetrain(dir, &out, "eval whole --split dev --procs 2 --scores none.npy")
	try.Do(t, c.Start())
	if code := exitCode(t, c); code != exitFailure || strings.Count(out.String(), "none.npy") != 1 {
		t.Errorf("a file that is not there: exit code %d\n%s", code, &out)
	}
}

// Ranks that were started with other settings, data or kernels are told which, by all of them.
func TestRanksDisagree(t *testing.T) {
	dir := ranksWorld(t)
	try.Do(t, os.CopyFS(filepath.Join(dir, "other"), os.DirFS(filepath.Join(dir, "world"))))
	ids := filepath.Join(dir, "other", "dev_ids.txt")
	b := try.Get(os.ReadFile(ids))(t)
	try.Do(t, os.WriteFile(ids, bytes.Replace(b, []byte("1"), []byte("2"), 1), 0o666))
	for _, x := range []struct{ flag, want string }{
		{"seed=8", "seed is 8, but 7 on rank 0;"},
		{"optim.lr=0.5", "optim.lr is 0.5, but 0.002 on rank 0;"},
		{"data.dir=other", `file dev_ids.txt of data.dir is \d+ bytes \w{12}, but \d+ bytes \w{12} on rank 0;`},
	} {
		l := try.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		var outs [2]bytes.Buffer
		var all []*exec.Cmd
		for r := range 2 {
			c := vsetrain(dir, &outs[r], "train --config c.yaml --run r --set seed=7")
			if r == 1 {
				c.Args = append(c.Args, "--set", x.flag)
			}
			c.Env = append(os.Environ(), fmt.Sprintf("RANK=%d", r), "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
				"MASTER_PORT="+port)
			try.Do(t, c.Start())
			all = append(all, c)
		}
		want := regexp.MustCompile(`(?m)^vsetrain: rank 1 \(process \d+ on \S+\) and rank 0 \(process \d+ on \S+\) ` +
			`are to do different things: ` + x.want + ` start all ranks with the same program, configuration and data$`)
		for r, c := range all {
			if code := exitCode(t, c); code != exitFailure || !want.Match(outs[r].Bytes()) {
				t.Errorf("%s: rank %d ends with %d\n%s", x.flag, r, code, &outs[r])
			}
		}
	}
}

// The environment of the manifest's pods, with what Kubernetes adds, is what train reads.
func TestManifestIsRead(t *testing.T) {
	out := mustRun(t, t.TempDir(), "launch kubernetes --nodes 3 --procs 2 --image i -- train demo")
	vars := map[string]string{"JOB_COMPLETION_INDEX": "2"}
	for _, m := range regexp.MustCompile(`- name: ([A-Z_]+)\n +value: "?([^"\n]*)"?\n`).FindAllStringSubmatch(out, -1) {
		vars[m[1]] = m[2]
	}
	secret := regexp.MustCompile(`(?m)^  token: (\w+)$`).FindStringSubmatch(out)
	if !strings.Contains(out, "- name: "+launch.TokenVariable+"\n") || len(secret) != 2 {
		t.Fatal(out)
	}
	vars[launch.TokenVariable] = secret[1]
	p, err := launch.Environment(func(name string) string { return vars[name] })
	p = p.Times(2)
	want := launch.Place{Rank: 4, Ranks: 6, Locals: 2, Address: "vsetrain-demo-0.vsetrain-demo:29500",
		Launcher: "Kubernetes", Token: secret[1]}
	if err != nil || p != want {
		t.Errorf("%+v (%v), want %+v", p, err, want)
	}
}

// slurmRanks trains with two ranks on each of two nodes. One of the second node is killed: the others end, the job is
// queued again and goes on from its checkpoint, and its losses are the same as with one process but for rounding.
func slurmRanks(t *testing.T, call slurmCall) {
	ranksWorld(t) // or skip
	dir, _ := killWorld(t, 12)
	mustRun(t, dir, "launch slurm --nodes 2 --procs 2 --submit -- train --config c.yaml --run r")
	logs := func() string { return logsOf(t, filepath.Join(dir, "slurm-*.log")) }
	last := filepath.Join(dir, "r", "checkpoints", "last.safetensors")
	hurt := false
	deadline := time.Now().Add(slurmLimit)
	for ; !slurmIdle(call, dir); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not done after four minutes:\n%s\n%s", call("squeue"), logs())
		}
		if !hurt && exists(last) {
			pid := rankOf(3)
			if pid == 0 {
				continue
			}
			try.Do(t, syscall.Kill(pid, syscall.SIGKILL))
			hurt = true
		}
	}
	if !hurt || !strings.Contains(logs(), " and is queued again\n") {
		t.Fatalf("the job was not queued again:\n%s", logs())
	}
	if n := sessions(t, filepath.Join(dir, "r")); n != 2 {
		t.Errorf("%d sessions, want 2\n%s\n%s", n, call("scontrol", "show", "job"), logs())
	}
	nearWhole(t, 1e-3, filepath.Join(dir, "r"), filepath.Join(dir, "whole"))
}

// rankOf is the process that Slurm started with the given number, or 0.
func rankOf(rank int) int {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		env, _ := os.ReadFile(f)
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "cmdline"))
		if strings.Contains(string(env), fmt.Sprintf("\x00SLURM_PROCID=%d\x00", rank)) &&
			strings.Contains(string(line), "/vsetrain\x00train\x00") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			return pid
		}
	}
	return 0
}
