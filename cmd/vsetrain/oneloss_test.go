package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"vsetrain/lab/golden"
	"vsetrain/lab/try"
)

// rootLoss is a loss whose gradient is not finite where all scores are equal.
const rootLoss = `
func init() {
	registry["root"] = traits{about: "distances to the match", order: 100, titles: []string{"Root"}, build: rooted}
}

func rooted(o Options, g *graph.Graph, scores *graph.Node, _ Context, _ bool) *graph.Node {
	n := graph.Dim(scores, 0)
	apart := g.Minus(scores, g.Broadcast(matches(g, scores), graph.AlongRows(n), n, n))
	size := g.Map(device.Exp, 0, g.Scale(g.Map(device.Log, 0, g.Multiply(apart, apart)), 0.5))
	return fromCosts(g, "root", o.Margin, scores, g.Sum(size, graph.AlongRows(n)),
		g.Sum(g.SwapAxes(size), graph.AlongRows(n)))
}
`

// A format of data is one file: the one in docs/add-a-format.md, laid over the tree, has help, flags and errors. A loss
// is one file too: the one in docs/add-a-loss.md, laid over the tree, trains to the numbers of infonce, is resumed,
// exported and reported, has options with ranges, schema, completion and presets, and its gradient is checked.
func TestALossIsOneFile(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go tool")
	}
	dir := t.TempDir()
	root := try.Get(filepath.Abs("../.."))(t)
	own := map[string]string{} // files of the tree, by what is put in their places
	overlay, bin := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "bin")
	for _, f := range [][3]string{{"add-a-loss.md", "loss", rootLoss}, {"add-a-format.md", "data/convert", ""}} {
		page := string(try.Get(os.ReadFile(filepath.Join(root, "docs", f[0])))(t))
		_, page, found := strings.Cut(page, "```go\n")
		text, _, ended := strings.Cut(page, "```\n")
		if !found || !ended {
			t.Fatalf("no file in docs/%s", f[0])
		}
		file := filepath.Join(dir, f[0]+".go")
		own[filepath.Join(root, f[1], "own.go")] = file
		try.Do(t, os.WriteFile(file, []byte(text+f[2]), 0o666))
	}
	list := try.Get(json.Marshal(map[string]any{"Replace": own}))(t)
	try.Do(t, os.WriteFile(overlay, list, 0o666))
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
	program := func(fails bool, line string, more ...string) string {
		t.Helper()
		return run(fails, dir, bin, append(strings.Fields(line), more...)...)
	}
	has := func(what, out string, words ...string) {
		t.Helper()
		for _, w := range words {
			if !strings.Contains(out, w) {
				t.Errorf("%s lacks %q:\n%s", what, w, out)
			}
		}
	}
	program(false, "data synth world --train 40 --dev 12 --test 12 --regions 4 --dim 32")
	lines := filepath.Join(dir, "mine.jsonl")
	convert := func(fails bool, text string, more ...string) string {
		t.Helper()
		try.Do(t, os.WriteFile(lines, []byte(text), 0o666))
		return program(fails, "data convert mine.jsonl --out mine --split test", more...)
	}
	has("help", program(false, "data convert --help"), ".jsonl")
	image := `{"id": "17", "features": [[0.5, 1], [2, 0]]}`
	has("a broken line", convert(true, image+"\n{"), "mine.jsonl:2: expected an object")
	has("a foreign flag", convert(true, image, "--keep-first"), "--keep-first is not for",
		"a .jsonl source has --split")
	has("a conversion", convert(false, image, "--scale", "2"), "test_ims.npy: 1 rows (f32)", "1 image read")
	has("its data", program(false, "data check mine"), "1 x 2 x 2", "0    4")
	train := func(fails bool, loss, more string) string {
		t.Helper()
		return program(fails, "train --config vsepp/f8k-"+loss+" --run "+loss+" --set data.dir=world --set "+
			"model.embed_dim=16 --set model.word_dim=8 --set train.batch=16 --set train.log_step=1 --set "+
			"train.epochs=1 --set "+more)
	}
	losses := func(run string) (all []float64) {
		metrics := try.Get(os.ReadFile(filepath.Join(dir, run, "metrics.jsonl")))(t)
		for _, m := range regexp.MustCompile(`"loss":([^,]+)`).FindAllSubmatch(metrics, -1) {
			all = append(all, try.Get(strconv.ParseFloat(string(m[1]), 64))(t))
		}
		return all
	}
	train(false, "own", "loss.own.temperature=0.1")
	train(false, "infonce", "loss.infonce.temperature=0.1 --set loss.infonce.learn=log_scale")
	want := losses("infonce")
	if len(want) < 10 {
		t.Errorf("the losses of infonce are %v, expected ten or more", want)
	}
	golden.Close(t, "losses", losses("own"), want, golden.FP32)
	program(false, "train --resume --run own --set train.epochs=2")
	has("the report", program(false, "report own --test"), "Own")
	program(false, "export own --out own.pth")
	metrics := try.Get(os.ReadFile(filepath.Join(dir, "own", "metrics.jsonl")))(t)
	has("the log", string(metrics), `"own_log_scale":`)
	has("a value out of range", train(true, "own", "loss.own.temperature=2"), "loss.own.temperature", "[0.01, 1]")
	has("config show", program(false, "config show vsepp/f8k-own --docs"), "temperature tau at first",
		"own cross entropy over the batch", "warmup_epochs: 0")
	has("the schema", program(false, "config schema"), `"own": {`)
	has("completion", program(false, "__complete train --set loss.own."), "loss.own.temperature=")

	has("the tests of gradients and of equal scores", run(true, root, goTool, "test", "-vet=off", "-ldflags=-s -w",
		"-overlay", overlay, "./loss", "-v",
		"-run", "^(TestGradientsByFiniteDifferences|TestLossesAreFinite)$/^(own|root)$"),
		"PASS: TestGradientsByFiniteDifferences/own", "PASS: TestLossesAreFinite/own", "FAIL: TestLossesAreFinite/root",
		"equal scores of 2 pairs: loss")
}
