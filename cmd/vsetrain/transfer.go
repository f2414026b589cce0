package main

import (
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/internal/experiment"
)

type importOptions struct {
	In, Out, Vocab string
	Force          bool
}

func newCmdImport(a *app) *cobra.Command {
	o := &importOptions{}
	c := &cobra.Command{
		Use:   "import CHECKPOINT",
		Short: "Convert a PyTorch checkpoint of a reference repository",
		Long: `Read a .pth or .pth.tar of a reference repository (both formats of PyTorch; nothing in the file is
executed) and write its weights as a .safetensors checkpoint, which loads faster and knows its vocabulary. eval
and train.init_from also read the PyTorch file itself.`,
		Example: `  vsetrain import model_best.pth.tar --vocab data/f30k/vocab.json
  vsetrain import model_best.pth.tar --out vsepp-f30k.safetensors`,
		Args: oneArg("CHECKPOINT"),
		RunE: func(_ *cobra.Command, args []string) error { o.In = args[0]; return o.run(a) },
	}
	f := c.Flags()
	f.StringVar(&o.Out, "out", "", "`FILE` to write; empty is CHECKPOINT with the ending .safetensors")
	f.StringVar(&o.Vocab, "vocab", "", "vocabulary `FILE` the weights were trained with, to be recorded")
	f.BoolVar(&o.Force, "force", false, "replace an existing file")
	return c
}

func (o *importOptions) run(a *app) error {
	if o.Out == "" {
		o.Out = trimEndings(o.In, ".tar", ".pth", ".pt") + ".safetensors"
	}
	if err := experiment.RefuseOverwrite(o.Out, o.Force); err != nil {
		return err
	}
	w, err := experiment.Import(o.In, o.Out, o.Vocab)
	if err != nil {
		return err
	}
	a.Printf("%s\nwritten to %s\n", w.Describe(), o.Out)
	return nil
}

type exportOptions struct {
	In, Out   string
	Namespace bool
	Force     bool
}

func newCmdExport(a *app) *cobra.Command {
	o := &exportOptions{}
	c := &cobra.Command{
		Use:   "export CHECKPOINT",
		Short: "Write a checkpoint that PyTorch and the reference repositories load",
		Long: `Write the weights of a checkpoint as the dict that the network's reference repository saves:
epoch, model (a list of state dicts), best_rsum, opt, Eiters. torch.load reads it; the state dicts carry the
reference's parameter names.

opt holds every option that the reference's own parser knows. A run directory gives it the settings of the run:
margin, batch_size, learning_rate, max_violation and the like, and beside them loss and seed. A file on its own
has the defaults of the repository, a .pth.tar its own options.`,
		Example: `  vsetrain export runs/vsepp-f30k-lseh --out model_best.pth.tar
  vsetrain export runs/vsepp-f30k-lseh --out model_best.pth.tar --namespace   # opt as argparse.Namespace`,
		Args: oneArg("CHECKPOINT"),
		RunE: func(_ *cobra.Command, args []string) error { o.In = args[0]; return o.run(a) },
	}
	f := c.Flags()
	f.StringVar(&o.Out, "out", "model_best.pth.tar", "`FILE` to write")
	f.BoolVar(&o.Namespace, "namespace", false, "write opt as argparse.Namespace, which the reference's evaluation "+
		"reads; torch.load then needs weights_only=False")
	f.BoolVar(&o.Force, "force", false, "replace an existing file")
	return c
}

func (o *exportOptions) run(a *app) error {
	if err := experiment.RefuseOverwrite(o.Out, o.Force); err != nil {
		return err
	}
	w, err := experiment.Export(o.In, o.Out, o.Namespace)
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
