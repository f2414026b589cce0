// Package emulator builds a CUDA driver that runs on the host, for tests: a shared object with the entries of libcuda
// and cuBLAS that vsetrain calls. It executes the same kernel sources that become PTX, compiled by g++, one fiber for
// each CUDA thread, and finds
//
//   - loads and stores outside an allocation, or misaligned; memory is filled with NaN and no address is used twice
//     before all is free;
//   - races in device and in shared memory, and barriers that not all threads reach; threads run in several orders;
//   - calls from a thread without the context, wrong sizes of grids, parameters that differ from the PTX.
//
// What it cannot find: wrong PTX, anything about speed, and the memory model of a GPU beyond barriers.
//
// The strict driver (Strict) computes nothing and reports what a GPU's driver refuses, at full size.
package emulator

import (
	"errors"
	"fmt"
	"os"
	"testing"
)

// Library returns the path of the emulated driver, building it where the sources changed. It skips the test where the
// emulator cannot be built. VSETRAIN_EMULATOR names a build to use instead: a test with the tag vsecu is linked with
// one, and there is no second in a process.
func Library(t testing.TB) string {
	t.Helper()
	path := os.Getenv("VSETRAIN_EMULATOR")
	if path == "" {
		return library(t, Build)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(fmt.Errorf("VSETRAIN_EMULATOR: %w", err))
	}
	return path
}

func library(t testing.TB, build func() (string, error)) string {
	t.Helper()
	path, err := build()
	if errors.Is(err, errUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var errUnavailable = errors.New("no emulated CUDA driver")

// NVML is Library for the emulated NVML, which reads its settings from the environment (nvml/nvml.cc).
func NVML(t testing.TB, options ...string) string {
	t.Helper()
	return library(t, func() (string, error) { return BuildNVML(options...) })
}

// Strict is Library for the strict driver.
func Strict(t testing.TB) string {
	t.Helper()
	return library(t, buildStrict)
}
