package main

import (
	"context"

	"github.com/spf13/cobra"

	"vsetrain/internal/apps/sweep"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/inputs"
)

func newCmdConfig(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "config",
		Short: "List presets, show the configuration or its JSON Schema",
		Example: `  vsetrain config list --network vsepp
  vsetrain config show --config demo
  vsetrain config schema > vsetrain.schema.json`,
	}, newCmdConfigList(a), newCmdConfigShow(a), newCmdConfigSchema(a))
}

type configShowOptions struct {
	configFlags
	Docs  bool `flag:"docs" not:"plain" usage:"explain every key"`
	Plain bool `flag:"plain" usage:"leave out all comments, as in a run directory's config.yaml"`
}

func newCmdConfigShow(a *app) *cobra.Command {
	return a.command(&configShowOptions{}, &cobra.Command{
		Use:   "show",
		Short: "Print the resolved configuration and where each value came from",
		Long: `Print the configuration that --set, the environment, the file and the defaults
give, in this order of precedence. A comment on each line says where its value
came from.

The variable VSETRAIN_OPTIM_LR sets optim.lr. The output is itself a configuration. Warnings about settings that do
not go together, such as a warm-up longer than the run, go to standard error.`,
		Example: `  vsetrain config show
  vsetrain config show --config vsepp/f30k-lseh --set train.batch=64
  vsetrain config show --docs`,
	})
}

func (o *configShowOptions) run(_ context.Context, a *app) error {
	r, err := o.load(a)
	if err != nil {
		return err
	}
	if o.Plain {
		a.Print(string(config.Marshal(&r.Config)))
	} else {
		a.Print(r.Show(o.Docs))
	}
	warnings, err := r.Together(inputs.Captions(&r.Config))
	for _, w := range append(warnings, err) {
		if w != nil {
			a.warn(w)
		}
	}
	return nil
}

type configSchemaOptions struct {
	Sweep bool `flag:"sweep" usage:"print the schema of sweep files (docs/sweeps.md)"`
}

func newCmdConfigSchema(a *app) *cobra.Command {
	return a.command(&configSchemaOptions{}, &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of configurations or sweep files",
		Long: `Print the JSON Schema (draft 2020-12) of the configuration or of sweep files.
Editors with a YAML language server check and complete files by it.

Such a file begins with

  # yaml-language-server: $schema=vsetrain.schema.json`,
		Example: `  vsetrain config schema > vsetrain.schema.json
  vsetrain config schema --sweep > sweep.schema.json
  vsetrain config schema | jq .properties.optim`,
	})
}

func (o *configSchemaOptions) run(_ context.Context, a *app) error {
	if o.Sweep {
		a.Print(sweep.Schema)
	} else {
		a.Print(string(config.Schema()))
	}
	return nil
}
