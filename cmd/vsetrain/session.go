package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"vsetrain/internal/runfs"
)

// version is the release; the build may set it with -ldflags "-X main.version=1.2.3".
var version = "0.1.0-dev"

// session describes build, machine and process, for env.json and bug reports.
func session(now time.Time) runfs.Env {
	e := runfs.Env{
		Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		CPU: cpuModel(), CPUs: runtime.NumCPU(), MemoryBytes: memoryBytes(),
		PID: os.Getpid(), Command: os.Args, Started: now,
	}
	e.Host, _ = os.Hostname() // empty where the system does not tell
	e.Dir, _ = os.Getwd()
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				e.Commit = s.Value[:min(12, len(s.Value))]
			case "vcs.modified":
				e.Dirty = s.Value == "true"
			}
		}
	}
	return e
}
