package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/apps/extract"
)

type dataExtractOptions struct {
	extract.Request
	Model string
	DType string
}

func newCmdDataExtract(a *app) *cobra.Command {
	o := &dataExtractOptions{}
	c := &cobra.Command{
		Use:   "extract --model FILE.onnx --images DIR --out DATADIR --split NAME",
		Short: "Compute features of pictures with an ONNX model",
		Long: `Compute the features of a folder of pictures (JPEG, PNG, WebP, GIF; the first frame of animations) with a
model of ONNX, and write them as the images of a split: {split}_ims.npy [N, regions, values], {split}_ids.txt, for a
grid its cells as {split}_ims_bbx.npy with {split}_ims_size.npy, and {split}_extractor.json, which says what made them.

FILE.yaml beside FILE.onnx says how a picture becomes the input of the model (docs/data.md lists its keys);
scripts/torch_backbone_to_onnx.py writes both from a network of torchvision. The model runs in the shared library of
ONNX Runtime: 'pip install onnxruntime' brings it, or VSETRAIN_ONNXRUNTIME names the file.

Pictures and their order are those of --ids, an image id a line, which is a file name with or without its ending;
without it they are all pictures of the folder, sorted by name, and files with other endings are counted. A session
that was killed goes on where it was when it is started again, and the files are the same.

With --add the pictures whose ids a gallery (a split without captions) lacks are computed and added to it, all of them
or none; the features that are there stay as they are. 'vsetrain data remove' removes images.`,
		Example: `  vsetrain data extract --model resnet.onnx --images dir --out data/mine --split dev --ids ids.txt
  vsetrain data extract --model resnet.onnx --images pictures --out data/mine --split test --add
  vsetrain data extract --model resnet.onnx --images pictures --out pictures.npy --skip-broken --dtype f16`,
		Args: cobra.NoArgs,
		RunE: a.runs(o),
	}
	f := c.Flags()
	f.StringVar(&o.Model, "model", "", "`FILE` of the model, with its description FILE.yaml beside it")
	f.StringVar(&o.Images, "images", "", "`DIR` of the pictures")
	f.StringVar(&o.IDs, "ids", "", "`FILE` with an image id a line; empty is all pictures, sorted by name")
	f.StringVar(&o.Out, "out", "", "data set `DIR`, or the features file, ending in .npy")
	f.StringVar(&o.Split, "split", "", "`NAME` of the split, such as train, where --out is a folder")
	f.StringVar(&o.DType, "dtype", "f32", "type of the stored features: f32 or f16")
	f.IntVar(&o.Batch, "batch", 16, "pictures at a time")
	f.IntVar(&o.Threads, "threads", 0, "CPU threads; 0 uses all processors")
	f.BoolVar(&o.SkipBroken, "skip-broken", false, "leave out pictures that cannot be read, and name them")
	f.BoolVar(&o.Force, "force", false, "replace files that exist")
	f.BoolVar(&o.Add, "add", false, "add the pictures that the gallery lacks to it; make it where there is none")
	c.MarkFlagsMutuallyExclusive("add", "force")
	c.MarkFlagsMutuallyExclusive("add", "dtype")
	for _, name := range []string{"model", "images", "out"} {
		must(c.MarkFlagRequired(name))
	}
	return c
}

func (o *dataExtractOptions) run(ctx context.Context, a *app) (err error) {
	if o.Request.DType, err = dtype(o.DType); err != nil {
		return err
	}
	switch file := strings.HasSuffix(strings.ToLower(o.Out), ".npy"); {
	case o.Batch < 1 || o.Batch > extract.MaxBatch:
		return usagef("--batch: expected a whole number from 1 to %d, found %d", extract.MaxBatch, o.Batch)
	case o.Threads < 0:
		return usagef("--threads: expected a whole number of at least 0, found %d", o.Threads)
	case file && o.Split != "":
		return usagef("--split %s names files in a folder, but --out %s is a file; name a folder, or leave --split out",
			o.Split, o.Out)
	case o.Add && file:
		return usagef("--add adds to a split in a folder; --out %s is a file", o.Out)
	case !file && o.Split == "":
		return usagef("--out %s: a folder; name the split with --split, such as --split test", o.Out)
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	x, err := extract.Open(o.Model, a.getenv, o.Threads)
	if err != nil {
		return err
	}
	defer x.Close()
	bars := phases{app: a}
	o.Progress = func(done, total int) { bars.show("extract", done, total) }
	o.Broken = func(id string, err error) { a.warn(err) }
	rep, err := extract.Run(ctx, x, o.Request)
	bars.close()
	if err != nil {
		return err
	}
	if rep.Resumed > 0 {
		a.Printf("%s were done by an earlier session\n", ui.Count(rep.Resumed, "picture"))
	}
	if rep.Skipped > 0 {
		a.Printf("%s left out\n", ui.Count(rep.Skipped, "broken picture"))
	}
	if others := rep.Others.String(); others != "" {
		a.Printf("files with other endings left out: %s\n", others)
	}
	if rep.Added {
		a.Printf("%s added to split %s of %s, which had %d of them already\n", ui.Count(rep.Rows, "picture"), o.Split,
			o.Out, rep.Had)
		return nil
	}
	a.Printf("%d x %d x %d %s written to %s\n", rep.Rows, rep.Regions, rep.Dim, o.DType, strings.Join(rep.Files, ", "))
	return nil
}
