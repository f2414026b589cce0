package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// inWorld changes into a folder with the data set w, whose test split has 20 images, and a run.
func inWorld(t *testing.T) {
	t.Helper()
	t.Setenv("VSETRAIN_CUDA_DRIVER", "/nowhere/libcuda.so.1")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Chdir(t.TempDir())
	saying(t, "data synth w --train 24 --dev 8 --test 20 --regions 2 --dim 16")
	saying(t, trainSmall+"data.dir=w --run runs/a")
}

const trainSmall = "train --set model.embed_dim=8 --set model.word_dim=4 --set train.batch=20 --set train.epochs=1 --set "

// messages are command lines with their exit code and parts of what they print, in the folder HERE.
const messages = `
help config shwo
	2 unknown command "shwo" for vsetrain config; did you mean show?
help train now
	2 unknown command "now" for vsetrain train
config get
	2 it has list, schema, show | see vsetrain config --help
sweep plan --config dmo
	2 dmo: no such sweep file; did you mean demo?
sweep plan --config nothing.yaml
	2 or one of the program: 
train
	2 data.dir is empty | --set data.dir=
train --config demoo
	2 did you mean the preset demo?
train -c run.yaml --run r --set train.init_from=no.pth
	1 train.init_from: checkpoint no.pth: no such file | HERE
train -c run.yaml --run r --set train.init_from=runs/aa
	1 did you mean runs/a?
train -c run.yaml --run run.yaml/x
	1 create run.yaml/x:  | --run DIR
config show --set loss.name=lshe
	2 found "lshe"; did you mean lseh?
config show --set model.name=vsrn2
	2 did you mean model.network?
config show -c tab.yaml
	2 tab.yaml:2:  | not tabs | tab.yaml:4: loss.margn | did you mean margin?
config show -c windows.yaml
	2 windows.yaml:1:13:  | single quotes
verify nosuch
	1 nosuch: no such file or directory in HERE | expected a run, a data set or a file
report runs/aa
	1 no such file or directory | did you mean runs/a?
report runz/a
	1 there is no runz | did you mean runs/a?
eval w/test_ims.npy
	1 expected floats of shape [images, captions], found float32 | features of images
eval runs/a runs/a
	0 warning:  | is that network; leave one out
eval runs/a runs/a/checkpoints/best.safetensors --batch 8
	0 warning:  | leave one out
eval runs/a --protocol 1k
	1 protocol 1k needs 1000 images, the split has 20
eval runs/a/checkpoints/best.safetensors --data large --vocab runs/a/vocab.json --protocol 1k
	1 split testall of large, which has 1000: --split testall
eval runs/ab
	1 checkpoint runs/ab: no such file or directory | did you mean runs/a?
data check nosuch
	1 nosuch: no such file or directory in HERE | train_caps.txt
data extract --model a.pt --images w --out o --split test
	1 expected FILE.onnx with its description FILE.yaml | scripts/
data extract --model r.onnx --images w --out o --split test
	1 r.onnx: no such file or directory in HERE | expected FILE.onnx | scripts/
data convert x.h5 --out o
	1 x.h5: no such file or directory in HERE
import nosuch.pth
	1 checkpoint nosuch.pth: no such file or directory in HERE
serve runs/aa
	1 did you mean runs/a?
serve runs/a --listen 18432
	2 found "18432"; did you mean 127.0.0.1:18432?
view runs --listen localhost:66000
	2 --listen: expected HOST:PORT
search runs/a []
	2 expected a query of words, found ""
search runs/a [  ]
	2 expected a query of words
eval runs/a/checkpoints/best.safetensors --data w --vocab no.json
	1 no.json: no such file or directory
`

// messageTable takes messages apart: command lines, and below them, indented, what belongs to them between bars.
func messageTable(text string) map[string][]string {
	table, line := map[string][]string{}, ""
	for l := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		want, below := strings.CutPrefix(l, "\t")
		switch {
		case !below:
			line = l
		case table[line] == nil:
			code, rest, _ := strings.Cut(want, " ")
			table[line] = append([]string{code}, strings.Split(strings.TrimSuffix(rest, " |"), " | ")...)
		default:
			table[line] = append(table[line], strings.Split(strings.TrimSuffix(want, " |"), " | ")...)
		}
	}
	return table
}

// ofThePlatform is what messages leave out: names of system calls and types.
var ofThePlatform = regexp.MustCompile(`\b(lstat|stat|open) \S+: no such|<f4|goroutine`)

