//go:build (amd64 || arm64) && !nodl

package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// cachePath is the environment variable that names the folder in which the driver keeps compiled kernels.
const cachePath = "CUDA_CACHE_PATH"

// cacheKernels gives the driver a folder for compiled kernels if HOME, where it keeps them, is not writable: otherwise
// every start of the program would compile all kernels again. The folder is the user's cache folder, or a folder of
// temporary files that nobody else can write to. Call it before cuInit.
func cacheKernels(getenv func(string) string, setenv func(name, value string) error) error {
	if getenv(cachePath) != "" || getenv("CUDA_CACHE_DISABLE") == "1" {
		return nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) && writable(filepath.Join(home, ".nv", "ComputeCache")) {
		return nil
	}
	var folders []string
	if x := getenv("XDG_CACHE_HOME"); filepath.IsAbs(x) {
		folders = append(folders, filepath.Join(x, "vsetrain", "cuda"))
	}
	folders = append(folders, filepath.Join(os.TempDir(), fmt.Sprintf("vsetrain-cuda-%d", os.Getuid())))
	for _, f := range folders {
		if os.MkdirAll(f, 0o700) == nil && private(f) {
			return setenv(cachePath, f)
		}
	}
	return nil // slow, not wrong
}

// CacheFolder returns where the driver keeps compiled kernels, "" if it keeps none. Open puts its choice into the
// environment.
func CacheFolder(getenv func(string) string) string {
	switch {
	case getenv("CUDA_CACHE_DISABLE") == "1":
		return ""
	case getenv(cachePath) != "":
		return getenv(cachePath)
	case filepath.IsAbs(getenv("HOME")):
		return filepath.Join(getenv("HOME"), ".nv", "ComputeCache")
	}
	return ""
}

// writable reports whether a folder is writable, or can be made.
func writable(folder string) bool {
	for {
		info, err := os.Stat(folder)
		if err == nil {
			return info.IsDir() && unix.Access(folder, unix.W_OK|unix.X_OK) == nil
		}
		parent := filepath.Dir(folder)
		if !os.IsNotExist(err) || parent == folder {
			return false
		}
		folder = parent
	}
}

// private reports whether a folder belongs to this user, and only this user can write to it.
func private(folder string) bool {
	info, err := os.Lstat(folder)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Getuid() && unix.Access(folder, unix.W_OK|unix.X_OK) == nil
}
