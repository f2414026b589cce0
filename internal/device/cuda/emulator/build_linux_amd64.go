package emulator

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// Build compiles the emulator into the user's cache folder, or returns the path of an earlier build from the same sources. VSETRAIN_EMULATOR
// names a build to use instead: a test with the tag vsecu is linked with one, and there is no second in a process.
func Build() (string, error) {
	if path := os.Getenv("VSETRAIN_EMULATOR"); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("VSETRAIN_EMULATOR: %w", err)
		}
		return path, nil
	}
	kernels := filepath.Join(here(), "..", "kernels")
	return cached("emulator", "libcuda_emulated.so", []string{filepath.Join(here(), "src", "*"), filepath.Join(kernels, "*.cu"), filepath.Join(kernels, "*.cuh")},
		func(cxx, path string) *exec.Cmd {
			return exec.Command("bash", filepath.Join(here(), "src", "build.sh"), kernels, path)
		})
}

// BuildNull is Build for the driver that computes nothing.
func BuildNull() (string, error) {
	source := filepath.Join(here(), "null", "null.cc")
	return cached("null", "libcuda_null.so", []string{source}, func(cxx, path string) *exec.Cmd {
		return exec.Command(cxx, "-shared", "-fPIC", "-O2", "-Wall", "-std=c++17", "-o", path, source)
	})
}

// here is the folder of this package's sources.
func here() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

// cached returns a library in the user's cache folder, built from the sources that the patterns name by the command that build returns.
func cached(kind, name string, sources []string, build func(cxx, path string) *exec.Cmd) (string, error) {
	cxx := os.Getenv("CXX")
	if cxx == "" {
		cxx = "g++"
	}
	if _, err := exec.LookPath(cxx); err != nil {
		return "", fmt.Errorf("%w: %w", errUnavailable, err)
	}
	sum, err := hashOf(cxx, sources...)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	path := filepath.Join(cache, "vsetrain", kind+"-"+sum, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	lock, err := os.Create(path + ".lock") // several test processes come here at once: one builds
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if out, err := build(cxx, path+".new").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return path, os.Rename(path+".new", path)
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
