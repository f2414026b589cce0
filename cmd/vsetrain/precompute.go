package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/ranks"
	"vsetrain/internal/run/checkpoints"
	"vsetrain/semantic"
)

type precomputeSVDOptions struct {
	Data             string `flag:"data" arg:"DIR" need:"yes" usage:"DIR of the data set"`
	Split            string `flag:"split" arg:"SPLIT" default:"train" usage:"split to take captions from"`
	Out              string `flag:"out" arg:"FILE" usage:"output FILE (.npy, or .txt as the LSEH repository reads)" empty:"SPLIT_svd.npy in the data folder"`
	Force            bool   `flag:"force" usage:"replace existing vectors"`
	semantic.Options `flags:"k tolerance seed threads"`
}

func newCmdPrecomputeSVD(a *app) *cobra.Command {
	return a.command(&precomputeSVDOptions{Options: semantic.DefaultOptions()}, &cobra.Command{
		Use:   "precompute-svd",
		Short: "Compute semantic vectors of the captions by SVD, for LSEH",
		Long: `Clean and stem the training captions, weight their terms by TF-IDF, and write
the truncated SVD: one vector per caption, train_svd.npy beside the captions.
LSEH compares captions by them.`,
		Example: `  vsetrain precompute-svd --data data/f30k
  vsetrain precompute-svd --data data/demo --k 100 --out demo_svd.npy`,
	})
}

func (o *precomputeSVDOptions) run(ctx context.Context, a *app) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	out := cmp.Or(o.Out, filepath.Join(o.Data, o.Split+"_svd.npy"))
	captions, err := captionFile(o.Data, o.Split, "--data", "--split")
	if err != nil {
		return err
	}
	if !o.Force {
		lines, hash, err := semantic.ReadCaptions(captions)
		if err != nil {
			return err
		}
		was, err := existingVectors(out)
		switch {
		case err != nil:
			return err
		case was != nil && o.Computes(was, hash):
			a.Printf("%s: holds %s of these captions already; --force computes them again\n", out, was)
			return nil
		case was != nil:
			by := &semantic.Sidecar{Method: "svd", Captions: len(lines), Dim: o.K}
			return replaceVectors(out, was, by.String())
		}
	}
	bars := phases{app: a}
	s, err := semantic.Precompute(ctx, captions, out, o.Options, bars.show)
	bars.close()
	if err != nil {
		return err
	}
	a.Printf("%s: %d vectors of %d values, from %d terms, in %s\n", out, s.Lines, s.K, s.Terms,
		ui.Duration(time.Duration(s.Seconds*float64(time.Second))))
	a.Printf("singular values %.4g to %.4g; %s after %s\n", s.SigmaMax, s.SigmaMin, subspaceText(s.Angle),
		ui.Count(s.Passes, "pass"))
	if s.Empty > 0 {
		a.Printf("%d captions have no term left after cleaning and get the zero vector\n", s.Empty)
	}
	return nil
}

// existingVectors describes the vectors in a file, nil if there is no file.
func existingVectors(path string) (*semantic.Sidecar, error) {
	was, err := semantic.Existing(path)
	if err != nil {
		err = fmt.Errorf("%w; replace the file with --force", err)
	}
	return was, err
}

// replaceVectors is the error for vectors that would be replaced.
func replaceVectors(path string, was *semantic.Sidecar, by string) error {
	return fmt.Errorf("%s holds %s; use --force to replace them with %s, or name another file with --out", path, was,
		by)
}

// subspaceText describes the largest angle between the subspace and the exact one, in radians; 0 means that they are
// equal.
func subspaceText(angle float64) string {
	if angle == 0 {
		return "the exact subspace"
	}
	return fmt.Sprintf("subspace within %.1e radians of the exact one", angle)
}

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
