package main

import (
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/internal/run/config"
)

// configFlags are the flags of every command that reads a configuration.
type configFlags struct {
	File    string         `flag:"config,c" arg:"FILE" usage:"configuration: a YAML FILE, or a preset (vsetrain config list)"`
	Set     []string       `flag:"set" arg:"key=value" usage:"set a configuration key, such as optim.lr=0.001"`
	Aliases []config.Alias // flags that stand for keys
	named   string         // "CONFIG" where an argument names the file
}

// extend adds shell completion, and takes the file from an argument too.
func (f *configFlags) extend(c *cobra.Command) {
	must(c.RegisterFlagCompletionFunc("config", completePreset))
	c.ValidArgsFunction = completePreset
	fileArg(c, &f.File, "CONFIG")
	take := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			f.named = "CONFIG"
		}
		return take(c, args)
	}
	must(c.RegisterFlagCompletionFunc("set", func(_ *cobra.Command, _ []string, word string) ([]string,
		cobra.ShellCompDirective) {
		directive := cobra.ShellCompDirectiveNoFileComp
		if !strings.Contains(word, "=") {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return config.Complete(word), directive
	}))
}

// completePreset completes the name of a preset, or a file if no preset matches.
func completePreset(_ *cobra.Command, _ []string, word string) (names []string, _ cobra.ShellCompDirective) {
	for _, name := range config.PresetNames() {
		if strings.HasPrefix(name, word) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}

// load reads the configuration: the flags override the environment, which overrides the file.
func (f *configFlags) load(a *app) (*config.Resolved, error) {
	return config.Load(config.Request{File: f.File, Named: f.named, Env: a.Environ, Set: f.Set, Flags: f.Aliases})
}

// must panics for mistakes of the program itself, such as completing a flag that does not exist.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
