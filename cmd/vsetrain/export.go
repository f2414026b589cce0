package main

import (
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
	Out       string
	ONNX      string
	Namespace bool
	hub       checkpoints.HubRequest // its Source and Force serve the other forms too
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
has the defaults of the repository, a .pth.tar its own options. What the repository has no option for is stored in the
entry vsetrain, which eval and import read and the repository ignores.

--onnx DIR writes an embedder (VSE++, VSRN, VSE-infinity) for ONNX Runtime and other programs instead:

  image_encoder.onnx     regions float32 [batch, regions, values] -> embedding [batch, E]
  caption_encoder.onnx   ids int64 [batch, length], lengths int64 [batch] -> embedding [batch, E]
  vocab.json             or vocab.txt and tokenizer_config.json of a BERT
  preprocessing.json     how captions become ids and lengths, and how scores are computed

Ids behind the length of a caption have no influence. Weights of 2 GiB and more lie in a file of their own.

--hub DIR writes a folder in the layout of the Hugging Face Hub (docs/hub.md): README.md, a model card with the
measures of --recalls in its metadata, model.safetensors, config.json, the vocabulary, and for embedders what --onnx
writes. eval, embed, search, serve and train.init_from read such a folder. Its other files stay.`,
		Example: `  vsetrain export runs/vsepp-f30k-lseh
  vsetrain export runs/vsepp-f30k-lseh --out model_best.pth.tar --namespace   # opt as argparse.Namespace
  vsetrain export runs/vseinf-f30k-lseh --onnx vseinf-onnx
  vsetrain eval runs/vsepp-f30k-lseh --json recalls.json
  vsetrain export runs/vsepp-f30k-lseh --hub vsepp-hub --recalls recalls.json --license cc-by-4.0`,
		Args: oneArg("CHECKPOINT", &o.hub.Checkpoint),
		RunE: a.runs(o),
	}
	f := c.Flags()
	f.StringVar(&o.Out, "out", "", "`FILE` to write, ending in "+strings.Join(torchEndings, ", ")+"; empty is "+
		"CHECKPOINT"+torchEndings[0]+", beside the run or file")
	f.BoolVar(&o.Namespace, "namespace", false, "write opt as argparse.Namespace, which the reference's evaluation "+
		"reads; torch.load then needs weights_only=False")
	f.StringVar(&o.ONNX, "onnx", "", "write the encoders of an embedder as ONNX into this `DIR` instead")
	f.StringVar(&o.hub.Dir, "hub", "", "write a folder for the Hugging Face Hub into this `DIR` instead")
	f.StringArrayVar(&o.hub.Recalls, "recalls", nil, "with --hub, the measures of these weights: a `FILE` that "+
		"'vsetrain eval --json' wrote; may be repeated")
	f.StringVar(&o.hub.License, "license", "", "with --hub, the licence `ID` of the weights as the Hub spells it, "+
		"such as cc-by-4.0; empty states none")
	f.StringVar(&o.hub.Vocab, "vocab", "", "with --onnx or --hub, the vocabulary `FILE` of the weights; empty is the "+
		"run's own")
	f.BoolVar(&o.hub.Force, "force", false, "replace existing files")
	addWeightFlag(f, &o.hub.Set)
	for _, pair := range [][]string{{"onnx", "hub", "out"}, {"onnx", "namespace"}, {"hub", "namespace"}} {
		c.MarkFlagsMutuallyExclusive(pair...)
	}
	return c
}

func (o *exportOptions) check(*app) error {
	if o.hub.Vocab != "" && o.ONNX == "" && o.hub.Dir == "" {
		return usagef("--vocab: the vocabulary is written with --onnx or --hub alone; add --onnx DIR or leave it out")
	}
	if o.Out != "" && trimEndings(o.Out, torchEndings...) == o.Out {
		return usagef("--out %s: expected a file of PyTorch, ending in %s; --onnx DIR and --hub DIR write other "+
			"formats", o.Out, strings.Join(torchEndings, ", "))
	}
	if o.hub.Dir == "" && (len(o.hub.Recalls) > 0 || o.hub.License != "") {
		return usagef("--recalls and --license belong to --hub; add --hub DIR or leave them out")
	}
	return nil
}

func (o *exportOptions) run(_ context.Context, a *app) error {
	o.hub.Warn = a.warn
	if o.ONNX != "" {
		return a.tellExported(checkpoints.ExportONNX(o.hub.Source, o.ONNX, o.hub.Force))
	}
	if o.hub.Dir != "" {
		if len(o.hub.Recalls) == 0 {
			a.warn(fmt.Errorf("the model card has no recalls: measure them with 'vsetrain eval %s --json FILE' and "+
				"name the file with --recalls", o.hub.Checkpoint))
		}
		return a.tellExported(checkpoints.ExportHub(o.hub))
	}
	if o.Out == "" {
		var err error
		if o.Out, err = exportName(o.hub.Checkpoint); err != nil {
			return err
		}
	}
	if err := checkpoints.RefuseOverwrite(o.Out, o.hub.Force); err != nil {
		return err
	}
	w, err := checkpoints.Export(o.hub.Source, o.Out, o.Namespace)
	if err != nil {
		return err
	}
	a.Printf("%s\nwritten to %s\n", w.Describe(), o.Out)
	return nil
}

// torchEndings are those of files that torch.save writes, as people know them.
var torchEndings = []string{".pth.tar", ".pth", ".pt"}

// exportName is the file beside a run, or beside a checkpoint file, that its export is written to: runs/a.pth.tar of
// the run runs/a, runs/a-last.pth.tar of its checkpoint last. Nothing is written into a run.
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

// tellExported tells what was found and written.
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
