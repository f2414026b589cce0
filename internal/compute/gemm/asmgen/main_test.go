package main

import (
	"testing"

	"vsetrain/internal/compute/asm"
)

// The committed assembly is what the generator writes.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	old, err := asm.Outdated("..", files())
	if err != nil || len(old) > 0 {
		t.Errorf("%v differ from what asmgen writes (%v); run go generate in internal/compute/gemm", old, err)
	}
}
