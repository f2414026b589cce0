package main

import (
	"github.com/spf13/cobra"

	"vsetrain/internal/compute/device"
)

// trainedFlags are those of the commands that apply a trained network to a split.
type trainedFlags struct {
	Data, Vocab, Split string
	Batch              int
	Device             device.Options
}

func (o *trainedFlags) add(c *cobra.Command) {
	o.Device = device.DefaultOptions()
	f := c.Flags()
	f.StringVar(&o.Data, "data", "", "`DIR` of the data set; empty is the one the run was trained on")
	f.StringVar(&o.Vocab, "vocab", "", "vocabulary `FILE`; empty is the one of the run or of the data set")
	f.StringVar(&o.Split, "split", "test", "split of the data set")
	f.IntVar(&o.Batch, "batch", 128, "images or captions embedded at a time; does not change the result")
	addDeviceFlags(f, &o.Device)
	must(c.MarkFlagDirname("data"))
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
