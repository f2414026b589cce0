package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/data"
	"vsetrain/internal/apps/extract"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/pictures"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/pretrained"
)

type quickstartOptions struct {
	Dir        string `args:"[DIR]"`
	Work       string `flag:"work" arg:"DIR" default:"quickstart" usage:"DIR to write to"`
	Extractor  string `flag:"extractor" arg:"FILE" usage:"model FILE.onnx that computes features of pictures"`
	Checkpoint string `flag:"checkpoint" arg:"DIR" with:"extractor" usage:"run DIR of a network trained on features of this extractor, for a folder of pictures"`
	Listen     string `flag:"listen" arg:"HOST:PORT" usage:"HOST:PORT of the page" empty:"the first free port from 8420"`
	NoOpen     bool   `flag:"no-open" usage:"do not open a browser"`
}

func newCmdQuickstart(a *app) *cobra.Command {
	return a.command(&quickstartOptions{}, &cobra.Command{
		Use:   "quickstart [DIR]",
		Short: "Train a small network and search with it, in about a minute",
		Long: `Train a small network and open its search page in the browser: on drawn pictures
without DIR, on the data set in DIR, or for the pictures in DIR with --extractor
FILE.onnx.

A data set is trained on for 300 steps; it needs the splits train and dev, as 'data check' lists them. For a folder
of pictures, the extractor computes features, and the network of --checkpoint searches them. Without --checkpoint, a
network is trained on drawn pictures; it knows only their colours and shapes.

Files go into --work, except the vocabulary of a data set that has none. Files of an earlier call are used again.
Ctrl-C ends the page; 'vsetrain view' and 'vsetrain search' take the run in --work.`,
		Example: `  vsetrain quickstart
  vsetrain quickstart data/f8k
  vsetrain quickstart pictures --extractor resnet18.onnx --checkpoint runs/vseinf-f30k-lseh`,
	})
}

func (o *quickstartOptions) check(*app) error {
	if o.Extractor != "" && o.Dir == "" {
		return usagef("--extractor is for a folder of pictures: name it")
	}
	return nil
}

func (o *quickstartOptions) run(ctx context.Context, a *app) error {
	page := viewOptions{Dir: filepath.Join(o.Work, "run"), Extractor: o.Extractor, Listen: o.Listen, Open: !o.NoOpen,
		page: "search"}
	page.Defaults()
	err := func() error {
		ctx, stop := interruptible(ctx)
		defer stop()
		switch splits, err := data.Splits(o.Dir); {
		case o.Dir == "":
			return o.world(ctx, a)
		case err != nil:
			return fmt.Errorf("%w; name a data set or a folder of pictures", err)
		case slices.Contains(splits, "train"):
			vocab := filepath.Join(o.Dir, "vocab.json")
			if err := a.make(ctx, vocab, "data", "vocab", o.Dir, "--threshold", "1"); err != nil {
				return err
			}
			return o.train(ctx, a, o.Dir)
		case o.Extractor == "":
			return fmt.Errorf("%s: no data set (train_caps.txt, train_ims.npy); to search a folder of pictures name "+
				"the model that makes their features with --extractor FILE.onnx (docs/data.md)", o.Dir)
		}
		page.Data, page.Images = filepath.Join(o.Work, "gallery"), o.Dir
		return o.gallery(ctx, a, &page)
	}()
	if err != nil {
		return err
	}
	return page.run(ctx, a)
}

// make runs the command that makes a file, unless the file exists.
func (a *app) make(ctx context.Context, file string, args ...string) error {
	there, err := runfs.Exists(file)
	if err != nil || there {
		return err
	}
	return a.step(ctx, args...)
}

// step runs another command of the program.
func (a *app) step(ctx context.Context, args ...string) error {
	a.Printf("\n%s\n", a.Paint(ui.Bold, "vsetrain "+strings.Join(args, " ")))
	return a.root(args).ExecuteContext(ctx)
}

// world makes a synthetic data set and trains on it.
func (o *quickstartOptions) world(ctx context.Context, a *app) error {
	dir := filepath.Join(o.Work, "world")
	if err := atomicfile.MkdirAll(o.Work); err != nil {
		return err
	}
	if err := a.make(ctx, filepath.Join(dir, "vocab.json"), "data", "synth", dir, "--images-of", "dev,test",
		"--train", "1000", "--dev", "100", "--test", "200"); err != nil { // drawing takes most of the time
		return err
	}
	return o.train(ctx, a, dir)
}

// train trains a small network, unless an earlier call did.
func (o *quickstartOptions) train(ctx context.Context, a *app, dir string) error {
	run := filepath.Join(o.Work, "run")
	if there, err := runfs.Exists(filepath.Join(run, "checkpoints", "best.safetensors")); err != nil {
		return err
	} else if there {
		a.Printf("%s exists from an earlier call; remove it to train again\n", run)
		return nil
	}
	return a.step(ctx, "train", "--config", "demo", "--run", run, "--auto-resume", "--set", "data.dir="+dir, "--set",
		"loss.name=infonce", "--set", "model.embed_dim=128", "--set", "train.max_steps=300")
}

// gallery computes the features of pictures. Without --checkpoint, it trains on the features of drawn pictures.
func (o *quickstartOptions) gallery(ctx context.Context, a *app, page *viewOptions) error {
	if _, err := pictures.OpenGallery(o.Dir); err != nil {
		return err
	}
	if o.Checkpoint != "" { // before the features are computed
		if err := o.reads(a); err != nil {
			return err
		}
	}
	extract := func(images, to, split string, more ...string) error {
		return a.step(ctx, append([]string{"data", "extract", "--model", o.Extractor, "--images", images, "--out", to,
			"--split", split, "--skip-broken"}, more...)...)
	}
	if err := extract(o.Dir, page.Data, "test", "--add"); err != nil {
		return err
	}
	if o.Checkpoint != "" {
		page.Dir = o.Checkpoint
		return nil
	}
	a.Warnf("no --checkpoint: the network is trained on drawn pictures and knows only their colours and shapes")
	return o.drawn(ctx, a, extract)
}

// reads returns an error if the network cannot read the extractor's features, and warns if there is no record that it
// was trained on such features.
func (o *quickstartOptions) reads(a *app) error {
	x, err := extract.Open(o.Extractor, a.getenv, 0)
	if err != nil {
		return err
	}
	defer x.Close()
	note, err := pretrained.Reads(o.Checkpoint, x.Regions, x.Dim, x.HasBoxes(), x.Features())
	if err == nil && note != "" {
		a.Warnf("%s", note)
	}
	return err
}

// drawn trains on the extractor's features of drawn pictures.
func (o *quickstartOptions) drawn(ctx context.Context, a *app,
	extract func(images, to, split string, more ...string) error) error {
	dir := filepath.Join(o.Work, "drawn")
	if there, err := runfs.Exists(filepath.Join(dir, "train_extractor.json")); err != nil {
		return err
	} else if there {
		return o.train(ctx, a, dir)
	}
	if err := a.make(ctx, filepath.Join(dir, "vocab.json"), "data", "synth", dir, "--images", "--train", "200", "--dev",
		"50", "--test", "0"); err != nil {
		return err
	}
	for _, split := range []string{"dev", "train"} { // the record of train is written last
		ids := filepath.Join(dir, split+"_ids.txt")
		if err := extract(filepath.Join(dir, "images"), dir, split, "--force", "--ids", ids); err != nil {
			return err
		}
	}
	return o.train(ctx, a, dir)
}
