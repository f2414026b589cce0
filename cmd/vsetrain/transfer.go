package main

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/internal/run/checkpoints"
)

type importOptions struct {
	checkpoints.Source
	Out   string
	Force bool
}

func newCmdImport(a *app) *cobra.Command {
	o := &importOptions{}
	c := &cobra.Command{
		Use:   "import CHECKPOINT",
		Short: "Convert a PyTorch checkpoint of a reference repository",
		Long: `Read a .pth or .pth.tar of a reference repository (both formats of PyTorch; nothing in the file is
executed) and write its weights as a .safetensors checkpoint, which loads faster and knows its vocabulary and its
options. A warning names the options that the file does not tell; --set gives and records them. eval and
train.init_from also read the PyTorch file itself.`,
		Example: `  vsetrain import model_best.pth.tar --vocab data/f30k/vocab.json
  vsetrain import model_best.pth.tar --out vsepp-f30k.safetensors
  vsetrain import scan.pth --set model.network=scan --set model.scan.lambda=4`,
		Args: oneArg("CHECKPOINT", &o.Checkpoint),
		RunE: a.runs(o),
	}
	f := c.Flags()
	f.StringVar(&o.Out, "out", "", "`FILE` to write; empty is CHECKPOINT with the ending .safetensors")
	f.StringVar(&o.Vocab, "vocab", "", "vocabulary `FILE` the weights were trained with, to be recorded")
	f.BoolVar(&o.Force, "force", false, "replace an existing file")
	addWeightFlag(f, &o.Set)
	return c
}

func (o *importOptions) run(_ context.Context, a *app) error {
	o.Out = cmp.Or(o.Out, trimEndings(o.Checkpoint, ".tar", ".pth", ".pt")+".safetensors")
	if err := checkpoints.RefuseOverwrite(o.Out, o.Force); err != nil {
		return err
	}
	o.Warn = a.warn
	w, err := checkpoints.Import(o.Source, o.Out)
	if err != nil {
		return err
	}
	a.Printf("%s\nwritten to %s\n", w.Describe(), o.Out)
	return nil
}

// trimEndings removes the given endings from a path, in order.
func trimEndings(path string, endings ...string) string {
	for _, e := range endings {
		path = strings.TrimSuffix(path, e)
	}
	return path
}
