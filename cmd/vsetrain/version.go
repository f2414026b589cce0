package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/probe"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/system/build"
)

type versionOptions struct {
	JSON bool `flag:"json" usage:"print version, build and machine as JSON, as in a run directory's env.json"`
}

func newCmdVersion(a *app) *cobra.Command {
	return a.command(&versionOptions{}, &cobra.Command{
		Use:   "version",
		Short: "Print the version, and with --json the machine",
		Example: `  vsetrain version
  vsetrain version --json`,
	})
}

func (o *versionOptions) run(_ context.Context, a *app) error {
	if o.JSON {
		return printJSON(a, session(a.Now()))
	}
	a.Printf("vsetrain %s\n", versionText())
	return nil
}

// versionText returns "0.1.0 (0123456789ab) go1.26.8 linux/amd64".
func versionText() string {
	return fmt.Sprintf("%s %s %s/%s", build.Current(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

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
