package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

var variable = regexp.MustCompile(`"(VSETRAIN_[A-Z0-9_]+)"`)

// Every VSETRAIN_* variable that the program reads is a configuration key or listed as no key, or Load would refuse it.
func TestVariablesAreKnown(t *testing.T) {
	known := slices.Clone(notConfig)
	for _, p := range Keys() {
		known = append(known, envName(p))
	}
	try.Do(t, filepath.WalkDir(filepath.Join("..", "..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range variable.FindAllStringSubmatch(string(b), -1) {
			if name := strings.TrimSpace(m[1]); !slices.Contains(known, name) {
				t.Errorf("%s reads %s: add it to notConfig in overrides.go", path, name)
			}
		}
		return nil
	}))
}
