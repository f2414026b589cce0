package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/checkpoints"
)

type exportOptions struct {
	Checkpoint string   `args:"CHECKPOINT"`
	Out        string   `flag:"out" arg:"FILE" not:"onnx,hub" usage:"FILE to write, ending in .pth.tar, .pth or .pt" empty:"CHECKPOINT.pth.tar beside the run or file"`
	Namespace  bool     `flag:"namespace" not:"onnx,hub" usage:"write opt as argparse.Namespace, which the reference's evaluation reads; torch.load then needs weights_only=False"`
	ONNX       string   `flag:"onnx" arg:"DIR" not:"hub" usage:"write the encoders of an embedder as ONNX into this DIR instead"`
	Hub        string   `flag:"hub" arg:"DIR" usage:"write a folder for the Hugging Face Hub into this DIR instead"`
	Recalls    []string `flag:"recalls" arg:"FILE" with:"hub" usage:"FILE with the measures of these weights, from 'vsetrain eval --json', for --hub"`
	License    string   `flag:"license" arg:"ID" with:"hub" usage:"licence ID of the weights as the Hub spells it, such as cc-by-4.0, for --hub; by default none is stated"`
	Vocab      string   `flag:"vocab" arg:"FILE" with:"onnx,hub" usage:"vocabulary FILE of the weights, for --onnx or --hub, instead of the run's"`
	Force      bool     `flag:"force" usage:"replace existing files"`
	weightFlag
}

func newCmdExport(a *app) *cobra.Command {
	return a.command(&exportOptions{}, &cobra.Command{
		Use:   "export CHECKPOINT",
		Short: "Write a checkpoint for PyTorch, as ONNX, or for the Hub",
		Long: `Write a checkpoint as the network's reference repository saves it, for
torch.load. --onnx writes an embedder for ONNX Runtime instead, --hub a folder
for the Hugging Face Hub.

The file is a dict: epoch, model (a list of state dicts), best_rsum, opt, Eiters. The state dicts have the
reference's parameter names. opt has every option that the reference's own parser knows, from the run directory or,
for a file on its own, the repository's defaults. The entry vsetrain has the options that the repository lacks; eval
and import read it, and the repository ignores it.`,
		Example: `  vsetrain export runs/vsepp-f30k-lseh
  vsetrain export runs/vsepp-f30k-lseh --out model_best.pth.tar --namespace   # opt as argparse.Namespace
  vsetrain export runs/vseinf-f30k-lseh --onnx vseinf-onnx
  vsetrain eval runs/vsepp-f30k-lseh --json recalls.json
  vsetrain export runs/vsepp-f30k-lseh --hub vsepp-hub --recalls recalls.json --license cc-by-4.0`,
	})
}

func (o *exportOptions) check(*app) error {
	if o.Out != "" && trimEndings(o.Out, torchEndings...) == o.Out {
		return usagef("--out %s: expected a file of PyTorch, ending in %s; --onnx DIR and --hub DIR write other "+
			"formats", o.Out, strings.Join(torchEndings, ", "))
	}
	return nil
}

func (o *exportOptions) run(_ context.Context, a *app) error {
	from := checkpoints.Source{Checkpoint: o.Checkpoint, Vocab: o.Vocab, Set: o.Set, Warn: a.warn}
	if o.ONNX != "" {
		return a.tellExported(checkpoints.ExportONNX(from, o.ONNX, o.Force))
	}
	if o.Hub != "" {
		if len(o.Recalls) == 0 {
			a.warn(fmt.Errorf("the model card has no recalls: measure them with 'vsetrain eval %s --json FILE' and "+
				"name the file with --recalls", o.Checkpoint))
		}
		return a.tellExported(checkpoints.ExportHub(checkpoints.HubRequest{Source: from, Dir: o.Hub,
			Recalls: o.Recalls, License: o.License, Force: o.Force}))
	}
	if o.Out == "" {
		var err error
		if o.Out, err = exportName(o.Checkpoint); err != nil {
			return err
		}
	}
	if err := checkpoints.RefuseOverwrite(o.Out, o.Force); err != nil {
		return err
	}
	w, err := checkpoints.Export(from, o.Out, o.Namespace)
	if err != nil {
		return err
	}
	a.Printf("%s\nwritten to %s\n", w.Describe(), o.Out)
	return nil
}

// torchEndings are the usual endings of files that torch.save writes.
var torchEndings = []string{".pth.tar", ".pth", ".pt"}

// exportName is the default file of an export, beside the run or the checkpoint file: runs/a.pth.tar for the run
// runs/a, runs/a-last.pth.tar for its checkpoint last.
func exportName(checkpoint string) (string, error) {
	path, err := filepath.Abs(checkpoint) // also of . and ..
	if err != nil {
		return "", err
	}
	stem := trimEndings(filepath.Base(path), append(torchEndings, ".safetensors")...)
	dir := filepath.Dir(path)
	if run := filepath.Dir(dir); filepath.Base(dir) == runfs.CheckpointsName {
		dir, stem = filepath.Dir(run), filepath.Base(run)+"-"+stem
	}
	name := filepath.Join(dir, stem+torchEndings[0])
	if here, err := os.Getwd(); err == nil && !filepath.IsAbs(checkpoint) {
		if short, err := filepath.Rel(here, name); err == nil {
			name = short
		}
	}
	return name, nil
}

func (a *app) tellExported(files []string, found string, err error) error {
	if err != nil {
		return err
	}
	a.Printf("%s\n", found)
	for _, f := range files {
		a.Printf("written to %s\n", f)
	}
	return nil
}

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
