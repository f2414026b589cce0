package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/data/convert"
)

// parse carries out a command line up to its check and returns the fields of its options, by their names in lower
// case; what fails is the message.
func parse(words ...string) (fields map[string]string, failure string) {
	var errs bytes.Buffer
	fields = map[string]string{}
	a := &app{Streams: &ui.Streams{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, Err: &errs, Width: 80, Now: time.Now},
		runF: func(o command) error {
			collect(fields, "", reflect.ValueOf(o).Elem())
			return nil
		}}
	if a.run(words) != exitOK {
		return nil, errs.String()
	}
	return fields, ""
}

// collect puts the numbers, texts, switches and lists of a struct into fields.
func collect(fields map[string]string, name string, v reflect.Value) {
	if v.Type() == reflect.TypeFor[convert.Flag]() { // of one format
		own := strings.ReplaceAll(v.Field(0).String(), "-", "")
		fields[own] = fmt.Sprint(v.Field(2).Elem().Elem())
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			collect(fields, strings.TrimPrefix(name+"."+strings.ToLower(v.Type().Field(i).Name), "."), v.Field(i))
		}
	case reflect.Slice:
		fields[name] = fmt.Sprint(v)
		for i := range v.Len() {
			x := reflect.Indirect(v.Index(i))
			if x.Type() == reflect.TypeFor[convert.Format]() || x.Type() == reflect.TypeFor[convert.Flag]() {
				fields[name] = ""
				collect(fields, "", x)
			}
		}
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64, reflect.Array:
		fields[name] = fmt.Sprint(v)
	}
}

// needed are the arguments and flags that a command does not run without.
var needed = map[string]string{"average": "a b", "data check": "d", "data convert": "s.tsv --out o",
	"data extract": "--model m.onnx --images i --out o", "data noise": "d", "data synth": "d",
	"data vocab": "d", "data fold": "d --split s --out o", "data remove": "--data d --split s id",
	"embed": "run --of images --out o.npy", "eval": "run", "export": "run", "import": "p.pth",
	"launch slurm": "train demo", "launch kubernetes": "--image i train demo", "man": "--dir m",
	"mine":            "run --out o.npy",
	"precompute-bert": "--data d --bert b", "precompute-svd": "--data d", "report": "run",
	"search": "--checkpoint run dog",
	"serve":  "run", "sweep trial": "d", "track": "run", "verify": "runs", "view": "runs"}

// valued are the values of flags that do not take any text: a choice, a list of numbers, what another flag has to
// allow; "-" leaves a flag to the tests of its command.
var valued = map[string]string{"--device": "cpu", "--precision": "bf16", "--protocol": "5k", "--log": "json",
	"report --format": "latex", "embed --out": "x.safetensors", "--primary": "t2i_r1@dev", "--after": "3",
	"mine --rho": "0.5", "export --out": "x.pth",
	"report --judgements": "x.json --test", "report --diagnose": "true --test", "export --vocab": "v --onnx o",
	"export --recalls": "r --hub h", "export --license": "l --hub h",
	"embed --of": "captions", "embed --texts": "-", "embed --checkpoint": "-", "serve --token-file": "-",
	"report --images": "..", "selftest --family": "Gemm", "selftest --variant": "fp64 --device cpu",
	"selftest --plant": "-", "serve --max-body": "7", "serve --window": "1ms", "serve --allow-origin": "http://x",
	"serve --openapi":      "-",
	"--captions-per-image": "test=7",
	"search --image":       "-", "search --extractor": "-", "eval --compare": "-",
	"eval --published": "-", "quickstart --checkpoint": "r d --extractor=m", "quickstart --extractor": "m d"}

// fieldOf are the fields of flags that bear another name; two where the check derives one from the other.
var fieldOf = map[string]string{"--config": "file", "--device": "kind",
	"--captions-per-image": "perimage", "--gpu": "index", "--cache": "dir",
	"--no-cache": "off", "--hub": "dir", "--checkpoint": "checkpoints", "embed --checkpoint": "checkpoint",
	"quickstart --checkpoint": "checkpoint", "--allow-origin": "origins",
	"doctor --gpu":  "gpu",
	"--feature-dim": "feature", "--vocab-size": "vocab", "--boxes-key": "boxes", "--features-key": "features",
	"--sizes-key": "sizes", "data convert --split": "splits", "data synth --captions": "captionsperimage",
	"--family": "families", "--variant": "variants", "--allow-host": "hosts", "data remove --ids": "file",
	"data remove --data": "dir", "--log": "logformat json",
	"--shortlist-size": "depth", "serve --split": "split splits"}

