package main

import (
	"encoding/json"

	"github.com/spf13/cobra"
)

type versionOptions struct{ JSON bool }

func newCmdVersion(a *app) *cobra.Command {
	o := &versionOptions{}
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and with --json the machine, for bug reports",
		Example: `  vsetrain version
  vsetrain version --json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return o.run(a) },
	}
	c.Flags().BoolVar(&o.JSON, "json", false, "print version, build and machine as JSON, as in a run directory's env.json")
	return c
}

func (o *versionOptions) run(a *app) error {
	e := session(a.Now())
	if o.JSON {
		enc := json.NewEncoder(a.Out)
		enc.SetIndent("", "  ")
		return enc.Encode(e)
	}
	commit := e.Commit
	if e.Dirty {
		commit += "+changes"
	}
	if commit != "" {
		commit = " (" + commit + ")"
	}
	a.Printf("vsetrain %s%s %s %s/%s\n", e.Version, commit, e.Go, e.OS, e.Arch)
	return nil
}
