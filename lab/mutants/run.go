package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"vsetrain/lab/mutants/switches"
)

// The verdicts on a mutant that no test finds, and on one that keeps a test from ending.
const (
	survived = "survived"
	timeOut  = "time runs out in "
)

// long is the time from which on the parts of a test are run one by one.
const long = 5 * time.Second

// runner builds tests with the mutants in them and runs them one by one.
type runner struct {
	dir      string // of what is built; the switches are below
	skip     *regexp.Regexp
	limit    time.Duration // CPU time for the tests of a package on one mutant
	patience time.Duration // for a test, in addition to ten times its usual time
	built    map[*goPackage][]*test
}

// test is a test that runs by itself: a function, or a part of one that takes long.
type test struct {
	pkg             *goPackage
	binary, pattern string
	took, cost      time.Duration // cost is CPU time
	reaches         []string      // numbers of switches
}

// plant writes the sources with the mutants and the overlay with which the go command reads them.
func (r *runner) plant(root string, pending map[int]*mutant) error {
	files := map[string]map[int]*mutant{}
	for i, m := range pending {
		if files[m.file] == nil {
			files[m.file] = map[int]*mutant{}
		}
		files[m.file][i] = m
	}
	replace := map[string]string{}
	for file, those := range files {
		path := filepath.Join(root, file)
		source, err := os.ReadFile(path)
		if err == nil {
			source, err = plant(source, those)
		}
		replace[path] = filepath.Join(r.dir, strconv.Itoa(len(replace))+".go")
		if err := errors.Join(err, os.WriteFile(replace[path], source, 0o600)); err != nil {
			return err
		}
	}
	table, err := json.Marshal(map[string]any{"Replace": replace})
	r.built = map[*goPackage][]*test{}
	return errors.Join(err, os.WriteFile(filepath.Join(r.dir, "overlay.json"), table, 0o600),
		os.Mkdir(filepath.Join(r.dir, "switches"), 0o700))
}

// build returns the tests of a package, the cheap ones first.
func (r *runner) build(p *goPackage) ([]*test, error) {
	if tests, ok := r.built[p]; ok || len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
		return tests, nil
	}
	binary := filepath.Join(r.dir, strings.ReplaceAll(p.ImportPath, "/", "-")+".test")
	b, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", filepath.Join(r.dir, "overlay.json"),
		"-o", binary,
		"-ldflags", "-s -w -X "+switchesPath+".dir="+filepath.Join(r.dir, "switches"), p.ImportPath).CombinedOutput()
	names := string(b)
	if err == nil {
		names, _, err = r.run(&test{pkg: p, binary: binary}, 0, time.Minute, "-test.list", "^(Test|Example|Fuzz)")
	}
	if err != nil {
		return nil, fmt.Errorf("%s with mutants: %w\n%s", p.ImportPath, err, names)
	}
	var tests []*test
	patterns := strings.Fields(names)
	for i := 0; i < len(patterns); i++ {
		t := &test{pkg: p, binary: binary, pattern: "^" + patterns[i] + "$"}
		whole := i < len(strings.Fields(names))
		if whole && r.skip.MatchString(patterns[i]) {
			continue
		}
		parts, err := r.reach(t)
		if err != nil {
			return nil, err
		}
		if whole && t.cost > long && len(parts) > 0 {
			patterns = append(patterns, parts...)
		} else {
			tests = append(tests, t)
		}
	}
	slices.SortFunc(tests, func(a, b *test) int { return cmp.Compare(a.cost, b.cost) })
	r.built[p] = tests
	return tests, nil
}

// part finds the parts of tests in their output.
var part = regexp.MustCompile(`(?m)^=== RUN +(\w+)/([^/\n]+)`)

// reach runs a test without mistakes, records the switches it reaches, and returns the patterns of its parts.
func (r *runner) reach(t *test) (parts []string, err error) {
	start := time.Now()
	out, cost, failed := r.run(t, switches.Record, 20*time.Minute, "-test.v")
	t.took, t.cost = time.Since(start), cost
	reached, err := filepath.Glob(filepath.Join(r.dir, "switches", "[0-9]*"))
	for _, path := range reached {
		t.reaches = append(t.reaches, filepath.Base(path))
		err = errors.Join(err, os.Remove(path))
	}
	if failed != nil {
		fmt.Printf("%s %s fails without a mistake and is left out\n", t.pkg.ImportPath, t.pattern)
		t.reaches = nil
	}
	for _, m := range part.FindAllStringSubmatch(out, -1) {
		if name := m[1] + "$/^" + regexp.QuoteMeta(m[2]); !slices.Contains(parts, name) {
			parts = append(parts, name)
		}
	}
	return parts, err
}

// first tells Linux to end this process before others if memory runs out. Emulated GPUs reserve more than a limit
// allows.
const first = "echo 1000 2>/dev/null >/proc/self/oom_score_adj; "

// run runs a test with a switch on and returns its output and CPU time. Processes that it started end with it, and it
// is the first to be killed if memory runs out.
func (r *runner) run(t *test, on int, limit time.Duration, flags ...string) (printed string, cost time.Duration,
	err error) {
	out, err := os.Create(filepath.Join(r.dir, "output"))
	if err != nil {
		return "", 0, err
	}
	defer out.Close()
	ctx, cancel := context.WithTimeout(context.Background(), limit+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", first + `exec "$0" "$@"`, t.binary,
		"-test.run", t.pattern, "-test.timeout", limit.String()}, flags...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.pkg.Dir, out, out
	cmd.Cancel = group(cmd)
	err = os.WriteFile(filepath.Join(r.dir, "switches", switches.File), fmt.Append(nil, on), 0o600)
	if err = errors.Join(err, cmd.Run()); cmd.Process != nil {
		_ = cmd.Cancel() // the group is gone if no process is left
	}
	if s := cmd.ProcessState; s != nil {
		cost = s.UserTime() + s.SystemTime()
	}
	b, bad := os.ReadFile(out.Name())
	return string(b), cost, errors.Join(err, bad)
}

// try switches a mutant on for the tests of a package that reach it. The verdict names the test that finds it.
func (r *runner) try(i int, p *goPackage) (verdict string, err error) {
	tests, err := r.build(p)
	spent := time.Duration(0)
	for _, t := range tests {
		if !slices.Contains(t.reaches, strconv.Itoa(i)) {
			continue
		}
		if spent += t.cost; spent > r.limit {
			break
		}
		limit := r.patience + 10*t.took
		out, _, failed := r.run(t, i, limit)
		if failed == nil {
			continue
		}
		if _, _, failed := r.run(t, 0, limit); failed != nil {
			fmt.Printf("%s %s fails without a mistake too\n", p.ImportPath, t.pattern)
			continue
		}
		verdict := "seen by "
		if strings.Contains(out, "panic: test timed out") {
			verdict = timeOut
		}
		return verdict + p.ImportPath + " " + t.pattern, nil
	}
	return survived, err
}
