package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/internal/house/try"
)

// ownLosses is a file of two losses that nobody has: one that trains, and one whose gradient is not finite where all
// scores are equal.
const ownLosses = `package loss

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

func init() {
	registry["own"] = traits{about: "mean of squared hinges", order: 99, titles: []string{"Own"}, mean: true,
		noWarmUp: true, build: squared,
		learned: func(o *Options) []Learned { return []Learned{{Name: "own_scale", Start: 1, Least: 0.5, Most: 2}} }}
	registry["root"] = traits{about: "distances to the match", order: 100, titles: []string{"Root"}, build: rooted}
}

var ownConstants = declare("own", ownOptions{Factor: 2})

type ownOptions struct {
	Factor float64 ` + "`yaml:\"factor\" above:\"0\" max:\"10\" doc:\"factor of the squares\"`" + `
}

func squared(o Options, g *graph.Graph, scores *graph.Node, _ Context, _ bool) *graph.Node {
	n := graph.Dim(scores, 0)
	match, scale := matches(g, scores), repeated(g, o.Learned()[0].node(g), scores)
	cost := func(scores *graph.Node) *graph.Node {
		costs := g.Multiply(violations(g, scores, match, o.Margin), scale)
		factor := ownConstants.of(&o).Factor / float64(n)
		return g.Times(g.Sum(g.Multiply(costs, costs), graph.AlongRows(n)), factor)
	}
	return fromCosts(g, "own", o.Margin, scores, cost(scores), cost(g.SwapAxes(scores)))
}

func rooted(o Options, g *graph.Graph, scores *graph.Node, _ Context, _ bool) *graph.Node {
	n := graph.Dim(scores, 0)
	apart := g.Minus(scores, g.Spread(matches(g, scores), graph.AlongRows(n), n, n))
	size := g.Map(device.Exp, 0, g.Times(g.Map(device.Log, 0, g.Multiply(apart, apart)), 0.5))
	return fromCosts(g, "root", o.Margin, scores, g.Sum(size, graph.AlongRows(n)),
		g.Sum(g.SwapAxes(size), graph.AlongRows(n)))
}
`

// A loss is one file: laid over the tree, it trains, is resumed, exported and reported, has options with ranges,
// schema, completion and presets, and its gradient is checked.
func TestALossIsOneFile(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go tool")
	}
	dir := t.TempDir()
	root := try.Get(filepath.Abs("../.."))(t)
	file, overlay, bin := filepath.Join(dir, "own.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "own")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "loss", "own.go"): file}})
	try.Do(t, err)
	for name, text := range map[string][]byte{file: []byte(ownLosses), overlay: list} {
		try.Do(t, os.WriteFile(name, text, 0o666))
	}
	run := func(fails bool, where, name string, args ...string) string {
		t.Helper()
		c := exec.Command(name, args...)
		c.Dir = where
		c.Env = append(os.Environ(), "TESTSCRIPT_COMMAND=")
		out, err := c.CombinedOutput()
		if fails != (err != nil) {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run(false, root, goTool, "build", "-overlay", overlay, "-ldflags=-s -w", "-o", bin, "./cmd/vsetrain")
	own := func(fails bool, args ...string) string { t.Helper(); return run(fails, dir, bin, args...) }
	has := func(what, out string, words ...string) {
		t.Helper()
		for _, w := range words {
			if !strings.Contains(out, w) {
				t.Errorf("%s lacks %q:\n%s", what, w, out)
			}
		}
	}
	own(false, "data", "synth", "world", "--train", "40", "--dev", "12", "--test", "12", "--regions", "4", "--dim",
		"32")
	train := []string{"train", "--config", "vsepp/f8k-own", "--run", "run", "--set", "data.dir=world", "--set",
		"model.embed_dim=16", "--set", "model.word_dim=8", "--set", "train.batch=16", "--set", "train.log_step=1"}
	own(false, append(train, "--set", "train.epochs=1", "--set", "loss.own.factor=3")...)
	own(false, "train", "--resume", "--run", "run", "--set", "train.epochs=2")
	has("the report", own(false, "report", "run", "--test"), "Own")
	own(false, "export", "run", "--out", "own.pth")
	metrics := try.Get(os.ReadFile(filepath.Join(dir, "run", "metrics.jsonl")))(t)
	has("the log", string(metrics), `"own_scale":`)
	has("a value out of range", own(true, append(train, "--set", "loss.own.factor=11")...), "loss.own.factor",
		"(0, 10]")
	has("config show", own(false, "config", "show", "vsepp/f8k-own", "--docs"), "factor of the squares",
		"own mean of squared hinges", "warmup_epochs: 0")
	has("the schema", own(false, "config", "schema"), `"factor"`, `"exclusiveMinimum": 0`)
	has("completion", own(false, "__complete", "train", "--set", "loss.own."), "loss.own.factor=")

	has("the tests of gradients and of equal scores", run(true, root, goTool, "test", "-vet=off", "-ldflags=-s -w",
		"-overlay", overlay, "./loss", "-v",
		"-run", "^(TestGradientsByFiniteDifferences|TestLossesAreFinite)$/^(own|root)$"),
		"PASS: TestGradientsByFiniteDifferences/own", "PASS: TestLossesAreFinite/own", "FAIL: TestLossesAreFinite/root",
		"equal scores of 2 pairs: loss")
}
