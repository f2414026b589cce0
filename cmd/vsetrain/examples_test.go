package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"vsetrain/internal/run/config"
	"vsetrain/lab/try"
)

// Every command has two examples, and each of them is a command line that the command accepts, with presets that there
// are.
func TestExamples(t *testing.T) {
	count := 0
	for _, c := range append(commands(), newTestRoot()) {
		examples := examplesOf(c)
		if len(examples) < 2 {
			t.Errorf("%s --help has %d examples; expected two at least", c.CommandPath(), len(examples))
		}
		for _, e := range examples {
			count++
			if err := accepts(e); err != "" {
				t.Errorf("%s --help: example %q: %s", c.CommandPath(), e, err)
			}
			checkConfigs(t, c.CommandPath()+" --help", e)
		}
	}
	if count < 30 {
		t.Errorf("only %d examples were found", count)
	}
}

// The first example of the program is the demo that README and `make demo` run: one world, one configuration, one run
// directory.
func TestOneDemo(t *testing.T) {
	cfg := try.Get(config.Load(config.Request{Preset: "demo"}))(t)
	want := []string{"data synth " + cfg.Data.Dir, "precompute-svd --data " + cfg.Data.Dir, "train --config demo",
		"eval " + cfg.Run.Dir}
	script := try.Get(os.ReadFile("../../scripts/demo.sh"))(t)
	text := strings.NewReplacer("$data", cfg.Data.Dir, "$run", cfg.Run.Dir).Replace(string(script))
	for i, line := range examplesOf(newTestRoot()) {
		command, _, _ := strings.Cut(line, " #")
		if command = strings.TrimSpace(command); i >= len(want) || command != "vsetrain "+want[i] {
			t.Errorf("example %d is %q, want one of %q", i, command, want)
			continue
		}
		if !regexp.MustCompile(`(?m)^ *step ` + regexp.QuoteMeta(want[i]) +
			`( --run \S+| --json \S+)?$`).MatchString(text) {
			t.Errorf("scripts/demo.sh has no step %q", want[i])
		}
	}
}

var (
	configFlag = regexp.MustCompile(`(?:--config|CONFIG *\??=)[= ]?([\w/.-]+)`)
	configFile = regexp.MustCompile(`\bconfigs/[\w/.-]+\.(?:yaml|tsv)`)
)

// checkConfigs fails for every file of configs/ and every preset in a text that there is not. Placeholders are in
// capitals.
func checkConfigs(t *testing.T, where, text string) (found int) {
	t.Helper()
	for _, m := range configFlag.FindAllStringSubmatch(text, -1) {
		name := m[1]
		if strings.Contains(name, "/") && !strings.HasPrefix(name, "configs/") && name == strings.ToLower(name) &&
			filepath.Ext(name) == "" {
			found++
			if !slices.Contains(config.PresetNames(), name) {
				t.Errorf("%s: no preset %s", where, name)
			}
		}
	}
	for _, file := range configFile.FindAllString(text, -1) {
		if _, err := os.Stat("../../" + file); err != nil && file == strings.ToLower(file) {
			t.Errorf("%s: %v", where, err)
		}
	}
	return found
}

// The documents, scripts and build files name presets and files that there are.
func TestConfigsInDocuments(t *testing.T) {
	found := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "scripts/*.sh", "Makefile", "Dockerfile*", "configs/*.yaml",
		"configs/*/*.yaml"} {
		files, err := filepath.Glob("../../" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, f := range files {
			b := try.Get(os.ReadFile(f))(t)
			found += checkConfigs(t, f, string(b))
		}
	}
	if found < 10 {
		t.Errorf("only %d presets were found", found)
	}
}

