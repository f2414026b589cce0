// Package emulator builds a CUDA driver that runs on the host, for tests: a shared object with the entries of libcuda and cuBLAS that vsetrain
// calls. It executes the same kernel sources that become PTX, compiled by g++, one fiber for each CUDA thread, and finds
//
//   - loads and stores outside an allocation, or misaligned; memory is filled with NaN and no address is used twice before all is free;
//   - races in device and in shared memory, and barriers that not all threads reach; threads run in several orders;
//   - calls from a thread without the context, wrong sizes of grids, parameters that differ from the PTX.
//
// What it cannot find: wrong PTX, anything about speed, and the memory model of a GPU beyond barriers.
package emulator

import (
	"errors"
	"testing"
)

// Library returns the path of the emulated driver, building it where the sources changed. It skips the test where the emulator cannot be built.
func Library(t testing.TB) string {
	t.Helper()
	return library(t, Build)
}

// NullLibrary is Library for a driver that computes nothing (null/null.cc) and counts what it is asked for.
func NullLibrary(t testing.TB) string {
	t.Helper()
	return library(t, BuildNull)
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
