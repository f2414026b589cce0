package sweep

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// load writes a sweep file into a folder of its own and reads it.
func load(t *testing.T, text string) (*Definition, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return Load(file)
}

// planOf plans a sweep that has no mistake, with a store in a folder of its own.
func planOf(t *testing.T, text string) (*Plan, *Store) {
	t.Helper()
	d, err := load(t, text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlan(d)
	if err != nil {
		t.Fatal(err)
	}
	return p, &Store{Dir: t.TempDir(), Stale: time.Minute}
}
