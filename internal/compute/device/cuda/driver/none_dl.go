//go:build !nodl

package driver

import (
	"errors"
	"runtime"
)

// ErrNone says why this program has no CUDA; it is nil if it has.
var ErrNone = unsupported(runtime.GOOS, runtime.GOARCH)

func unsupported(system, arch string) error {
	if system == "linux" && (arch == "amd64" || arch == "arm64") {
		return nil
	}
	return errors.New("CUDA is supported on linux/amd64 and linux/arm64, this is " + system + "/" + arch)
}
