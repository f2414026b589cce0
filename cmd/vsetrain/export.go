package main

import (
	"context"

	"github.com/spf13/cobra"

	"vsetrain/internal/run/checkpoints"
)

type exportOptions struct {
	In, Out     string
	ONNX, Vocab string
	Namespace   bool
	Force       bool
}

func newCmdExport(a *app) *cobra.Command {
	o := &exportOptions{}
	c := &cobra.Command{
		Use:   "export CHECKPOINT",
		Short: "Write a checkpoint for PyTorch and the reference repositories, or as ONNX",
		Long: `Write the weights of a checkpoint as the dict that the network's reference repository saves:
epoch, model (a list of state dicts), best_rsum, opt, Eiters. torch.load reads it; the state dicts carry the
reference's parameter names.

opt holds every option that the reference's own parser knows. A run directory gives it the settings of the run:
margin, batch_size, learning_rate, max_violation and the like, and beside them loss and seed. A file on its own
has the defaults of the repository, a .pth.tar its own options.

--onnx DIR writes an embedder (VSE++, VSRN, VSE-infinity) for ONNX Runtime and other programs instead:

  image_encoder.onnx     regions float32 [batch, regions, values] -> embedding [batch, E]
  caption_encoder.onnx   ids int64 [batch, length], lengths int64 [batch] -> embedding [batch, E]
  vocab.json             or vocab.txt of a BERT
  preprocessing.json     how captions become ids and lengths, and how scores are computed

Ids behind the length of a caption have no influence. Weights of 2 GiB and more lie in a file of their own.`,
		Example: `  vsetrain export runs/vsepp-f30k-lseh --out model_best.pth.tar
  vsetrain export runs/vsepp-f30k-lseh --out model_best.pth.tar --namespace   # opt as argparse.Namespace
  vsetrain export runs/vseinf-f30k-lseh --onnx vseinf-onnx`,
		Args: oneArg("CHECKPOINT", &o.In),
		RunE: a.runs(o),
	}
	f := c.Flags()
	f.StringVar(&o.Out, "out", "model_best.pth.tar", "`FILE` to write")
	f.BoolVar(&o.Namespace, "namespace", false, "write opt as argparse.Namespace, which the reference's evaluation "+
		"reads; torch.load then needs weights_only=False")
	f.StringVar(&o.ONNX, "onnx", "", "write the encoders of an embedder as ONNX into this `DIR` instead")
	f.StringVar(&o.Vocab, "vocab", "", "with --onnx, the vocabulary `FILE` of the weights; empty is the run's own")
	f.BoolVar(&o.Force, "force", false, "replace existing files")
	c.MarkFlagsMutuallyExclusive("onnx", "out")
	c.MarkFlagsMutuallyExclusive("onnx", "namespace")
	return c
}

func (o *exportOptions) check(*app) error {
	if o.Vocab != "" && o.ONNX == "" {
		return usagef("--vocab: the vocabulary is written with --onnx alone; add --onnx DIR or leave it out")
	}
	return nil
}

func (o *exportOptions) run(_ context.Context, a *app) error {
	if o.ONNX != "" {
		files, found, err := checkpoints.ExportONNX(o.In, o.ONNX, o.Vocab, o.Force)
		if err != nil {
			return err
		}
		a.Printf("%s\n", found)
		for _, f := range files {
			a.Printf("written to %s\n", f)
		}
		return nil
	}
	if err := checkpoints.RefuseOverwrite(o.Out, o.Force); err != nil {
		return err
	}
	w, err := checkpoints.Export(o.In, o.Out, o.Namespace)
	if err != nil {
		return err
	}
	a.Printf("%s\nwritten to %s\n", w.Describe(), o.Out)
	return nil
}
