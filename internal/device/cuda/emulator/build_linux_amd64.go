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
	if out, err := exec.Command("bash", filepath.Join(here, "src", "build.sh"), kernels, path).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the emulated CUDA driver: %w\n%s", err, out)
	}
	return path, nil
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
