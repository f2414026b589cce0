package main

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/ranks"
	"vsetrain/internal/run/checkpoints"
	"vsetrain/models"
)

type precomputeBertOptions struct {
	checkpoints.SentenceRequest
	rankFlags
	Data  string
	Split string
	Force bool
}

func newCmdPrecomputeBert(a *app) *cobra.Command {
	o := &precomputeBertOptions{SentenceRequest: checkpoints.SentenceRequest{Device: device.DefaultOptions()}}
	c := &cobra.Command{
		Use:   "precompute-bert",
		Short: "Compute sentence vectors of the training captions with BERT, for LSEH",
		Long: `Encode the training captions with a pretrained BERT, without training it, and write one vector
for each: train_bert.npy beside the captions. The LSEH loss takes the similarity of captions from them where
loss.lseh.semantics is bert. The folder of BERT is laid out as Hugging Face's bert-base-uncased: vocab.txt, and
model.safetensors or pytorch_model.bin; tokenizer_config.json says whether it is cased. --procs N divides the captions
over N processes.`,
		Example: `  vsetrain precompute-bert --data data/f30k --bert data/bert-base-uncased
  vsetrain precompute-bert --data data/f30k --bert data/bert-base-uncased --pool mean --precision bf16
  vsetrain precompute-bert --data data/f30k --bert data/bert-base-uncased --procs 4`,
		Args: noArgs,
		RunE: a.runs(o),
	}
	f := c.Flags()
	f.StringVar(&o.Data, "data", "", "`DIR` of the data set")
	f.StringVar(&o.Bert, "bert", "", "`DIR` of the pretrained BERT")
	f.StringVar(&o.Pool, "pool", "pooler", "vector of a caption: pooler (its output for [CLS]), cls (last hidden "+
		"state of [CLS]), mean (of all last hidden states)")
	f.StringVar(&o.Split, "split", "train", "split whose captions are taken")
	f.StringVar(&o.Out, "out", "", "output `FILE` (.npy or .txt); empty is SPLIT_bert.npy in the data folder")
	f.BoolVar(&o.Force, "force", false, "replace existing vectors")
	f.IntVar(&o.Batch, "batch", 64, "captions at a time")
	addDeviceFlags(f, &o.Device)
	o.define(f)
	for _, name := range []string{"data", "bert"} {
		must(c.MarkFlagRequired(name))
	}
	return c
}

func (o *precomputeBertOptions) run(ctx context.Context, a *app) error {
	if !slices.Contains(models.SentencePools, o.Pool) {
		return usagef("--pool %s; expected pooler, cls or mean", o.Pool)
	}
	if err := checkDevice(&o.Device); err != nil {
		return err
	}
	if o.Batch < 1 {
		return usagef("--batch %d; expected at least 1", o.Batch)
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	var err error
	if o.Captions, err = captionFile(o.Data, o.Split, "--data", "--split"); err != nil {
		return err
	}
	o.BLAS, o.Warn = a.getenv("VSETRAIN_BLAS"), a.warn
	o.Out = cmp.Or(o.Out, filepath.Join(o.Data, o.Split+"_bert.npy"))
	if !o.Force {
		was, err := existingVectors(o.Out)
		if err != nil {
			return err
		}
		if was != nil {
			return replaceVectors(o.Out, was, "those of "+o.Bert)
		}
	}
	bars := phases{app: a}
	o.Progress = func(done, total int) { bars.show("encode", done, total) }
	return o.divide(ctx, a, &o.Device, func(ctx context.Context, world device.Job) error {
		o.World = world
		r, err := checkpoints.PrecomputeBert(ctx, o.SentenceRequest)
		bars.close()
		if err != nil || !ranks.First(world) {
			return err
		}
		a.Printf("%s: %d vectors of %d values (%s), on %s\n", o.Out, r.Captions, r.Dim, o.Pool, r.Device)
		if r.Cut > 0 {
			a.Printf("%d captions fill all positions of the encoder; what is longer was cut\n", r.Cut)
		}
		return nil
	})
}
