package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/system/options"
)

// trainedFlags are those of the commands that apply a trained network to a split.
type trainedFlags struct {
	Data, Vocab, Split string
	PerImage           options.PerSplit
	Set                []string
	Batch              int
	Device             device.Options
}

func (o *trainedFlags) add(c *cobra.Command) {
	o.Device = device.DefaultOptions()
	c.Flags().StringVar(&o.Split, "split", "test", "split of the data set")
	addTrainedFlags(c.Flags(), &o.Set, &o.Data, &o.PerImage, &o.Vocab, &o.Batch, &o.Device)
}

// addTrainedFlags adds those that every such command has.
func addTrainedFlags(f *pflag.FlagSet, set *[]string, data *string, perImage *options.PerSplit, vocab *string,
	batch *int, d *device.Options) {
	addWeightFlag(f, set)
	f.StringVar(data, "data", "", "`DIR` of the data set; empty is the one the run was trained on")
	addPerImage(f, perImage)
	f.StringVar(vocab, "vocab", "", "vocabulary `FILE`; empty is the one of the run or of the data set")
	f.IntVar(batch, "batch", 128, "images or captions embedded at a time; does not change the result")
	addDeviceFlags(f, d)
}

// addPerImage adds the flag of the commands that open a data set.
func addPerImage(f *pflag.FlagSet, p *options.PerSplit) {
	f.TextVar(p, "captions-per-image", options.PerSplit("auto"), "captions of one image: a `NUMBER`, or one for each "+
		"split such as train=20,test=1; auto reads it from the files")
}

// addWeightFlag adds that of the commands that read files of the reference repositories.
func addWeightFlag(f *pflag.FlagSet, set *[]string) {
	f.StringArrayVar(set, "set", nil, "option of the network as `key=value`, such as model.scan.lambda=9, where a "+
		"file of a reference repository does not tell it; may be repeated")
}

func (o *trainedFlags) check() error {
	if o.Batch < 1 {
		return usagef("--batch: expected a whole number of at least 1, found %d", o.Batch)
	}
	if o.Split == "" {
		return usagef("--split: expected the name of a split, such as test")
	}
	return checkDevice(&o.Device)
}
