package emulator

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Build compiles the emulator into the user's cache folder, or returns the path of an earlier build from the same
// sources.
func Build() (string, error) {
	return cached("emulator", "libcuda_emulated.so", []string{in("src", "*"), kernelSources("*.cu"),
		kernelSources("*.cuh")},
		func(cxx, path string) error {
			return run("bash", in("src", "build.sh"), kernelSources(), path)
		})
}

func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// in is a path in the folder of this package's sources.
func in(parts ...string) string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(append([]string{filepath.Dir(file)}, parts...)...)
}

// kernelSources is a path in the folder of the kernels that are emulated.
func kernelSources(parts ...string) string {
	return in(append([]string{"../../internal/compute/device/cuda/kernels"}, parts...)...)
}

// cached returns a library in the user's cache folder, which build makes where the sources that the patterns name are
// new.
func cached(kind, name string, sources []string, build func(cxx, path string) error) (string, error) {
	cxx := cmp.Or(os.Getenv("CXX"), "g++")
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
	if err := build(cxx, path+".new"); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
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

// BuildNVML compiles the emulated NVML, which knows the GPUs of the emulated driver. options are the compiler's.
func BuildNVML(options ...string) (string, error) {
	source := in("nvml", "nvml.cc")
	return cached("nvml"+strings.Join(options, ""), "libnvidia-ml_emulated.so", []string{source},
		func(cxx, path string) error {
			return run(cxx, append(options, "-std=c++17", "-O1", "-Wall", "-fPIC", "-shared", "-o", path, source)...)
		})
}

// buildStrict compiles the strict driver, which computes nothing and reports what a GPU's driver refuses
// (strict/strict.h).
func buildStrict() (string, error) {
	registers := kernelSources("registers.tsv")
	return cached("strict", "libcuda_strict.so", []string{in("strict", "*"), registers},
		func(cxx, path string) error {
			sources, err := filepath.Glob(in("strict", "*.cc"))
			if err != nil {
				return err
			}
			return run(cxx, append(sources, "-std=c++17", "-O1", "-Wall", "-fPIC", "-shared",
				fmt.Sprintf("-DREGISTERS=%q", registers), "-o", path)...)
		})
}
