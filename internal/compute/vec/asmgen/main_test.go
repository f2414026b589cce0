package main

import (
	"testing"

	"vsetrain/internal/compute/asm"
)

// The committed kernels and tables are what the generator writes.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	old, err := asm.Outdated("..", all)
	if err != nil || len(old) > 0 {
		t.Errorf("%v differ from what asmgen writes (%v); run go generate in internal/compute/vec", old, err)
	}
}
