package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"go.yaml.in/yaml/v3"

	"vsetrain/lab/try"
)

// yamlNumber are the numbers of YAML 1.1 as PyYAML, the reader most people have, resolves them: a float has a point,
// and an exponent its sign.
var yamlNumber = regexp.MustCompile(`^[-+]?(0|[1-9][0-9_]*|([0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)([eE][-+][0-9]+)?)$`)

// checkNumbers fails for each number of a YAML file that a YAML 1.1 reader takes for text, and returns how many numbers
// there are.
func checkNumbers(t *testing.T, name string, text []byte) (count int) {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var visit func(n *yaml.Node)
	visit = func(n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && (n.Tag == "!!float" || n.Tag == "!!int") {
			count++
			if !yamlNumber.MatchString(n.Value) {
				t.Errorf("%s:%d: %s is no number in YAML 1.1; write it with a point, as in 5.0e-4", name, n.Line,
					n.Value)
			}
		}
		for _, c := range n.Content {
			visit(c)
		}
	}
	visit(&doc)
	return count
}

// Every number of the files in configs/, and of what the program writes, is a number for YAML 1.1 readers too.
func TestNumbersOfYAML11(t *testing.T) {
	files := 0
	try.Do(t, filepath.WalkDir("../../../configs", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil {
			files++
			checkNumbers(t, path, b)
		}
		return err
	}))
	if files == 0 {
		t.Error("no files in configs/")
	}
	for _, lr := range []float64{2e-4, 1e-7, 3, 0.5} {
		c := Default()
		c.Optim.LR, c.Optim.Eps, c.Optim.Clip, c.Loss.LUWM.Negative = lr, 1e-8, 1e9, [3]float64{-1e-300, 1.5e-9, 0}
		if n := checkNumbers(t, "config.yaml", Marshal(&c)); n < 40 {
			t.Errorf("%d numbers in a written configuration", n)
		}
	}
}

// Strings that YAML 1.1 would take for something else are quoted.
func TestStringsOfYAML11(t *testing.T) {
	for _, s := range []string{"yes", "No", "on", "off", "y", "0b11", "1_000", "007"} {
		if got := quote(s); got != `"`+s+`"` {
			t.Errorf("%s is written as %s", s, got)
		}
	}
	for _, s := range []string{"runs/demo", "auto", "north", "v1"} {
		if got := quote(s); got != s {
			t.Errorf("%s is written as %s", s, got)
		}
	}
}
