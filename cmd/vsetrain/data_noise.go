package main

import (
	"context"

	"github.com/spf13/cobra"

	"vsetrain/data"
	"vsetrain/internal/run/checkpoints"
)

type dataNoiseOptions struct {
	Dir      string  `args:"DIR"`
	Fraction float64 `flag:"fraction" default:"0.4" above:"0" max:"1" usage:"share of the captions or images that exchange"`
	Seed     uint64  `flag:"seed" default:"1" max:"4294967295" usage:"seed of the exchange, as numpy.random.seed takes it"`
	Rule     string  `flag:"rule" enum:"captions|images" default:"captions" usage:"what exchanges"`
	Out      string  `flag:"out" arg:"FILE" need:"yes" usage:"output FILE (.npy)"`
	Force    bool    `flag:"force" usage:"replace an existing file"`
	perImageFlag
}

func newCmdDataNoise(a *app) *cobra.Command {
	return a.command(&dataNoiseOptions{}, &cobra.Command{
		Use:   "noise DIR",
		Short: "Give a share of the training captions wrong images",
		Long: `Write a noise index, which gives a share of the training captions wrong images.
A run that names it in data.noise_index trains on these pairs; the data set does
not change.

With rule captions, a share of the captions exchange their images at random (NCR, BiCro): with 145,000 captions and
seed 96 the files equal BiCro's for Flickr30K. With rule images, a share of the images exchange all their captions
(DECL, RCL). Some return to their own image, so slightly fewer than the share are wrong.`,
		Example: `  vsetrain data noise data/f30k --fraction 0.4 --seed 96 --out f30k-noise-0.4.npy
  vsetrain data noise data/f30k --fraction 0.2 --rule images --out f30k-images-0.2.npy
  vsetrain train --config vsepp/f30k-benchmark --set data.dir=data/f30k --set data.noise_index=f30k-noise-0.4.npy`,
	})
}

func (o *dataNoiseOptions) run(_ context.Context, a *app) error {
	if err := checkpoints.RefuseOverwrite(o.Out, o.Force); err != nil {
		return err
	}
	s, err := data.Open(o.Dir, "train", data.OpenOptions{CaptionsPerImage: o.PerImage.Of("train")})
	if err != nil {
		return err
	}
	defer s.Close()
	own := s.Groups()
	index := data.NoisyCaptions(data.EqualGroups(own.Images(), 1), o.Fraction, uint32(o.Seed))
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
