package main

import (
	"bytes"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/apps/sweep"
	"vsetrain/internal/run/config"
	"vsetrain/lab/try"
)

// wholeNumber is what a whole number looks like: an independent reading of it.
var wholeNumber = regexp.MustCompile(`^(0|[1-9](_?[0-9])*|0[xX](_?[0-9a-fA-F])+|0[oO](_?[0-7])+|0[bB](_?[01])+)$`)

// meant is the number that a text is, nil where it is none or has to be refused.
func meant(text string) *big.Int {
	if !wholeNumber.MatchString(text) {
		return nil
	}
	n, _ := new(big.Int).SetString(strings.ReplaceAll(text, "_", ""), 0)
	return n
}

// drawNumber draws digits as people and hostile testers write them.
func drawNumber(rng *rand.Rand) string {
	prefix := []string{"", "", "", "0", "00", "0x", "0o", "0b", "0_", "0X", "1_", "_"}[rng.IntN(12)]
	digits := make([]byte, 1+rng.IntN(5))
	for i := range digits {
		digits[i] = "0123456789_01"[rng.IntN(13)]
	}
	return prefix + string(digits) + []string{"", "", "", "", "", ".0", "e1", " 1", "x"}[rng.IntN(9)]
}

// doors are the ways by which a seed comes in; each returns the number that it takes.
func doors(t *testing.T) map[string]func(text string) (uint64, error) {
	dir := t.TempDir()
	load := func(r config.Request) (uint64, error) {
		c, err := config.Load(r)
		if err != nil {
			return 0, err
		}
		return c.Seed, nil
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		try.Do(t, os.WriteFile(path, []byte(text), 0o666))
		return path
	}
	flags := func(args ...string) (got command, err error) {
		root := newCmdRoot(&app{Streams: &ui.Streams{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, Err: &bytes.Buffer{},
			Width: 80,
			Now:   time.Now}, runF: func(c command) error { got = c; return nil }})
		root.SetArgs(args)
		return got, root.Execute()
	}
	return map[string]func(string) (uint64, error){
		"--set":    func(s string) (uint64, error) { return load(config.Request{Set: []string{"seed=" + s}}) },
		"variable": func(s string) (uint64, error) { return load(config.Request{Env: []string{"VSETRAIN_SEED=" + s}}) },
		"YAML": func(s string) (uint64, error) {
			return load(config.Request{File: write("c.yaml", "seed: "+s+"\n")})
		},
		"a flag": func(s string) (uint64, error) {
			c, err := flags("data", "synth", "x", "--seed="+s)
			if err != nil {
				return 0, err
			}
			return c.(*dataSynthOptions).World.Seed, nil
		},
		"a list of a flag": func(s string) (uint64, error) {
			c, err := flags("train", "--seeds=999999,"+s)
			if err != nil {
				return 0, err
			}
			return c.(*trainOptions).Seeds[1], nil
		},
		"a list of a sweep": func(s string) (uint64, error) {
			d, err := sweep.Load(write("s.yaml", "base: demo\nseeds: [999999, "+s+"]\n"))
			if err != nil {
				return 0, err
			}
			return d.Seeds[1], nil
		},
		"an axis": func(s string) (uint64, error) {
			d, err := sweep.Load(write("s.yaml", "base: demo\nmethod: random\ntrials: "+s+
				"\naxes: [{param: optim.lr, values: [1e-3, 1e-4]}]\n"))
			if err != nil {
				return 0, err
			}
			return uint64(d.Trials), nil
		},
	}
}

