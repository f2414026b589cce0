package main

import "github.com/spf13/cobra"

func newCmdData(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "data",
		Short: "Make, check and convert data sets",
		Example: `  vsetrain data synth data/demo
  vsetrain data check data/f30k`,
	}, newCmdDataSynth(a), newCmdDataCheck(a), newCmdDataConvert(a), newCmdDataExtract(a), newCmdDataVocab(a),
		newCmdDataNoise(a), newCmdDataRemove(a), newCmdDataFold(a))
}