// examplesOf returns the lines of an example that are commands.
func examplesOf(c *cobra.Command) (lines []string) {
	for line := range strings.Lines(c.Example) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

// accepts parses every call of vsetrain in a line of shell, with flags and arguments, and returns what is wrong with
// it.
func accepts(line string) string {
	called := false
	for _, words := range shell(line) {
		for len(words) > 0 && strings.Contains(words[0], "=") { // NAME=value in front of a command
			words = words[1:]
		}
		at := slices.Index(words, "vsetrain") // after a program that runs it
		if at < 0 {
			continue
		}
		called, words = true, words[at:]
		root := newTestRoot()
		c, args, err := root.Find(words[1:])
		if err != nil {
			return err.Error()
		}
		if c == root && len(args) > 0 {
			return "unknown command " + args[0]
		}
		if err = c.ParseFlags(args); err == nil {
			err = c.ValidateArgs(c.Flags().Args())
		}
		if err == nil && c.PreRunE != nil {
			err = c.PreRunE(c, nil)
		}
		if err != nil {
			return err.Error()
		}
	}
	if !called {
		return "vsetrain is not called"
	}
	return ""
}

// shell cuts a line into commands and those into words: quotes hold words together, |, && and ; end a command, < and >
// take a file away, <( and ) are left out, # starts a comment.
func shell(line string) (commands [][]string) {
	var words []string
	skip := false
	for _, w := range shellWord.FindAllString(line, -1) {
		switch {
		case strings.HasPrefix(w, "#"):
			return append(commands, words)
		case strings.Contains("|;&()", w):
			commands, words, skip = append(commands, words), nil, false
		case w == "<" || w == ">":
			skip = true
		case skip:
			skip = false
		default:
			words = append(words, strings.NewReplacer(`"`, "", "'", "").Replace(w))
		}
	}
	return append(commands, words)
}

var shellWord = regexp.MustCompile(`("[^"]*"|'[^']*'|[^ "'|;&()<>])+|[|;&()<>]`)

func TestShell(t *testing.T) {
	got := shell(`echo "a b" c | vsetrain search - --k 3 < in.txt > out.txt && man -M x # vsetrain no`)
	want := `[["echo" "a b" "c"] ["vsetrain" "search" "-" "--k" "3"] [] ["man" "-M" "x"]]`
	if text := fmt.Sprintf("%q", got); text != want {
		t.Errorf("%s, want %s", text, want)
	}
	for line, want := range map[string]string{
		"vsetrain search dog":                          "which network?",
		"vsetrain search dog --checkpoint x --bogus 3": "unknown flag",
		"vsetrain bogus":                               "unknown command",
		"vsetrain embed dog --checkpoint x --out y":    "takes one checkpoint",
		"vsetrain version extra":                       "takes no arguments",
		"ls":                                           "not called",
	} {
		if err := accepts(line); !strings.Contains(err, want) {
			t.Errorf("%s: %q, want %q", line, err, want)
		}
	}
}

// The command lines of the unit and of the container are commands of this program, and systemd understands the unit.
func TestDeploy(t *testing.T) {
	file := func(name string) string { return string(try.Get(os.ReadFile(filepath.Join("..", "..", name)))(t)) }
	dir := t.TempDir()
	try.Do(t, os.WriteFile(filepath.Join(dir, "token"), []byte("0123456789abcdef\n"), 0o600))
	unit := strings.ReplaceAll(file("deploy/vsetrain.service"), "\\\n", " ")
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/vsetrain (.*)$`).FindStringSubmatch(unit)
	if start == nil {
		t.Fatal("no ExecStart")
	}
	fields, failure := parse(strings.Fields(strings.NewReplacer("%d", dir, "%C", dir).Replace(start[1]))...)
	if failure != "" || fields["serveaddress.listen"] != "127.0.0.1:8430" {
		t.Errorf("ExecStart: %s, %v", failure, fields["serveaddress.listen"])
	}
	if hangup != nil && !strings.Contains(unit, "ExecReload=/bin/kill -HUP $MAINPID") {
		t.Error("a reload is no hangup")
	}
	container := file("Dockerfile.serve")
	var line []string
	for _, key := range []string{"ENTRYPOINT", "CMD"} {
		var words []string
		m := regexp.MustCompile(`(?m)^` + key + ` (\[.*\])$`).FindStringSubmatch(container)
		if m == nil || json.Unmarshal([]byte(m[1]), &words) != nil {
			t.Fatalf("%s: %v", key, m)
		}
		line = append(line, words...)
	}
	if fields, failure := parse(line[1:]...); failure != "" || fields["serveaddress.listen"] != "0.0.0.0:8430" ||
		!strings.Contains(container, "EXPOSE 8430") {
		t.Errorf("%v: %s", line, failure)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("the unit is not verified: no systemd-analyze")
	}
	out, _ := exec.Command(analyze, "verify", filepath.Join("..", "..", "deploy", "vsetrain.service")).CombinedOutput()
	for said := range strings.Lines(string(out)) {
		if !strings.Contains(said, "/usr/local/bin/vsetrain is not executable") {
			t.Errorf("systemd-analyze: %s", said)
		}
	}
}
