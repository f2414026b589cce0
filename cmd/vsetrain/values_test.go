package main

import (
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

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
	flag := func(field string, words ...string) (uint64, error) {
		fields, failure := parse(words...)
		if failure != "" {
			return 0, errors.New(failure)
		}
		return strconv.ParseUint(strings.Trim(strings.TrimPrefix(fields[field], "[999999"), " ]"), 10, 64)
	}
	return map[string]func(string) (uint64, error){
		"--set":    func(s string) (uint64, error) { return load(config.Request{Set: []string{"seed=" + s}}) },
		"variable": func(s string) (uint64, error) { return load(config.Request{Env: []string{"VSETRAIN_SEED=" + s}}) },
		"YAML": func(s string) (uint64, error) {
			return load(config.Request{File: write("c.yaml", "seed: "+s+"\n")})
		},
		"a list of a flag": func(s string) (uint64, error) { return flag("seeds", "train", "--seeds=999999,"+s) },
		"a list of a sweep": func(s string) (uint64, error) {
			d, err := sweep.Load(write("s.yaml", "base: demo\nseeds: [999999, "+s+"]\n"))
			if err != nil {
				return 0, err
			}
			return d.Seeds[1], nil
		},
		"a flag": func(s string) (uint64, error) { return flag("world.seed", "data", "synth", "x", "--seed="+s) },
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
	try.Do(t, os.WriteFile("bad.yaml", []byte("sed: 7\n"), 0o666))
	try.Do(t, os.Mkdir("folder", 0o777))
	for want, lines := range map[int]string{
		exitOK: `
			version; config list; config show; help train; data; ; sweep plan --config demo;
			launch slurm -- train --config demo --run runs/x`,
		exitUsage: `
			nothing; --nothing; help trian; data nothing; version x; completion nothing; help data nothing; train;
			train -c demoo; train -c bad.yaml; train --set sed=7; train --quiet --verbose -c demo;
			train -c demo --procs 0; train -c demo --seeds 010; train -c folder; train --set run.dir=${HOME}/x;
			lr-range; sweep plan --config dmo; sweep run --config dmo; sweep status --config dmo;
			sweep collect --config dmo; sweep worker --config dmo; sweep plan --config bad.yaml; config list nothing;
			config show nothing; config show --set seed=08; serve; serve r --listen 18432; serve r --max-k 0;
			serve r --timeout 5; view; view folder --listen 18432; eval; eval r --protocol nothing; eval r --batch 010;
			search; search r; search r dog --k 0; embed; embed r --of nothing --out x.npy; report --format nothing;
			bench -c nothing; mine r --rho 2 --out m.safetensors; export; import; average a; track; verify; man;
			selftest --family nothing; data synth; data synth w --train 010; data convert; data extract; data fold;
			data remove; data noise; data noise w --fraction 2 --out n.npy; data check a b; precompute-svd --k 0;
			precompute-bert; launch slurm; launch slurm --nodes 0 -- train --config demo;
			launch slurm -- train --nothing; launch kubernetes -- train demo; quickstart a b`,
		exitFailure: `
			train --set data.dir=nothing; train --resume --run nothing; eval nothing; search nothing/run dog;
			embed nothing --of images --out x.npy; report nothing; export nothing; import nothing.pth;
			average a b --out c.safetensors; track nothing; verify nothing; data check nothing; data vocab nothing;
			data noise nothing --out n.npy; data fold nothing --split test --out y;
			data remove --data nothing --split test --ids a; precompute-svd --data nothing;
			mine nothing --out m.safetensors; serve nothing; view nothing; data convert nothing.tsv --out y;
			quickstart nothing`,
	} {
		for line := range strings.SplitSeq(lines, ";") {
			if got, out := say(line); got != want {
				t.Errorf("vsetrain %s: exit code %d, want %d: %.200s", strings.TrimSpace(line), got, want, out)
			}
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
