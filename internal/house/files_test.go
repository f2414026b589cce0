package house

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

// writers are the calls that make or rename files, and the places, relative to the repository, that may do so.
var writers = []struct {
	calls  *regexp.Regexp
	remedy string
	places []string
}{
	{regexp.MustCompile(`\bos\.(WriteFile|Create|CreateTemp|Mkdir|MkdirAll|MkdirTemp|Rename|Link)\(|` +
		`\bos\.O_(CREATE|RDWR|WRONLY)\b`),
		"write through internal/files/disk, which tests record and fail", []string{
			"internal/files/disk/",
			"internal/apps/sweep/process.go",                     // the output of a trial, appended to
			"internal/files/runfs/lock.go",                       // locks: what they hold is for people
			"internal/apps/sweep/claim.go",                       // marks without contents
			"cmd/vsetrain/internal/probe/",                       // tries whether a folder can be written to
			"internal/tools/",                                    // of developers
			"lab/",                                               //
			"internal/compute/device/cuda/driver/cache_linux.go", // a folder for this user alone
		}},
	{regexp.MustCompile(`\bdisk\.Now\(\)\.(Create|Open|Rename|Link)\(`),
		"write through internal/files/atomicfile, so that no reader finds half a file", []string{
			"internal/files/atomicfile/",
			"internal/files/tfevents/", "internal/files/runfs/log.go", // appended to; readers know a torn end
			"eval/work.go",                  // the same, with checksums
			"internal/files/journal/",       // the same
			"internal/apps/extract/work.go", // the same
			"internal/apps/sweep/claim.go",  // marks without contents
			"data/synth/files.go",           // in a hidden folder that appears as a whole
			"data/synth/drawing.go",         //
		}},
}

func TestOneWriter(t *testing.T) {
	root := filepath.Join("..", "..")
	try.Do(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && strings.HasPrefix(e.Name(), ".") && path != root {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, w := range writers {
			if slices.ContainsFunc(w.places, func(place string) bool {
				return strings.HasPrefix(filepath.ToSlash(name), place)
			}) {
				continue
			}
			for i, line := range strings.Split(string(b), "\n") {
				if w.calls.MatchString(line) {
					t.Errorf("%s:%d: %s: %s, or say in writers why not", name, i+1, strings.TrimSpace(line), w.remedy)
				}
			}
		}
		return nil
	}))
}

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
