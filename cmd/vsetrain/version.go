package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

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
