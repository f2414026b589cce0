package archtest

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// A preset is a row of the table or a YAML file, not both: the file would be hidden by the row, where somebody who
// edits it does not see why nothing changes.
func TestPresetsAreRowsOrFiles(t *testing.T) {
	root := filepath.Join("..", "..", "configs")
	table := try.Get(os.ReadFile(filepath.Join(root, "presets.tsv")))(t)
	rows := strings.Split(strings.TrimSpace(string(table)), "\n")[1:]
	if len(rows) < 100 {
		t.Fatalf("%d rows", len(rows))
	}
	files := map[string]bool{} // without their endings
	try.Do(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			name, _ := filepath.Rel(root, path)
			files[strings.TrimSuffix(filepath.ToSlash(name), filepath.Ext(name))] = true
		}
		return err
	}))
	if !files["vsepp/base"] {
		t.Fatalf("no vsepp/base among %v", files)
	}
	for _, row := range rows {
		name, _, _ := strings.Cut(row, "\t")
		if files[name] {
			t.Errorf("configs/%s is a file and a row of presets.tsv: write its settings into the row", name)
		}
	}
}

// What the project makes lies below bin/: make clean removes that folder and nothing that commands of the pages, or a
// user, may have made beside it.
func TestCleanRemovesBinAlone(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is missing")
	}
	dir := t.TempDir()
	makefile := try.Get(os.ReadFile(filepath.Join("..", "..", "Makefile")))(t)
	try.Do(t, os.WriteFile(filepath.Join(dir, "Makefile"), makefile, 0o644))
	words := regexp.MustCompile(`[\w./-]+`)
	users := map[string]bool{"sweeps/demo": true, "runs/demo-2": true}
	for _, text := range texts(t, ".md") {
		for _, w := range words.FindAllString(text, -1) {
			if first, _, _ := strings.Cut(w, "/"); slices.Contains([]string{"pictures", "runs", "sweeps", "data",
				"quickstart", "images"}, first) && filepath.IsLocal(w) {
				users[filepath.Clean(w)] = true
			}
		}
	}
	if len(users) < 20 || !users["pictures"] || !users["runs/demo"] {
		t.Fatalf("the pages name %d folders of users", len(users))
	}
	for _, name := range append(slices.Collect(maps.Keys(users)), "bin") {
		try.Do(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	clean := exec.Command("make", "clean")
	clean.Dir = dir
	if out, err := clean.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name := range users {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("make clean removes %s", name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "bin")); err == nil {
		t.Error("make clean leaves bin")
	}
}
