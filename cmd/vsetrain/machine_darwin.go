package main

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// cpuModel returns the model name of the processor.
func cpuModel() string {
	if name, err := unix.Sysctl("machdep.cpu.brand_string"); err == nil {
		return name
	}
	return runtime.GOARCH
}

// memoryBytes returns the size of main memory, 0 if unknown.
func memoryBytes() uint64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return n
}

// peakMemory returns the peak resident memory of the process in bytes, 0 if unknown.
func peakMemory() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Maxrss // bytes on macOS
}
