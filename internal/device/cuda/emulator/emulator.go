// Package emulator builds a CUDA driver that runs on the host, for tests: a shared object with the entries of libcuda and cuBLAS that vsetrain
// calls. It executes the same kernel sources that become PTX, compiled by g++, one fiber for each CUDA thread, and finds
//
//   - loads and stores outside an allocation, or misaligned; memory is filled with NaN and no address is used twice;
//   - races in device and in shared memory, and barriers that not all threads reach; threads run in several orders;
//   - calls from a thread without the context, wrong sizes of grids, parameters that differ from the PTX.
//
// What it cannot find: wrong PTX, anything about speed, and the memory model of a GPU beyond barriers.
package emulator

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// Library returns the path of the emulated driver, building it where the sources changed. It skips the test where the emulator cannot be built.
func Library(t testing.TB) string {
	t.Helper()
	path, err := Build()
	if errors.Is(err, errUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var errUnavailable = errors.New("no emulated CUDA driver")

// Build compiles the emulator into the user's cache folder, or returns the path of an earlier build from the same sources. VSETRAIN_EMULATOR
// names a build to use instead: a test with the tag vsecu is linked with one, and there is no second in a process.
func Build() (string, error) {
	if path := os.Getenv("VSETRAIN_EMULATOR"); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("VSETRAIN_EMULATOR: %w", err)
		}
		return path, nil
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("%w: it is for linux/amd64, this is %s/%s", errUnavailable, runtime.GOOS, runtime.GOARCH)
	}
	cxx := os.Getenv("CXX")
	if cxx == "" {
		cxx = "g++"
	}
	if _, err := exec.LookPath(cxx); err != nil {
		return "", fmt.Errorf("%w: %w", errUnavailable, err)
	}
	_, file, _, _ := runtime.Caller(0)
	here := filepath.Dir(file)
	kernels := filepath.Join(here, "..", "kernels")
	sum, err := hashOf(cxx, filepath.Join(here, "src", "*"), filepath.Join(kernels, "*.cu"), filepath.Join(kernels, "*.cuh"))
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	path := filepath.Join(cache, "vsetrain", "emulator-"+sum, "libcuda_emulated.so")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	// Several test processes may build at once: each its own file, the last rename wins.
	own := fmt.Sprintf("%s.%d", path, os.Getpid())
	if out, err := exec.Command("bash", filepath.Join(here, "src", "build.sh"), kernels, own).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the emulated CUDA driver: %w\n%s", err, out)
	}
	return path, os.Rename(own, path)
}

// hashOf is over the names and contents of the files that match.
func hashOf(cxx string, patterns ...string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, cxx)
	for _, p := range patterns {
		files, err := filepath.Glob(p)
		if err != nil {
			return "", err
		}
		for _, name := range files {
			f, err := os.Open(name)
			if err != nil {
				return "", err
			}
			fmt.Fprintln(h, filepath.Base(name))
			_, err = io.Copy(h, f)
			f.Close()
			if err != nil {
				return "", err
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}
