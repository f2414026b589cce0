package main

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/run/analysis"
	"vsetrain/internal/run/checkpoints"
)

type mineOptions struct {
	Source       string  `args:"CHECKPOINT"` // or a score matrix (.npy)
	Out          string  `flag:"out" arg:"FILE" need:"yes" usage:"output FILE (.safetensors)"`
	K            int     `flag:"k" default:"8" min:"1" usage:"negatives per caption and per image"`
	Rho          float64 `flag:"rho" default:"0.95" min:"0" max:"1" usage:"leave out negatives that score above this share of the match; 0 keeps all"`
	Force        bool    `flag:"force" usage:"replace an existing file"`
	trainedFlags `group:"Data and network"`
}

func newCmdMine(a *app) *cobra.Command {
	return a.command(&mineOptions{}, &cobra.Command{
		Use:   "mine CHECKPOINT|SCORES.npy",
		Short: "Find the hardest negatives of the training split",
		Long: `Find the hardest negatives of each caption and image over the whole training
split, and write them to a file. A run that names the file in data.mined has
them in the batch of their anchor.

The scores come from a checkpoint in evaluation mode, or from a matrix of float32 [images, captions], which is read
block by block. Negatives that score above rho times the match are left out, because they may be right. With
semantic vectors (precompute-svd) the command also says how many of the mined negatives are false ones.`,
		Example: `  vsetrain mine runs/vsepp-f30k-lmh1 --k 8 --rho 0.95 --out mined.safetensors
  vsetrain mine scores.npy --data data/f30k --out mined.safetensors
  vsetrain train --config vsepp/f30k-benchmark --set data.mined=mined.safetensors`,
	})
}

func (o *mineOptions) check(*app) error {
	if o.stored() && o.Data == "" {
		return usagef("which data set are the scores of? name it with --data DIR")
	}
	return nil
}

func (o *mineOptions) stored() bool { return strings.EqualFold(filepath.Ext(o.Source), ".npy") }

func (o *mineOptions) run(ctx context.Context, a *app) error {
	if err := checkpoints.RefuseOverwrite(o.Out, o.Force); err != nil { // before the work, not after it
		return err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	bars := phases{app: a}
	r := analysis.MineRequest{Request: o.request(a, o.Source, ""),
		Options: eval.MineOptions{Depth: o.K, Rho: o.Rho}, Batch: o.Batch, Progress: bars.show}
	if o.stored() {
		r.Scores = o.Source
	}
	rep, err := analysis.Mine(ctx, r)
	bars.close()
	if err != nil {
		return err
	}
	if err := data.WriteMined(o.Out, rep.Mined); err != nil {
		return err
	}
	a.Printf("%s\n%s: %d negatives of each of %d captions and %d images; %d captions and %d images have fewer\n",
		rep.Found, o.Out, o.K, rep.Captions, rep.Images, rep.FewerCaptions, rep.FewerImages)
	if rep.Looked > 0 {
		a.Printf("false ones by semantic vectors: %.1f %% of the captions of mined images, %.1f %% of random ones "+
			"(%d captions)\n", rep.False, rep.RandomFalse, rep.Looked)
	}
	return nil
}
