package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"vsetrain/cmd/vsetrain/internal/flags"
	"vsetrain/internal/system/build"
)

// parse carries out a command line up to its check and returns the fields of its options, by their names in lower
// case; what fails is the message.
func parse(words ...string) (fields map[string]string, failure string) {
	var errs bytes.Buffer
	fields = map[string]string{}
	a := newApp(&bytes.Buffer{}, &errs)
	a.runF = func(o command) error {
		collect(fields, "", reflect.ValueOf(o).Elem())
		return nil
	}
	if a.run(words) != exitOK {
		return nil, errs.String()
	}
	return fields, ""
}

// collect puts the numbers, texts, switches and lists of a struct into fields.
func collect(fields map[string]string, name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			collect(fields, strings.TrimPrefix(name+"."+strings.ToLower(v.Type().Field(i).Name), "."), v.Field(i))
		}
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64, reflect.Slice,
		reflect.Array:
		fields[name] = fmt.Sprint(v)
	}
}

// Every flag of every command has a help of one line, which the man page repeats, and no two spell one thing twice.
func TestFlags(t *testing.T) {
	flagsSeen := 0
	for _, c := range commands() {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			arg, usage := flags.Describe(f)
			flagsSeen++
			if usage == "" || strings.ContainsAny(usage, "\n`") || strings.ContainsAny(arg, " `") ||
				arg == "" && f.NoOptDefVal != "true" {
				t.Errorf("%s --%s %s: %q", c.CommandPath(), f.Name, arg, usage)
			}
			if page := manOptions(c.LocalFlags()); !f.Hidden && !strings.Contains(page, roff(usage)) {
				t.Errorf("the man page of %s lacks --%s", c.CommandPath(), f.Name)
			}
		})
	}
	if flagsSeen < 250 {
		t.Errorf("only %d flags", flagsSeen)
	}
}

// TestHelp holds the help of every command: at most three lines on what it does, usage, examples, flags in groups of at
// most 15, and where the manual is, in 80 columns, but for command lines.
func TestHelp(t *testing.T) {
	build.Homepage = "https://vse.example"
	defer func() { build.Homepage = "" }()
	form := regexp.MustCompile(`^([^\n]{1,80}\n){1,3}\nUsage:\n(  .*\n)+\nExamples:\n(  .{1,118}\n)+` +
		`((?:\n[A-Z].*:\n(?:  .{1,78}\n)+)+)\n(Use .*\n\n)?Manual: man (\S+), (docs/.*), https://vse.example\n$`)
	flag := regexp.MustCompile(`(?m)^ +(-\w, )?--\w`)
	for _, c := range append(commands(), newTestRoot()) {
		_, text := say(strings.TrimPrefix(c.CommandPath(), "vsetrain") + " --help")
		parts := form.FindStringSubmatch(text)
		if parts == nil || parts[6] != manTitle(c) || strings.Contains(text, "=true") {
			t.Errorf("%s --help: %s", c.CommandPath(), text)
			continue
		}
		for group := range strings.SplitSeq(parts[4], "\n\n") {
			if n := len(flag.FindAllString(group, -1)); n > 15 {
				t.Errorf("%s --help: %d flags in a group: %s", c.CommandPath(), n, group)
			}
		}
		for page := range strings.SplitSeq(parts[7], ", ") {
			if _, err := os.Stat("../../" + page); err != nil {
				t.Errorf("%s: %v", c.CommandPath(), err)
			}
		}
		if at := strings.Index(text, "      --run DIR"); c.Name() == "train" && strings.Count(text[:at], "\n") >= 30 {
			t.Errorf("train --help begins with %s", text[:at])
		}
	}
}

// TestArguments holds what the arguments of a command line become.
func TestArguments(t *testing.T) {
	for line, want := range map[string]string{
		"eval a b.npy c --scores d.npy":             "checkpoints=[a c]; scores=[d.npy b.npy]",
		"eval --checkpoint a b --batch 3":           "checkpoints=[a b]; trainedflags.batch=3",
		"eval --published saf-coco f.pth":           "checkpoints=[f.pth]; splitflag.split=testall",
		"eval --published vsrn-f30k f g":            "checkpoints=[f g]; splitflag.split=test",
		"eval --published sgr-coco f --split s":     "splitflag.split=s; publishedoptions.published=true",
		"search --checkpoint r two dogs":            "retrievalflags.checkpoints=[r]; query=two dogs",
		"search --checkpoint r -":                   "query=-",
		"launch slurm --nodes 3 -- train demo -c x": "launchoptions.train=[train demo -c x]; launchoptions.nodes=3",
		"train demo --seeds 7,8":                    "configflags.file=demo; seeds=[7 8]",
		"report A=a b --attention 3 --query 2": "runs=[A=a b]; reportpictures.attention=[3]; " +
			"reportpictures.query=2",
		"sweep run --config s.yaml --workers 2": "sweepflags.file=s.yaml; workers=2",
		"embed run --of images --out o.npy":     "checkpoint=run; of=images",
		"serve a b --split dev,test --log none": "retrievalflags.checkpoints=[a b]; server.splits=[dev test]",
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
