package flags

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/run/config"
	"vsetrain/internal/system/options"
)

type inner struct {
	Config  string `flag:"config,c" arg:"FILE" usage:"the FILE"`
	Aliases []config.Alias
}

type sample struct {
	inner  `group:"Configuration" alias:"overfit=train.overfit tensorboard=run.tensorboard"`
	Args   []string         `args:"RUN" missing:"which run?"`
	Out    string           `flag:"out" arg:"DIR" empty:"out" usage:"where"`
	Kind   string           `flag:"kind" enum:"cold|warm" default:"cold" usage:"which"`
	Word   string           `flag:"word" usage:"a word of the caller"`
	K      int              `flag:"k" default:"3" min:"1" usage:"how many"`
	Big    int64            `flag:"big" usage:"how large"`
	Seed   uint64           `flag:"seed" usage:"the seed"`
	Share  float64          `flag:"share" above:"0" max:"1" usage:"the share"`
	Wait   time.Duration    `flag:"wait" default:"2s" min:"0" max:"60" usage:"how long"`
	Per    options.PerSplit `flag:"per" arg:"N" default:"auto" usage:"per split"`
	Dry    bool             `flag:"dry" not:"k,wait" usage:"only look"`
	Wet    bool             `flag:"wet" with:"dry,k" usage:"more"`
	Many   []string         `flag:"many" arg:"WORD" usage:"one of many"`
	Seeds  []uint64         `flag:"seeds" list:"," once:"yes" default:"1,2" usage:"seeds"`
	Device device.Options   `group:"Device" flags:"device=kind precision gpu=index"`
	Secret bool             `flag:"secret" hidden:"yes" usage:"unseen"`
}

func (s *sample) Defaults() { s.Device = device.DefaultOptions() }

// parse carries out a command line and returns the options and what is wrong.
func parse(line string) (*sample, *cobra.Command, error) {
	o := &sample{}
	c := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true}
	set := Add(c, o, Words{"word": {"near", "far"}})
	c.Args = set.Args(nil)
	c.RunE = func(*cobra.Command, []string) error { return set.Check() }
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Explain(err) })
	c.SetArgs(strings.Split(line, " "))
	c.SetOut(io.Discard)
	return o, c, c.Execute()
}