// TestFlags sets every flag of every command to a value that it does not have, and sees that this value reaches the
// field of the options that bears the name of the flag, and no other.
func TestFlags(t *testing.T) {
	flags := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			visit(sub)
		}
		path := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), "vsetrain"), " ")
		if c.HasSubCommands() || path == "help" || strings.HasPrefix(path, "completion") || path == "config schema" {
			return
		}
		base := append(strings.Fields(path), strings.Fields(needed[path])...)
		before, failure := parse(base...)
		if failure != "" {
			t.Errorf("%v: %s", base, failure)
			return
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			of := func(table map[string]string, otherwise string) string {
				return cmp.Or(table[path+" --"+f.Name], table["--"+f.Name], otherwise)
			}
			value := of(valued, another(f))
			if f.Name == "help" || value == "-" {
				return
			}
			words := strings.Fields(value)
			line := slices.Concat(base, []string{"--" + f.Name + "=" + words[0]}, words[1:])
			after, failure := parse(line...)
			if failure != "" {
				t.Errorf("%v: %s", line, failure)
				return
			}
			flags++
			wanted := strings.Fields(of(fieldOf, strings.ReplaceAll(f.Name, "-", "")))
			reached := false
			for _, field := range slices.Sorted(maps.Keys(after)) {
				if before[field] == after[field] {
					continue
				}
				name := field[strings.LastIndex(field, ".")+1:]
				if name == wanted[0] && strings.Contains(after[field], words[0]) {
					reached = true
				} else if len(words) == 1 && !slices.Contains(wanted, name) {
					t.Errorf("%v changes %s from %q to %q", line, field, before[field], after[field])
				}
			}
			if !reached {
				t.Errorf("%v does not reach the field %s", line, wanted[0])
			}
		})
	}
	visit(newTestRoot())
	if flags < 150 {
		t.Errorf("only %d flags were tried", flags)
	}
}

// another is a value of a flag that is not its default.
func another(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return map[string]string{"false": "true", "true": "false"}[f.DefValue]
	case "int", "int64", "uint64", "float64", "intSlice":
		return "73"
	case "duration":
		return "1m13s"
	}
	return "another"
}

// TestArguments holds what the arguments of a command line become.
func TestArguments(t *testing.T) {
	for line, want := range map[string]string{
		"eval a b.npy c --scores d.npy":             "request.checkpoints=[a c]; request.scores=[d.npy b.npy]",
		"eval --checkpoint a b --batch 3":           "request.checkpoints=[a b]; request.batch=3",
		"eval --published saf-coco f.pth":           "request.checkpoints=[f.pth]; request.split=testall",
		"eval --published vsrn-f30k f g":            "request.checkpoints=[f g]; request.split=test",
		"eval --published sgr-coco f --split s":     "request.split=s; publishedoptions.published=true",
		"search --checkpoint r two dogs":            "retrievalflags.checkpoints=[r]; query=two dogs",
		"search --checkpoint r -":                   "query=-",
		"launch slurm --nodes 3 -- train demo -c x": "launchoptions.train=[train demo -c x]; launchoptions.nodes=3",
		"train demo --seeds 7,8":                    "configflags.file=demo; seeds=7,8",
		"train -c demo --set a.b=1 --set c.d=2":     "configflags.file=demo; configflags.set=[a.b=1 c.d=2]",
		"config list gsmn lseh":                     "words=[gsmn lseh]",
		"data convert a.tsv b.tsv --out o":          "options.sources=[a.tsv b.tsv]",
		"data synth d --dtype f16":                  "dir=d; dtype=f16",
		"data noise d --rule images --out o":        "dir=d; rule=images; out=o",
		"data vocab d --splits train,test":          "dir=d; splits=[train test]",
		"report A=a b --attention 3 --query 2":      "runs=[A=a b]; attention=[3]; query=2",
		"average a b c":                             "averagerequest.checkpoints=[a b c]",
		"sweep run --config s.yaml --workers 2":     "sweepflags.file=s.yaml; workers=2",
		"import p.pth":                              "source.checkpoint=p.pth",
		"embed run --of images --out o.npy":         "checkpoint=run; of=images",
		"serve a b --split dev,test --log none":     "retrieval.checkpoints=[a b]; options.splits=[dev test]",
		"verify --record a b":                       "paths=[a b]; record=true",
		"track r --mlflow http://127.0.0.1:5000":    "runs=[r]; options.mlflow=http://127.0.0.1:5000",
	} {
		fields, failure := parse(strings.Fields(line)...)
		if failure != "" {
			t.Errorf("%s: %s", line, failure)
			continue
		}
		for _, w := range strings.Split(want, "; ") {
			if name, value, _ := strings.Cut(w, "="); fields[name] != value {
				t.Errorf("%s: %s is %q, want %q", line, name, fields[name], value)
			}
		}
	}
	for line, want := range map[string]string{
		"eval":                            "expected a run directory or a checkpoint",
		"eval --compare a":                "expected two arguments",
		"eval a --batch 0":                "--batch: expected a whole number of at least 1, found 0",
		"eval a --protocol 6k":            "--protocol",
		"eval a --device tpu":             "--device",
		"search --checkpoint r":           "expected a query",
		"search dog":                      "which network",
		"search --checkpoint r dog --k 0": "--k: expected a whole number of at least 1",
		"export r --onnx d --out f":       "exclude each other",
		"export r --vocab v":              "add --onnx DIR",
		"average a":                       "expected two checkpoints or more",
		"report":                          "at least one run directory",
		"report r --primary t2i_r1@test":  "add --test",
		"serve r --queue 0":               "--queue: expected more than 0",
		"data check":                      "expected one argument, DIR, found 0",
		"train a b":                       "found",
		"verify":                          "expected a run, a data set or a file",
		"launch kubernetes --image i":     "expected the command line of train behind --",
	} {
		if _, failure := parse(strings.Fields(line)...); !strings.Contains(failure, want) {
			t.Errorf("%s: %q, want %q", line, failure, want)
		}
	}
}
