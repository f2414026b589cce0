//go:build !(linux && amd64)

package emulator

import (
	"fmt"
	"runtime"
)

// Build reports that there is no emulator for this machine.
func Build() (string, error) {
	return "", fmt.Errorf("%w: it is for linux/amd64, this is %s/%s", errUnavailable, runtime.GOOS, runtime.GOARCH)
}

// BuildNVML reports the same of NVML.
func BuildNVML(...string) (string, error) { return Build() }

// buildStrict reports the same of the strict driver.
func buildStrict() (string, error) { return Build() }
