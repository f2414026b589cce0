//go:build !linux || !(amd64 || arm64)

package driver

import (
	"errors"
	"runtime"
)

var errSystem = errors.New("CUDA is supported on linux/amd64 and linux/arm64, this is " + runtime.GOOS + "/" +
	runtime.GOARCH)

// Binding names how libcuda is called; here it cannot be.
const Binding = "none"

// Open says that this system has no CUDA driver.
func Open(string) (Driver, error) { return nil, errSystem }

// OpenBLAS says that this system has no cuBLAS.
func OpenBLAS(string, Stream) (BLAS, error) { return nil, errSystem }
