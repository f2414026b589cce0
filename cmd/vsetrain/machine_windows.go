package main

import (
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// cpuModel returns the model name of the first processor.
func cpuModel() string {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, `HARDWARE\DESCRIPTION\System\CentralProcessor\0`,
		registry.QUERY_VALUE)
	if err != nil {
		return runtime.GOARCH
	}
	defer k.Close()
	if name, _, err := k.GetStringValue("ProcessorNameString"); err == nil {
		return name
	}
	return runtime.GOARCH
}

var (
	kernel32             = windows.NewLazySystemDLL("kernel32.dll")
	globalMemoryStatusEx = kernel32.NewProc("GlobalMemoryStatusEx")
	getProcessMemoryInfo = kernel32.NewProc("K32GetProcessMemoryInfo")
)

// processorTime returns the processor time of the process, 0 if unknown.
func processorTime() time.Duration {
	var begun, ended, kernel, user windows.Filetime
	if windows.GetProcessTimes(windows.CurrentProcess(), &begun, &ended, &kernel, &user) != nil {
		return 0
	}
	ticks := func(t windows.Filetime) time.Duration { // of 100 ns
		return 100 * time.Duration(int64(t.HighDateTime)<<32|int64(t.LowDateTime))
	}
	return ticks(kernel) + ticks(user)
}

// memoryBytes returns the size of main memory, 0 if unknown.
func memoryBytes() uint64 {
	status := struct { // MEMORYSTATUSEX
		length, load uint32
		total        uint64
		others       [6]uint64
	}{length: 64}
	if ok, _, _ := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&status))); ok == 0 {
		return 0
	}
	return status.total
}

// peakMemory returns the peak resident memory of the process in bytes, 0 if unknown.
func peakMemory() int64 {
	counters := struct { // PROCESS_MEMORY_COUNTERS
		size, faults uint32
		peak         uintptr
		others       [7]uintptr
	}{size: 72}
	if ok, _, _ := getProcessMemoryInfo.Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&counters)),
		uintptr(counters.size)); ok == 0 {
		return 0
	}
	return int64(counters.peak)
}