// Every kind of field takes what is written, or refuses it in the name of its flag.
func TestFlags(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	for line, want := range map[string]string{
		"r":                        "[r]  cold 3 0 0 0 2s auto false [] [1 2] auto fp32 0 []",
		"r s --out ~/x":            "[r s] /home/me/x cold 3 0 0 0 2s auto false [] [1 2] auto fp32 0 []",
		"r --out=":                 "[r]  cold 3 0 0 0 2s auto false [] [1 2] auto fp32 0 []",
		"r --kind warm --k 0x10":   "[r]  warm 16 0 0 0 2s auto false [] [1 2] auto fp32 0 []",
		"r --big 1_000 --seed 9":   "[r]  cold 3 1000 9 0 2s auto false [] [1 2] auto fp32 0 []",
		"r --share 1e-1 --wait 1m": "[r]  cold 3 0 0 0.1 1m0s auto false [] [1 2] auto fp32 0 []",
		"r --per test=7 --dry":     "[r]  cold 3 0 0 0 2s test=7 true [] [1 2] auto fp32 0 []",
		"r --dry=false --k 5":      "[r]  cold 5 0 0 0 2s auto false [] [1 2] auto fp32 0 []",
		"r --many a,b --many c":    "[r]  cold 3 0 0 0 2s auto false [a,b c] [1 2] auto fp32 0 []",
		"r --seeds 7,8 --seeds 9":  "[r]  cold 3 0 0 0 2s auto false [] [7 8 9] auto fp32 0 []",
		"r --device cuda --gpu 1":  "[r]  cold 3 0 0 0 2s auto false [] [1 2] cuda fp32 1 []",
		"r --overfit -1": "[r]  cold 3 0 0 0 2s auto false [] [1 2] auto fp32 0 " +
			"[{--overfit train.overfit -1}]",
		"r --tensorboard": "[r]  cold 3 0 0 0 2s auto false [] [1 2] auto fp32 0 " +
			"[{--tensorboard run.tensorboard true}]",
		"r --wet --k 4 --word near": "[r]  cold 4 0 0 0 2s auto false [] [1 2] auto fp32 0 []",
		"":                          "which run?",
		"r --config=":               "--config: expected FILE, found an empty text; leave the flag out",
		"r --kind col":              `--kind: expected one of cold, warm, found "col"; did you mean cold?`,
		"r --word x":                `--word: expected one of near, far, found "x"`,
		"r --k 0":                   "--k: expected a whole number >= 1, found 0",
		"r --k 010": "--k: expected a whole number >= 1; 010 has a leading zero: write 10, or 0o10 for the " +
			"octal number",
		"r --big 1.5":            `--big: expected a whole number, found "1.5"`,
		"r --seed -1":            `--seed: expected a whole number >= 0, found "-1"`,
		"r --share 0":            "--share: expected a number in (0, 1], found 0",
		"r --wait 2h":            "--wait: expected a time, in seconds in [0, 60], found 2h",
		"r --wait 5":             `--wait: expected a time such as 10s or 5m, found "5"`,
		"r --per x":              "--per: expected " + options.PerSplitExpected + `, found "x"`,
		"r --dry=x":              `--dry: expected true or false, found "x"`,
		"r --dry --k 3":          "--dry and --k cannot be used together; leave one out",
		"r --wet":                "--wet belongs to --dry and --k: add --dry or --k or leave it out",
		"r --seeds 7,x":          `--seeds: item 2: expected a whole number >= 0, found "x"`,
		"r --seeds 7,8,7":        "--seeds: 7 is named twice",
		"r --precision auto":     `--precision: expected one of fp32, tf32, bf16, fp64, found "auto"`,
		"r --device cpu --gpu 2": "--gpu: expected 0 on the cpu, found 2; set device.kind to cuda to choose a GPU",
	} {
		o, _, err := parse(strings.TrimSpace(line))
		if line == "" {
			_, _, err = parse("--k=3")
		}
		got := fmt.Sprintln(o.Args, o.Out, o.Kind, o.K, o.Big, o.Seed, o.Share, o.Wait, o.Per, o.Dry, o.Many, o.Seeds,
			o.Device.Kind, o.Device.Precision, o.Device.Index, o.Aliases)
		if err != nil {
			got = err.Error()
		}
		if strings.TrimSuffix(got, "\n") != want {
			t.Errorf("%s:\n got %s\nwant %s", line, got, want)
		}
	}
}

// The help lists flags in their order, by groups, with the name of each value, its default, and what a key of the
// configuration says.
func TestHelp(t *testing.T) {
	_, c, err := parse("r")
	if err != nil {
		t.Fatal(err)
	}
	got := Usages(c.Flags(), 0)
	for _, want := range []string{
		"      --out DIR          where (default: out)\n      --kind cold|warm   which (default cold)\n",
		"      --k N              how many (default 3)\n", "      --wait TIME        how long (default 2s)\n",
		"      --dry              only look\n", "      --many WORD        one of many; may be repeated\n",
		"      --seeds LIST       seeds; comma-separated (default 1,2)\n",
		"\nConfiguration:\n  -c, --config FILE   the FILE\n",
		"      --overfit N     train only on the first N batches, again and again; 0 takes all (train.overfit)\n",
		"      --tensorboard   write TensorBoard event files (run.tensorboard)\n",
		"\nDevice:\n      --device auto|cpu|cuda            auto takes a GPU when there is one (default auto)\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the help lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "secret") || strings.Index(got, "--seeds") > strings.Index(got, "Configuration") {
		t.Errorf("hidden flags, or flags without a group below one:\n%s", got)
	}
	for flag, want := range map[string]string{"kind": "cold warm", "word": "near far", "overfit": "",
		"precision": "fp32 tf32 bf16 fp64"} {
		complete, _ := c.GetFlagCompletionFunc(flag)
		var words []string
		if complete != nil {
			words, _ = complete(c, nil, "")
		}
		if strings.Join(words, " ") != want {
			t.Errorf("the shell completes --%s by %q, want %q", flag, words, want)
		}
	}
}

// A struct whose tags cannot be right is a mistake of the program.
func TestMistakesOfTheProgram(t *testing.T) {
	for name, o := range map[string]any{
		"default": &struct {
			K int `flag:"k" default:"x"`
		}{},
		"key": &struct {
			Device device.Options `flags:"gpu=indx"`
		}{},
	} {
		err := func() (err error) {
			defer func() {
				if r := recover(); r != nil {
					err = errors.New(fmt.Sprint(r))
				}
			}()
			Add(&cobra.Command{}, o)
			return nil
		}()
		if err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
