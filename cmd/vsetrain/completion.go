package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vsetrain/internal/apps/search"
	"vsetrain/internal/run/config"
	"vsetrain/lab/selftest"
)

// completionExamples are those of the commands that cobra adds, by the name of the shell; "" is the command that holds
// them.
var completionExamples = map[string]string{
	"": `  vsetrain completion bash > /etc/bash_completion.d/vsetrain
  vsetrain completion fish | source`,
	"bash": `  source <(vsetrain completion bash)
  vsetrain completion bash > /etc/bash_completion.d/vsetrain`,
	"zsh": `  source <(vsetrain completion zsh)
  vsetrain completion zsh > "${fpath[1]}/_vsetrain"`,
	"fish": `  vsetrain completion fish | source
  vsetrain completion fish > ~/.config/fish/completions/vsetrain.fish`,
	"powershell": `  vsetrain completion powershell | Out-String | Invoke-Expression
  vsetrain completion powershell > vsetrain.ps1`,
}

// addCompletionExamples gives the completion commands the examples that every command has.
func addCompletionExamples(root *cobra.Command) {
	c, _, err := root.Find([]string{"completion"})
	if err != nil || c == root {
		return
	}
	c.Example = completionExamples[""]
	for _, sub := range c.Commands() {
		sub.Example = completionExamples[sub.Name()]
	}
}

// keyOfFlag names the configuration key whose values a flag takes.
var keyOfFlag = map[string]string{"device": "device.kind", "precision": "device.precision", "losses": "loss.name"}

// valuesOfFlag are the values of flags that are no keys of the configuration: by the name of the flag, or COMMAND
// --FLAG where others with this name take something else. "split" is open: a data set may have splits of other names.
var valuesOfFlag = map[string][]string{
	"split":                {"train", "dev", "test", "testall"},
	"protocol":             {"auto", "1k", "5k", "5x1k", "whole"},
	"report --format":      reportFormats,
	"sweep plan --output":  {"table", "json", "yaml", "script"},
	"launcher":             launchers,
	"data check --dtype":   {"auto", "f32", "f16"},
	"dtype":                {"f32", "f16"},
	"data convert --split": nil, // NAME=IDS
	"data convert --out":   nil, // a file too
	"data extract --out":   nil,
	"source-dtype":         {"f16", "f32", "f64"},
	"grid":                 {"nchw", "nhwc"},
	"data noise --rule":    {"captions", "images"},
	"embed --of":           {search.EmbedImages, search.EmbedCaptions},
	"selftest --device":    {"cuda", "cpu"},
	"selftest --family":    selftest.Families(),
	"serve --log":          {logText, logJSON, logNone},
}

// completeValues lets the shell complete the values of every flag that takes one of a few words, or a folder.
func completeValues(c *cobra.Command) {
	for _, sub := range c.Commands() {
		completeValues(sub)
	}
	_, path, _ := strings.Cut(c.CommandPath(), " ")
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if _, done := c.GetFlagCompletionFunc(f.Name); done {
			return
		}
		values, own := valuesOfFlag[path+" --"+f.Name]
		if !own {
			values = valuesOfFlag[f.Name]
		}
		if name, _ := pflag.UnquoteUsage(f); name == "DIR" && !own {
			must(c.MarkFlagDirname(f.Name))
		}
		if key := keyOfFlag[f.Name]; key != "" && !own {
			for _, v := range config.Complete(key + "=") {
				values = append(values, strings.TrimPrefix(v, key+"="))
			}
		}
		if len(values) > 0 {
			must(c.RegisterFlagCompletionFunc(f.Name,
				cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
		}
	})
}
