package main

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/internal/run/checkpoints"
)

type importOptions struct {
	Checkpoint string `args:"CHECKPOINT"`
	Out        string `flag:"out" arg:"FILE" usage:"FILE to write" empty:"CHECKPOINT with the extension .safetensors"`
	Vocab      string `flag:"vocab" arg:"FILE" usage:"vocabulary FILE that the weights were trained with, to record it"`
	Force      bool   `flag:"force" usage:"replace an existing file"`
	weightFlag
}

func newCmdImport(a *app) *cobra.Command {
	return a.command(&importOptions{}, &cobra.Command{
		Use:   "import CHECKPOINT",
		Short: "Convert a PyTorch checkpoint of a reference repository",
		Long: `Read a .pth or .pth.tar file of a reference repository and write its weights as
a .safetensors checkpoint, which loads faster and records its vocabulary and
options.

Both formats of PyTorch are read; nothing in the file is executed. A warning names the options that the file does
not state; --set gives and records them. eval and train.init_from also read the PyTorch file itself.`,
		Example: `  vsetrain import model_best.pth.tar --vocab data/f30k/vocab.json
  vsetrain import model_best.pth.tar --out vsepp-f30k.safetensors
  vsetrain import scan.pth --set model.network=scan --set model.scan.lambda=4`,
	})
}

func (o *importOptions) run(_ context.Context, a *app) error {
	o.Out = cmp.Or(o.Out, trimEndings(o.Checkpoint, ".tar", ".pth", ".pt")+".safetensors")
	if err := checkpoints.RefuseOverwrite(o.Out, o.Force); err != nil {
		return err
	}
	w, err := checkpoints.Import(checkpoints.Source{Checkpoint: o.Checkpoint, Vocab: o.Vocab, Set: o.Set, Warn: a.warn},
		o.Out)
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
