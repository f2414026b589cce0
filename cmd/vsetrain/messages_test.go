package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/lab/try"
)

// say carries out a command line in this process and returns its exit code and what it wrote.
func say(words ...string) (code int, out string) {
	var all bytes.Buffer
	a := &app{Environ: os.Environ(),
		Streams: &ui.Streams{In: &bytes.Buffer{}, Out: &all, Err: &all, Width: 80, Now: time.Now}}
	code = a.run(words)
	return code, all.String()
}

// inWorld changes into a folder with the data sets w and w-large, whose test splits have 20 images, and a run.
func inWorld(t *testing.T) {
	t.Helper()
	t.Setenv("VSETRAIN_CUDA_DRIVER", "/nowhere/libcuda.so.1")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Chdir(t.TempDir())
	for _, line := range []string{"data synth w --train 24 --dev 8 --test 20 --regions 2 --dim 16",
		"train --set data.dir=w --set model.embed_dim=8 --set model.word_dim=4 --set train.batch=20 --set " +
			"train.epochs=1 --run runs/a"} {
		if code, out := say(strings.Fields(line)...); code != exitOK {
			t.Fatalf("%s: %s", line, out)
		}
	}
}

// messages are command lines with their exit code and parts of what they print, in the folder HERE.
const messages = `
help trian
	2 unknown command "trian" for vsetrain; did you mean train?
help config shwo
	2 unknown command "shwo" for vsetrain config; did you mean show?
help train now
	2 unknown command "now" for vsetrain train
help train
	0
help config list
	0
trian
	2 did you mean train?
config shwo
	2 did you mean show? | see vsetrain config --help
config get
	2 it has list, schema, show | see vsetrain config --help
launch slrum --nodes 2
	2 did you mean slurm? | see vsetrain launch --help
data chekc w
	2 did you mean check?
sweep plan --config dmo
	2 dmo: no such sweep file; did you mean demo?
sweep plan --config nothing.yaml
	2 or one of the program: 
train
	2 data.dir is empty | --set data.dir=
train --config demoo
	2 did you mean the preset demo?
train -c run.yaml --set device.kind=cuda
	2 device.kind cuda:  | set device.kind to auto or cpu
train -c run.yaml --set model.network=gsmn --set model.text_encoder=bigru --set model.embed_dim=20
	2 model.embed_dim: expected a multiple of 16 for network gsmn, found 20
train -c run.yaml --procs 99 --set train.batch=20
	2 99 ranks, but train.batch is 20
train -c run.yaml --overfit 99
	2 train.overfit is 99
train -c run.yaml --run r --set train.init_from=no.pth
	1 train.init_from: checkpoint no.pth: no such file | HERE
train -c run.yaml --run r --set train.init_from=runs/aa
	1 did you mean runs/a?
train -c run.yaml --run run.yaml/x
	1 create run.yaml/x:  | --run DIR
config list foo
	2 no preset matches
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
report runs/a --base b
	2 one of the runs (a)
eval w/test_ims.npy
	1 expected floats of shape [images, captions], found float32 | features of images
eval runs/a runs/a
	0 warning:  | is that network; leave one out
eval runs/a runs/a/checkpoints/best.safetensors --batch 8
	0 warning:  | leave one out
eval runs/a --protocol 1k
	1 protocol 1k needs 1000 images, the split has 20
eval runs/ab
	1 checkpoint runs/ab: no such file or directory | did you mean runs/a?
data check nosuch
	1 nosuch: no such file or directory in HERE | train_caps.txt
quickstart nosuchdir
	1 nosuchdir: no such file or directory in HERE | name a data set or a folder of pictures
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
serve runs/a --listen 0.0.0.0:0
	2 --listen 0.0.0.0:0 is not the loopback address | --token-file
serve runs/a --listen 18432
	2 found "18432"; did you mean 127.0.0.1:18432?
view runs --listen localhost
	2 --listen: expected HOST:PORT, such as 127.0.0.1:8420, found "localhost"
view runs --listen localhost:66000
	2 --listen: expected HOST:PORT
view runs --allow-host a:80
	2 --allow-host "a:80": expected a name without port
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
// Words in brackets are one argument; [] is an empty one.
func TestMessages(t *testing.T) {
	inWorld(t)
	write := func(file, text string) { try.Do(t, os.WriteFile(file, []byte(text), 0o644)) }
	write("tab.yaml", "data:\n\tdir: w\nloss:\n  margn: 0.2\n")
	write("windows.yaml", `data: {dir: "C:\new\table"}`)
	write("run.yaml", "data: {dir: w}\n")
	here := try.Get(os.Getwd())(t)
	for line, want := range messageTable(strings.ReplaceAll(messages, "HERE", here)) {
		var words []string
		for w := range strings.SplitSeq(line, " ") {
			switch {
			case w == "[":
				words = append(words, " ")
			case w != "]" && w != "":
				words = append(words, strings.Trim(w, "[]"))
			}
		}
		code, out := say(words...)
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
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())[1:]
		for _, sub := range c.Commands() {
			if !sub.IsAvailableCommand() || sub.Name() == "help" {
				continue
			}
			visit(sub)
			name := sub.Name()
			if len(name) < 3 {
				continue
			}
			i := r.IntN(len(name) - 1)
			other := name[:i] + name[i+1:i+2] + name[i:i+1] + name[i+2:]
			if other == name {
				continue
			}
			for _, words := range [][]string{append(path, other), append(append([]string{"help"}, path...), other)} {
				code, out := say(words...)
				if code != exitUsage || !strings.Contains(out, "did you mean ") ||
					!strings.Contains(out, "see "+c.CommandPath()+" --help") {
					t.Errorf("%s: %d, %s", words, code, out)
				}
			}
			count++
		}
		if c.HasSubCommands() {
			return
		}
		if code, out := say(append(path, "--no-such-flag")...); code != exitUsage || !strings.Contains(out, "--help") {
			t.Errorf("%s --no-such-flag: %d, %s", path, code, out)
		}
	}
	visit(newTestRoot())
	if count < 40 {
		t.Errorf("%d commands", count)
	}
}

// A split that is too small for a protocol is refused before the work, with the name of one that is large enough.
func TestProtocolNamesALargerSplit(t *testing.T) {
	inWorld(t)
	if code, out := say("data", "synth", "large", "--train", "4", "--dev", "4", "--test", "20", "--testall", "1000",
		"--regions", "2", "--dim", "16"); code != exitOK {
		t.Fatal(out)
	}
	try.Do(t, os.Rename(filepath.Join("runs", "a", "vocab.json"), filepath.Join("large", "vocab.json")))
	code, out := say("eval", "runs/a/checkpoints/best.safetensors", "--data", "large", "--protocol", "1k")
	if text := strings.Join(strings.Fields(out), " "); code != exitFailure ||
		!strings.Contains(text, "split testall of large, which has 1000: --split testall") {
		t.Errorf("%d, %s", code, text)
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
		{"export runs/b --hub hub", nil},
		{"train -c c.yaml --run runs/b --resume --set train.epochs=5", []string{"resumed after step"}},
		{"report runs/b", []string{"LMH α=0.2 ", "5.0"}},
	} {
		code, out := say(strings.Fields(c.line)...)
		text := strings.Join(strings.Fields(out), " ")
		if code != exitOK {
			t.Errorf("%s: %s", c.line, out)
		}
		for _, w := range c.words {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q lacks %q", c.line, text, w)
			}
		}
		if at := strings.Index(out, "M-Recall"); strings.Contains(c.line, "--run runs/b") && len(c.words) > 0 &&
			c.words[0] == told && (at < 0 || strings.Index(out, "loss.warmup_epochs") > at) {
			t.Errorf("%s: told after the first validation: %s", c.line, out)
		}
		if strings.Contains(c.line, "hub") {
			card := string(try.Get(os.ReadFile(filepath.Join("hub", "README.md")))(t))
			if !strings.Contains(card, "trained with LMH α=0.2 (warm-up only)") || strings.Contains(card, "- lmh\n") {
				t.Errorf("the card says %s", card)
			}
		}
	}
	if _, out := say("report", "runs/b"); strings.Contains(out, "warm-up") {
		t.Errorf("a run that was trained for longer: %s", out)
	}
}