// Every door reads a number as it is written, or refuses it; a leading zero is named, with what to write.
func TestNumbersThroughEveryDoor(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 1))
	all := doors(t)
	taken, zeros := 0, 0
	for range 120 {
		text := drawNumber(rng)
		want := meant(text)
		for name, read := range all {
			got, err := read(text)
			switch {
			case want == nil && err == nil:
				t.Errorf("%s: %q is read as %d", name, text, got)
			case want != nil && err == nil && got != want.Uint64():
				t.Errorf("%s: %q is read as %d, want %v", name, text, got, want)
			case want != nil && err != nil && want.Sign() > 0 && want.Cmp(big.NewInt(1000)) < 0:
				t.Errorf("%s: %q: %v", name, text, err)
			case want != nil && err == nil:
				taken++
			}
			if n, bad := strconv.Atoi(text); bad == nil && len(text) > 1 && text[0] == '0' && err != nil {
				if zeros++; !strings.Contains(err.Error(), fmt.Sprintf("%s has a leading zero: write %d", text, n)) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
	if taken < 150 || zeros < 90 {
		t.Errorf("only %d numbers were taken, %d leading zeros refused", taken, zeros)
	}
}

// All commands end with the codes of docs/faq.md: 2 for a command line or configuration that is wrong, 1 for files that
// are missing or cannot be used.
func TestExitCodes(t *testing.T) {
	t.Chdir(t.TempDir())
	try.Do(t, os.WriteFile("empty.yaml", nil, 0o666))
	try.Do(t, os.WriteFile("bad.yaml", []byte("sed: 7\n"), 0o666))
	try.Do(t, os.Mkdir("folder", 0o777))
	codes := map[string]int{
		"version": 0, "config list": 0, "config show": 0, "help train": 0, "data": 0, "": 0,
		"sweep plan --config demo": 0, "launch slurm -- train --config demo --run runs/x": 0,

		"nothing": exitUsage, "--nothing": exitUsage, "help trian": exitUsage, "data nothing": exitUsage,
		"version x":          exitUsage,
		"completion nothing": exitUsage, "help data nothing": exitUsage,
		"train":                           exitUsage,
		"train -c demoo":                  exitUsage,
		"train -c bad.yaml":               exitUsage,
		"train --set sed=7":               exitUsage,
		"train --quiet --verbose -c demo": exitUsage, "train -c demo --procs 0": exitUsage,
		"train -c demo --seeds 010": exitUsage,
		"train -c folder":           exitUsage, "train --set run.dir=${HOME}/x": exitUsage, "lr-range": exitUsage,
		"sweep plan --config dmo": exitUsage, "sweep run --config dmo": exitUsage,
		"sweep status --config dmo":  exitUsage,
		"sweep collect --config dmo": exitUsage, "sweep worker --config dmo": exitUsage,
		"sweep plan --config bad.yaml": exitUsage,
		"config list nothing":          exitUsage,
		"config show nothing":          exitUsage,
		"config show --set seed=08":    exitUsage,
		"serve":                        exitUsage,
		"serve r --listen 18432":       exitUsage,
		"serve r --max-k 0":            exitUsage,
		"serve r --timeout 5":          exitUsage,
		"view":                         exitUsage, "view folder --listen 18432": exitUsage, "eval": exitUsage,
		"eval r --protocol nothing":        exitUsage,
		"eval r --batch 010":               exitUsage,
		"search":                           exitUsage,
		"search r":                         exitUsage,
		"search r dog --k 0":               exitUsage,
		"embed":                            exitUsage,
		"embed r --of nothing --out x.npy": exitUsage,
		"report --format nothing":          exitUsage,
		"bench -c nothing":                 exitUsage, "mine r --rho 2 --out m.safetensors": exitUsage,
		"export":    exitUsage,
		"import":    exitUsage,
		"average a": exitUsage, "track": exitUsage, "verify": exitUsage, "man": exitUsage,
		"selftest --family nothing": exitUsage,
		"data synth":                exitUsage, "data synth w --train 010": exitUsage,
		"data convert": exitUsage, "data extract": exitUsage, "data fold": exitUsage, "data remove": exitUsage,
		"data noise": exitUsage, "data noise w --fraction 2 --out n.npy": exitUsage, "data check a b": exitUsage,
		"precompute-svd --k 0": exitUsage, "precompute-bert": exitUsage, "launch slurm": exitUsage,
		"launch slurm --nodes 0 -- train --config demo": exitUsage, "launch slurm -- train --nothing": exitUsage,
		"launch kubernetes -- train demo": exitUsage, "quickstart a b": exitUsage,

		"train --set data.dir=nothing": exitFailure, "train --resume --run nothing": exitFailure,
		"eval nothing":           exitFailure,
		"search nothing/run dog": exitFailure, "embed nothing --of images --out x.npy": exitFailure,
		"report nothing": exitFailure,
		"export nothing": exitFailure, "import nothing.pth": exitFailure,
		"average a b --out c.safetensors": exitFailure, "track nothing": exitFailure,
		"verify nothing": exitFailure, "data check nothing": exitFailure, "data vocab nothing": exitFailure,
		"data noise nothing --out n.npy": exitFailure, "data fold nothing --split test --out y": exitFailure,
		"data remove --data nothing --split test --ids a": exitFailure,
		"precompute-svd --data nothing":                   exitFailure,
		"mine nothing --out m.safetensors":                exitFailure,
		"serve nothing":                                   exitFailure,
		"view nothing":                                    exitFailure,
		"data convert nothing.tsv --out y":                exitFailure, "quickstart nothing": exitFailure,
	}
	for line, want := range codes {
		var all bytes.Buffer
		a := &app{Streams: &ui.Streams{In: &bytes.Buffer{}, Out: &all, Err: &all, Width: 80, Now: time.Now}}
		if got := a.run(strings.Fields(line)); got != want {
			t.Errorf("vsetrain %s: exit code %d, want %d: %.200s", line, got, want, all.String())
		}
	}
}

// around matches what writes to a stream without the methods that clean text for a terminal.
var around = regexp.MustCompile(`Fprint\w*\(\w+\.(Out|Err)\b|NewEncoder\(\w+\.(Out|Err)\b|\.(Out|Err)\.Write\(`)

// Commands print by the methods of ui.Streams alone.
func TestNothingIsPrintedAround(t *testing.T) {
	for _, file := range try.Get(filepath.Glob("*.go"))(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		if m := around.Find(try.Get(os.ReadFile(file))(t)); m != nil {
			t.Errorf("%s: %s; use Printf, Print, Notef or Raw", file, m)
		}
	}
}
