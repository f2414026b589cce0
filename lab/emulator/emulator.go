// Package emulator builds a CUDA driver that runs on the host, for tests: a shared object with the entries of libcuda
// and cuBLAS that vsetrain calls. It executes the kernel sources, compiled by g++, with a fiber for each CUDA thread.
// It reports
//
//   - accesses outside an allocation, and misaligned ones; memory is filled with NaN, and no address is used twice
//     before all memory is free;
//   - races in device and shared memory, and barriers that not all threads reach; threads run in several orders;
//   - calls from a thread without the context, wrong sizes of grids, parameters that differ from the PTX.
//
// It does not check the PTX, speed, or the memory model of a GPU beyond barriers.
//
// The strict driver (Strict) computes nothing and reports what a GPU's driver refuses, at full size.
package emulator

import (
	"errors"
	"os"
	"testing"

	"vsetrain/lab/try"
)

// Library returns the path of the emulated driver, which it builds if the sources changed. It skips the test if the
// emulator cannot be built. VSETRAIN_EMULATOR names a build to use instead: a test with the tag vsecu is linked with
// it, and a process has only one.
func Library(t testing.TB) string {
	t.Helper()
	path := os.Getenv("VSETRAIN_EMULATOR")
	if path == "" {
		return library(t, Build)
	}
	try.Get(os.Stat(path))(t)
	return path
}

func library(t testing.TB, build func() (string, error)) string {
	t.Helper()
	path, err := build()
	if errors.Is(err, errUnavailable) {
		t.Skip(err)
	}
	try.Do(t, err)
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
