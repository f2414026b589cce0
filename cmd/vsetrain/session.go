package main

import (
	"os"
	"runtime"
	"time"

	"vsetrain/cmd/vsetrain/internal/probe"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/system/build"
)

// freeMemory returns the bytes of main memory that this process can get, 0 if unknown.
func freeMemory() int64 { return probe.FreeMemory("/") }

// session describes build, machine and process, for env.json and bug reports.
func session(now time.Time) runfs.Env {
	b := build.Current()
	e := runfs.Env{
		Version: b.Version, Commit: b.Commit, Dirty: b.Dirty, Go: runtime.Version(),
		OS: runtime.GOOS, Arch: runtime.GOARCH,
		CPU: cpuModel(), CPUs: runtime.NumCPU(), MemoryBytes: memoryBytes(),
		PID: os.Getpid(), Command: os.Args, Started: now,
	}
	e.Host, _ = os.Hostname() // empty if the system does not tell
	e.Dir, _ = os.Getwd()
	return e
}
