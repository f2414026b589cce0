//go:build linux && amd64 && !nodl

package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// A rank with a GPU that is killed is named by the other, whose collectives end: it exits as one that can be resumed,
// and another number of GPUs goes on.
func TestKilledGPU(t *testing.T) {
	lib := emulator.Library(t)
	for name, value := range map[string]string{"VSETRAIN_CUDA_DRIVER": lib, "VSETRAIN_CUBLAS": lib,
		"VSETRAIN_NCCL": lib, "EMULATED_CUDA_DEVICES": "3"} {
		t.Setenv(name, value)
	}
	dir := stopWorld(t)
	var out bytes.Buffer
	c := vsetrain(dir, &out, "train --config c.yaml --run r --gpus 2 --set train.val_step=4 --set model.embed_dim=16 "+
		"--set model.word_dim=8")
	try.Do(t, c.Start())
	waitFor(t, filepath.Join(dir, "r", "metrics.jsonl"), "\n", 7)
	began := time.Now()
	for _, rank := range childrenOf(c.Process.Pid) {
		try.Do(t, syscall.Kill(rank, syscall.SIGKILL))
	}
	const want = "vsetrain: rank 1: its process ended: signal: killed; continue with --resume: "
	if code := exitCode(t, c); code != exitInterrupted || time.Since(began) > 10*time.Second ||
		!strings.Contains(out.String(), want) {
		t.Errorf("exit code %d after %v\n%s", code, time.Since(began), &out)
	}
	mustRun(t, dir, "train --resume --run r --gpus 3 --set train.max_steps=12")
}
