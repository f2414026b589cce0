package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/data/synth"
	"vsetrain/internal/files/npy"
)

type dataSynthOptions struct {
	synth.Options
	Dir, DType string
}

func newCmdDataSynth(a *app) *cobra.Command {
	o := &dataSynthOptions{Options: synth.Default(), DType: "f32"}
	c := &cobra.Command{
		Use:   "synth DIR",
		Short: "Write a synthetic data set: scenes, region features and captions",
		Long: `Write a synthetic world in the layout of the real data sets: scenes of objects with attributes
and relations, region features of their look, and captions that a grammar makes of them. Recalls climb from
chance, and better networks reach higher ones. The same options and seed give the same bytes.`,
		Example: `  vsetrain data synth data/demo
  vsetrain data synth data/big --train 29000 --dev 1000 --test 1000 --dtype f16`,
		Args: oneArg("DIR", &o.Dir),
		RunE: a.runs(o),
	}
	f := c.Flags()
	f.IntVar(&o.Train, "train", o.Train, "images of the train split")
	f.IntVar(&o.Dev, "dev", o.Dev, "images of the dev split")
	f.IntVar(&o.Test, "test", o.Test, "images of the test split")
	f.IntVar(&o.TestAll, "testall", o.TestAll, "images of the testall split")
	f.IntVar(&o.Regions, "regions", o.Regions, "regions per image")
	f.IntVar(&o.Dim, "dim", o.Dim, "feature size of a region")
	f.IntVar(&o.CaptionsPerImage, "captions", o.CaptionsPerImage, "captions per image")
	f.StringVar(&o.DType, "dtype", o.DType, "feature type: f32 or f16")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of the world")
	f.BoolVar(&o.Repeat, "repeat", false, "store each image row once per caption in dev and test, as SCAN's "+
		"Flickr30K does")
	f.BoolVar(&o.Images, "images", false, "also draw every scene as a PNG")
	f.StringSliceVar(&o.ImagesOf, "images-of", nil, "also draw the scenes of these `SPLITS` as PNGs, with commas")
	f.BoolVar(&o.Force, "force", false, "replace a data set that is already there")
	f.IntVar(&o.Threads, "threads", 0, "CPU threads; 0 uses all processors")
	c.MarkFlagsMutuallyExclusive("images", "images-of")
	return c
}

func (o *dataSynthOptions) run(_ context.Context, a *app) error {
	var err error
	if o.Options.DType, err = dtype(o.DType); err != nil {
		return err
	}
	if err := o.Options.Validate(); err != nil {
		return usagef("%v", err)
	}
	p := a.NewProgress("data synth", 0, int64(o.Train+o.Dev+o.Test+o.TestAll))
	err = synth.Generate(o.Dir, o.Options, func(done, _ int) { p.Set(int64(done), "images") })
	p.Close()
	if err != nil {
		return err
	}
	var splits []string
	for _, s := range []struct {
		name   string
		images int
	}{{"train", o.Train}, {"dev", o.Dev}, {"test", o.Test}, {"testall", o.TestAll}} {
		if s.images > 0 {
			splits = append(splits, fmt.Sprintf("%s %d", s.name, s.images))
		}
	}
	a.Printf("%s: %s images of %d x %d features (%s), %d captions each\n", o.Dir, strings.Join(splits, ", "), o.Regions,
		o.Dim, o.DType, o.CaptionsPerImage)
	return nil
}

// dtype reads the name of a feature type.
func dtype(name string) (npy.DType, error) {
	switch name {
	case "f32":
		return npy.F32, nil
	case "f16":
		return npy.F16, nil
	}
	return "", usagef("--dtype: expected f32 or f16, found %q", name)
}
