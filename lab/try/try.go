// Package try checks errors and makes files for the tests of all packages.
package try

import (
	"archive/zip"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Do fails the test at once if err is not nil.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get returns the result of a call, and fails the test at once if it returned an error: try.Get(os.ReadFile(path))(t).
func Get[V any](v V, err error) func(t testing.TB) V {
	return func(t testing.TB) V {
		t.Helper()
		Do(t, err)
		return v
	}
}

// Fails checks that an error contains all the words.
func Fails(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q lacks %q", err, w)
		}
	}
}

// Refuses is Fails for a call with a result: try.Refuses(Open(path))(t, "no such file").
func Refuses[V any](_ V, err error) func(t testing.TB, words ...string) {
	return func(t testing.TB, words ...string) {
		t.Helper()
		Fails(t, err, words...)
	}
}

// Files makes a folder with the given files, text by path.
func Files(t testing.TB, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		path := filepath.Join(dir, name)
		Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		Do(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

// Fixtures makes a folder with the files of a folder of testdata/files.zip, which other programs wrote.
func Fixtures(t testing.TB, folder string) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	z := Get(zip.OpenReader(filepath.Join(filepath.Dir(here), "..", "..", "testdata", "files.zip")))(t)
	defer z.Close()
	dir := t.TempDir()
	Do(t, os.CopyFS(dir, Get(fs.Sub(z, folder))(t)))
	return dir
}

// MemoryDir makes a folder that is removed when the test ends. It is in memory if the system has /dev/shm, where a sync
// costs nothing.
func MemoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "vsetrain-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { Do(t, os.RemoveAll(dir)) })
	return dir
}
