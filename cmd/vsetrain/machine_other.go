//go:build !linux && !darwin

package main

import "runtime"

// cpuModel returns the architecture where the system is not asked for more.
func cpuModel() string { return runtime.GOARCH }

// memoryBytes returns 0: unknown.
func memoryBytes() uint64 { return 0 }

// peakMemory returns 0: unknown.
func peakMemory() int64 { return 0 }