// TestMessages holds exit codes and what messages say: what was expected, what was found, where, and what helps.
// Blanks in brackets are one argument.
func TestMessages(t *testing.T) {
	inWorld(t)
	saying(t, "data synth large --train 4 --dev 4 --test 20 --testall 1000 --regions 2 --dim 16")
	write := func(file, text string) { try.Do(t, os.WriteFile(file, []byte(text), 0o644)) }
	write("tab.yaml", "data:\n\tdir: w\nloss:\n  margn: 0.2\n")
	write("windows.yaml", `data: {dir: "C:\new\table"}`)
	write("run.yaml", "data: {dir: w}\n")
	here := try.Get(os.Getwd())(t)
	for line, want := range messageTable(strings.ReplaceAll(messages, "HERE", here)) {
		command, blank, _ := strings.Cut(line, " [")
		var words []string
		if command != line {
			words = []string{strings.TrimSuffix(blank, "]")}
		}
		code, out := say(command, words...)
		if fmt.Sprint(code) != want[0] {
			t.Errorf("%s: exit code %d, want %s: %s", line, code, want[0], out)
		}
		text := strings.Join(strings.Fields(out), " ")
		for _, w := range want[1:] {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q lacks %q", line, text, w)
			}
		}
		if found := ofThePlatform.FindString(text); found != "" {
			t.Errorf("%s: %q has %q", line, text, found)
		}
	}
}

// Every command ends with 2 for a flag that it has not and for a misspelt subcommand, and tells where to read more; the
// name that was meant is proposed.
func TestUsageOfEveryCommand(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	count := 0
	for _, c := range commands() {
		parent, name := c.Parent().CommandPath(), c.Name()
		i := r.IntN(max(1, len(name)-1))
		other := name[:i] + name[i+1:i+2] + name[i:i+1] + name[i+2:]
		if path := strings.TrimPrefix(parent, "vsetrain"); other != name {
			for _, line := range []string{path + " " + other, "help" + path + " " + other} {
				code, out := say(line)
				if code != exitUsage || !strings.Contains(out, "did you mean ") ||
					!strings.Contains(out, "see "+parent+" --help") {
					t.Errorf("%s: %d, %s", line, code, out)
				}
			}
			count++
		}
		_, path, _ := strings.Cut(c.CommandPath(), " ")
		if code, out := say(path + " --no-such-flag"); code != exitUsage || !strings.Contains(out, "--help") {
			t.Errorf("%s --no-such-flag: %d, %s", path, code, out)
		}
	}
	if count < 40 {
		t.Errorf("%d commands", count)
	}
}

// A run whose loss never came out of its warm-up is told so before its first step, and is not listed under that loss;
// once it was trained for longer it is. Dry runs, the configuration and plans of sweeps tell the same.
func TestLossThatNeverActs(t *testing.T) {
	inWorld(t)
	const told = "loss.warmup_epochs: expected less than 2, the epochs of the run, found 3; loss lmh never acts"
	text := "data: {dir: w}\nmodel: {embed_dim: 8, word_dim: 4}\nloss: {warmup_epochs: 3}\n" +
		"train: {epochs: 2, batch: 20}\n"
	try.Do(t, os.WriteFile("c.yaml", []byte(text), 0o644))
	try.Do(t, os.WriteFile("s.yaml", []byte("base: c.yaml\naxes: [{param: optim.lr, values: [1e-3, 1e-4]}]\n"), 0o644))
	for _, c := range []struct {
		line  string
		words []string
	}{
		{"config show -c c.yaml", []string{told}},
		{"train -c c.yaml --dry-run", []string{told}},
		{"sweep plan --config s.yaml", []string{"2 of 2 trials: " + told}},
		{"train -c c.yaml --run runs/b", []string{told}},
		{"report runs/b", []string{"LMH α=0.2 (warm-up only)", "b: " + told}},
		{"eval runs/b --json -", []string{`"loss":"lmh (warm-up only)"`}},
	} {
		text := saying(t, c.line)
		for _, w := range c.words {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q lacks %q", c.line, text, w)
			}
		}
		if at := strings.Index(text, "M-Recall"); c.words[0] == told && strings.HasSuffix(c.line, "--run runs/b") &&
			(at < 0 || strings.Index(text, told) > at) {
			t.Errorf("%s: told after the first validation: %s", c.line, text)
		}
	}
	saying(t, "export runs/b --hub hub")
	card := string(try.Get(os.ReadFile(filepath.Join("hub", "README.md")))(t))
	if !strings.Contains(card, "trained with LMH α=0.2 (warm-up only)") || strings.Contains(card, "- lmh\n") {
		t.Errorf("the card says %s", card)
	}
	saying(t, "train -c c.yaml --run runs/b --resume --set train.epochs=5")
	if text := saying(t, "report runs/b"); !strings.Contains(text, "LMH α=0.2 ") || !strings.Contains(text, "5.0") ||
		strings.Contains(text, "warm-up") {
		t.Errorf("a run that was trained for longer: %s", text)
	}
}
