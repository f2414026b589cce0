package sweep

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"vsetrain/lab/try"
)

// load writes a sweep file into its own folder and reads it.
func load(t *testing.T, text string) (*Definition, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "s.yaml")
	try.Do(t, os.WriteFile(file, []byte(text), 0o666))
	return Load(file)
}

// planOf plans a sweep that has no mistake, with a store in its own folder.
func planOf(t *testing.T, text string) (*Plan, *Store) {
	t.Helper()
	d := try.Get(load(t, text))(t)
	p := try.Get(NewPlan(d))(t)
	return p, &Store{Dir: t.TempDir(), Stale: time.Minute}
}
