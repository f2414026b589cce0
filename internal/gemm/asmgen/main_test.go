package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The committed assembly is what the generator writes.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	for name, want := range files() {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s differs from what asmgen writes; run go generate in internal/gemm", name)
		}
	}
}
