package main

import "github.com/spf13/cobra"

// Groups of commands in the help.
const (
	groupPrepare = "prepare"
	groupTrain   = "train"
	groupUse     = "use"
	groupOther   = "other"
)

// newCmdRoot returns the whole command tree. A new command is one file and one entry here.
func newCmdRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "vsetrain",
		Short: "Train, evaluate and explore visual-semantic embedding networks",
		Long: `vsetrain trains networks that match images and captions, measures them and explores what they learned.

Images are region features (.npy), captions are text files; see README.md for the layout of a data set.`,
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
	root.AddGroup(
		&cobra.Group{ID: groupPrepare, Title: "Prepare data:"},
		&cobra.Group{ID: groupTrain, Title: "Train and measure:"},
		&cobra.Group{ID: groupUse, Title: "Use a model:"},
		&cobra.Group{ID: groupOther, Title: "Other:"},
	)
	add := func(id string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	add(groupPrepare, newCmdQuickstart(a), newCmdData(a), newCmdPrecomputeSVD(a), newCmdPrecomputeBert(a),
		newCmdMine(a))
	add(groupTrain, newCmdTrain(a), newCmdLaunch(a), newCmdLRRange(a), newCmdSweep(a), newCmdEval(a), newCmdReport(a),
		newCmdTrack(a), newCmdAverage(a), newCmdImport(a), newCmdExport(a))
	add(groupUse, newCmdSearch(a), newCmdEmbed(a), newCmdServe(a), newCmdView(a))
	add(groupOther, newCmdConfig(a), newCmdBench(a), newCmdVerify(a), newCmdDoctor(a),
		newCmdSelftest(a), newCmdVersion(a), newCmdMan(a))
	root.SetHelpCommandGroupID(groupOther)
	root.SetCompletionCommandGroupID(groupOther)
	group(root)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	addCompletionExamples(root)
	completeValues(root)
	readNumbers(root)
	showFlags(root)
	root.SetFlagErrorFunc(flagError)
	a.watch(root)
	return root
}
