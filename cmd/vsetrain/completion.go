package main

import "github.com/spf13/cobra"

// completionExamples are examples for the completion commands of cobra, by the name of the shell; "" is the command
// without a shell.
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
