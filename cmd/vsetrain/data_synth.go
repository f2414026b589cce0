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
	Dir   string        `args:"DIR"`
	World synth.Options `flags:"train dev test testall regions dim captions seed repeat images images-of=images_of force threads"`
	DType string        `flag:"dtype" enum:"f32|f16" default:"f32" usage:"type of the stored features"`
}

func newCmdDataSynth(a *app) *cobra.Command {
	return a.command(&dataSynthOptions{World: synth.Default()}, &cobra.Command{
		Use:   "synth DIR",
		Short: "Write a synthetic data set: scenes, region features and captions",
		Long: `Write a synthetic data set in the layout of the real ones: scenes of objects,
region features and captions. The same options and seed give the same bytes.

Objects have attributes and relations, and a grammar makes the captions. Recalls rise from chance, and better
networks reach higher ones.`,
		Example: `  vsetrain data synth data/demo
  vsetrain data synth data/big --train 29000 --dev 1000 --test 1000 --dtype f16`,
	})
}

func (o *dataSynthOptions) run(_ context.Context, a *app) error {
	w := o.World
	w.DType = dtypes[o.DType]
	p := a.NewProgress("data synth", 0, int64(w.Train+w.Dev+w.Test+w.TestAll))
	err := synth.Generate(o.Dir, w, func(done, _ int) { p.Set(int64(done), "images") })
	p.Close()
	if err != nil {
		return err
	}
	var splits []string
	for _, s := range []struct {
		name   string
		images int
	}{{"train", w.Train}, {"dev", w.Dev}, {"test", w.Test}, {"testall", w.TestAll}} {
		if s.images > 0 {
			splits = append(splits, fmt.Sprintf("%s %d", s.name, s.images))
		}
	}
	a.Printf("%s: %s images of %d x %d features (%s), %d captions each\n", o.Dir, strings.Join(splits, ", "), w.Regions,
		w.Dim, o.DType, w.CaptionsPerImage)
	return nil
}

// dtypes are the types of features, by their names.
var dtypes = map[string]npy.DType{"f16": npy.F16, "f32": npy.F32, "f64": npy.F64}
