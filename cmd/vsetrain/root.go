package main

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vsetrain/cmd/vsetrain/internal/flags"
)

// newCmdRoot returns the whole command tree. A new command is one file and one entry here.
func newCmdRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "vsetrain",
		Short: "Train, evaluate and explore visual-semantic embedding networks",
		Long: `Train networks that match images and captions, measure them, and explore what
they learned. Images are region features (.npy), captions are text files;
docs/data.md describes the layout of a data set.`,
		Example: `  vsetrain data synth data/demo                 # a small synthetic data set
  vsetrain precompute-svd --data data/demo      # semantic vectors for the LSEH loss
  vsetrain train --config demo                  # the run runs/demo
  vsetrain eval runs/demo                       # recalls on the test split`,
		Version:       versionText(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	a.addVerbosity(root.PersistentFlags())
	root.SetVersionTemplate("vsetrain {{.Version}}\n")
	const others = "Other:"
	add := func(title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: title, Title: title})
		for _, c := range commands {
			c.GroupID = title
			root.AddCommand(c)
		}
	}
	add("Prepare data:", newCmdQuickstart(a), newCmdData(a), newCmdPrecomputeSVD(a), newCmdPrecomputeBert(a),
		newCmdMine(a))
	add("Train and measure:", newCmdTrain(a), newCmdLaunch(a), newCmdLRRange(a), newCmdSweep(a), newCmdEval(a),
		newCmdReport(a), newCmdTrack(a), newCmdAverage(a), newCmdImport(a), newCmdExport(a))
	add("Use a model:", newCmdSearch(a), newCmdEmbed(a), newCmdServe(a), newCmdView(a))
	add(others, newCmdConfig(a), newCmdBench(a), newCmdVerify(a), newCmdDoctor(a), newCmdSelftest(a), newCmdVersion(a),
		newCmdMan(a))
	root.SetHelpCommandGroupID(others)
	root.SetCompletionCommandGroupID(others)
	group(root)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	addCompletionExamples(root)
	a.showHelp(root)
	root.SetFlagErrorFunc(flagError)
	a.watch(root)
	return root
}

// addVerbosity adds the flags --quiet and --verbose of every command.
func (a *app) addVerbosity(f *pflag.FlagSet) {
	f.BoolVar(&a.Quiet, "quiet", false, "print only results, warnings and errors, no progress")
	f.BoolVar(&a.Verbose, "verbose", false, "print progress every second, also into a pipe, and the time of each part")
}

// showHelp sets the help of all commands: the first paragraph of the long text, usage, examples, flags as package flags
// lists them, and where the manual is. The man page has the whole long text.
func (a *app) showHelp(root *cobra.Command) {
	cobra.AddTemplateFunc("about", func(c *cobra.Command) string {
		first, _, _ := strings.Cut(cmp.Or(c.Long, c.Short), "\n\n")
		return strings.TrimSpace(first)
	})
	cobra.AddTemplateFunc("manual", func(c *cobra.Command) string {
		return strings.Join(append([]string{"man " + manTitle(c)}, manual(c)...), ", ")
	})
	root.SetHelpTemplate("{{about .}}\n\n{{.UsageString}}\nManual: {{manual .}}\n")
	cobra.AddTemplateFunc("flagUsages", func(f *pflag.FlagSet) string { return flags.Usages(f, min(a.Width, 100)) })
	usage := root.UsageTemplate()
	for _, set := range []string{"LocalFlags", "InheritedFlags"} {
		usage = strings.ReplaceAll(usage, "."+set+".FlagUsages", "flagUsages ."+set)
	}
	root.SetUsageTemplate(usage)
}

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
