package main

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"vsetrain/data"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/system/options"
)

type dataNoiseOptions struct {
	Dir      string
	Fraction float64
	Seed     uint64
	Rule     string
	Out      string
	Force    bool
	PerImage options.PerSplit
}

func newCmdDataNoise(a *app) *cobra.Command {
	o := &dataNoiseOptions{}
	c := &cobra.Command{
		Use:   "noise DIR",
		Short: "Give a share of the training captions wrong images",
		Long: `Write a noise index: the image of each training caption, of which some are wrong. A run that names it in
data.noise_index trains on these pairs; the data set stays as it is (docs/noise.md).

With rule captions a share of the captions exchange their images at random (NCR, BiCro): with 145,000 captions and seed
96 the files are BiCro's of Flickr30K. With rule images a share of the images exchange all their captions (DECL, RCL).
Some come back to their own, so that slightly fewer than the share are wrong.`,
		Example: `  vsetrain data noise data/f30k --fraction 0.4 --seed 96 --out f30k-noise-0.4.npy
  vsetrain data noise data/f30k --fraction 0.2 --rule images --out f30k-images-0.2.npy
  vsetrain train --config vsepp/f30k-benchmark --set data.dir=data/f30k --set data.noise_index=f30k-noise-0.4.npy`,
		Args: oneArg("DIR", &o.Dir),
		RunE: a.runs(o),
	}
	f := c.Flags()
	f.Float64Var(&o.Fraction, "fraction", 0.4, "share of captions, or of images, that exchange, above 0 and up to 1")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the exchange, that of numpy.random.seed")
	f.StringVar(&o.Rule, "rule", "captions", "what exchanges: captions or images")
	f.StringVar(&o.Out, "out", "", "output `FILE` (.npy)")
	f.BoolVar(&o.Force, "force", false, "replace an existing file")
	addPerImage(f, &o.PerImage)
	return c
}

func (o *dataNoiseOptions) run(_ context.Context, a *app) error {
	switch {
	case o.Out == "":
		return usagef("name the file to write with --out FILE")
	case !(o.Fraction > 0 && o.Fraction <= 1):
		return usagef("--fraction: expected a number above 0 and up to 1, found %v", o.Fraction)
	case o.Seed > math.MaxUint32:
		return usagef("--seed: expected a number from 0 to %d, found %d", uint32(math.MaxUint32), o.Seed)
	case o.Rule != "captions" && o.Rule != "images":
		return usagef("--rule: expected captions or images, found %q", o.Rule)
	}
	there, err := runfs.Exists(o.Out)
	if err != nil {
		return err
	}
	if there && !o.Force {
		return fmt.Errorf("%s exists; replace it with --force, or name another file with --out", o.Out)
	}
	s, err := data.Open(o.Dir, "train", data.OpenOptions{CaptionsPerImage: o.PerImage.Of("train")})
	if err != nil {
		return err
	}
	defer s.Close()
	own := s.Groups()
	index := data.NoisyImages(own.Images(), o.Fraction, uint32(o.Seed))
	if o.Rule == "captions" {
		index = data.NoisyCaptions(own, o.Fraction, uint32(o.Seed))
	}
	_, wrong, err := data.NoisyPairs(index, own)
	if err != nil {
		return err
	}
	if err := data.WriteNoise(o.Out, index); err != nil {
		return err
	}
	a.Printf("%s: %d of %d training captions (%.1f %%) have another image than their own\n", o.Out, wrong, own.Items(),
		100*float64(wrong)/float64(own.Items()))
	return nil
}
