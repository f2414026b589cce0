package main

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/ranks"
	"vsetrain/internal/run/checkpoints"
)

type precomputeBertOptions struct {
	Data  string `flag:"data" arg:"DIR" need:"yes" usage:"DIR of the data set"`
	Bert  string `flag:"bert" arg:"DIR" need:"yes" usage:"DIR of the pretrained BERT"`
	Pool  string `flag:"pool" enum:"pooler|cls|mean" default:"pooler" usage:"vector of a caption: pooler (its output for [CLS]), cls (last hidden state of [CLS]), mean (of all last hidden states)"`
	Split string `flag:"split" arg:"SPLIT" default:"train" usage:"split to take captions from"`
	Out   string `flag:"out" arg:"FILE" usage:"output FILE (.npy or .txt)" empty:"SPLIT_bert.npy in the data folder"`
	Force bool   `flag:"force" usage:"replace existing vectors"`
	Batch int    `flag:"batch" default:"64" min:"1" usage:"captions to encode at a time"`
	deviceFlags
	rankFlags `group:"Processes and GPUs"`
}

func newCmdPrecomputeBert(a *app) *cobra.Command {
	return a.command(&precomputeBertOptions{}, &cobra.Command{
		Use:   "precompute-bert",
		Short: "Compute semantic vectors of the captions with BERT, for LSEH",
		Long: `Encode the training captions with a pretrained BERT, which is not trained, and
write one vector per caption to train_bert.npy beside the captions. LSEH
compares captions by them if loss.lseh.semantics is bert.

The folder of BERT is laid out as Hugging Face's bert-base-uncased: vocab.txt, and model.safetensors or
pytorch_model.bin; tokenizer_config.json says whether it is cased.`,
		Example: `  vsetrain precompute-bert --data data/f30k --bert data/bert-base-uncased
  vsetrain precompute-bert --data data/f30k --bert data/bert-base-uncased --pool mean --precision bf16
  vsetrain precompute-bert --data data/f30k --bert data/bert-base-uncased --procs 4`,
	})
}

func (o *precomputeBertOptions) run(ctx context.Context, a *app) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	captions, err := captionFile(o.Data, o.Split, "--data", "--split")
	if err != nil {
		return err
	}
	o.Out = cmp.Or(o.Out, filepath.Join(o.Data, o.Split+"_bert.npy"))
	if !o.Force {
		was, err := existingVectors(o.Out)
		if err != nil {
			return err
		}
		if was != nil {
			return replaceVectors(o.Out, was, "the vectors of "+o.Bert)
		}
	}
	bars := phases{app: a}
	return o.divide(ctx, a, &o.Device, func(ctx context.Context, world device.Job) error {
		r, err := checkpoints.PrecomputeBert(ctx, checkpoints.SentenceRequest{Captions: captions, Bert: o.Bert,
			Pool: o.Pool, Out: o.Out, Batch: o.Batch, Device: o.Device, BLAS: a.getenv("VSETRAIN_BLAS"), World: world,
			Warn: a.warn, Progress: func(done, total int) { bars.show("encode", done, total) }})
		bars.close()
		if err != nil || !ranks.IsRank0(world) {
			return err
		}
		a.Printf("%s: %d vectors of %d values (%s), on %s\n", o.Out, r.Captions, r.Dim, o.Pool, r.Device)
		if r.Cut > 0 {
			a.Printf("%d captions fill all positions of the encoder; longer captions were cut\n", r.Cut)
		}
		return nil
	})
}
