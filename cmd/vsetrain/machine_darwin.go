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

// memoryBytes returns the size of main memory, 0 when unknown.
func memoryBytes() uint64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return n
}
