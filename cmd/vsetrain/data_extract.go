package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/apps/extract"
)

type dataExtractOptions struct {
	Model      string `flag:"model" arg:"FILE" need:"yes" usage:"model FILE, with its description FILE.yaml beside it"`
	Images     string `flag:"images" arg:"DIR" need:"yes" usage:"DIR of the pictures"`
	IDs        string `flag:"ids" arg:"FILE" usage:"FILE with one image id per line" empty:"all pictures, sorted by name"`
	Out        string `flag:"out" arg:"DIR|FILE" need:"yes" usage:"data set DIR, or the features file, ending in .npy"`
	Split      string `flag:"split" arg:"SPLIT" usage:"name of the split, such as train, if --out is a folder"`
	DType      string `flag:"dtype" enum:"f32|f16" default:"f32" usage:"type of the stored features"`
	Batch      int    `flag:"batch" default:"16" min:"1" max:"65536" usage:"pictures to compute at a time"`
	Threads    int    `flag:"threads" min:"0" usage:"CPU threads; 0 uses all processors"`
	SkipBroken bool   `flag:"skip-broken" usage:"skip pictures that cannot be read, and name them"`
	Force      bool   `flag:"force" usage:"replace existing files"`
	Add        bool   `flag:"add" not:"force,dtype" usage:"add the pictures that the gallery lacks, or make the gallery"`
}

func newCmdDataExtract(a *app) *cobra.Command {
	return a.command(&dataExtractOptions{}, &cobra.Command{
		Use:   "extract --model FILE.onnx --images DIR --out DATADIR --split NAME",
		Short: "Compute features of pictures with an ONNX model",
		Long: `Compute the features of a folder of pictures (JPEG, PNG, WebP, GIF) with an ONNX
model and write them as the images of a split. After a kill, the same command
continues.

The files are {split}_ims.npy [N, regions, values], {split}_ids.txt, for a grid its cells in {split}_ims_bbx.npy and
{split}_ims_size.npy, and {split}_extractor.json, which records the model. Animations count with their first frame.

FILE.yaml beside FILE.onnx describes how a picture becomes the input of the model (docs/data.md lists its keys);
scripts/torch_backbone_to_onnx.py writes both from a torchvision network. The model runs in the shared library of
ONNX Runtime: install it with 'pip install onnxruntime', or set VSETRAIN_ONNXRUNTIME to its file.

--ids lists the pictures in order, one image id per line: a file name with or without its extension. Without --ids,
all pictures of the folder are taken, sorted by name; files with other extensions are counted.

--add computes the pictures whose ids a gallery (a split without captions) lacks and adds them, all or none;
existing features stay. 'vsetrain data remove' removes images.`,
		Example: `  vsetrain data extract --model resnet.onnx --images dir --out data/mine --split dev --ids ids.txt
  vsetrain data extract --model resnet.onnx --images pictures --out data/mine --split test --add
  vsetrain data extract --model resnet.onnx --images pictures --out pictures.npy --skip-broken --dtype f16`,
	})
}

func (o *dataExtractOptions) run(ctx context.Context, a *app) error {
	switch file := strings.HasSuffix(strings.ToLower(o.Out), ".npy"); {
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
	rep, err := extract.Run(ctx, x, extract.Request{Images: o.Images, IDs: o.IDs, Out: o.Out, Split: o.Split,
		DType: dtypes[o.DType], Batch: o.Batch, Threads: o.Threads, SkipBroken: o.SkipBroken, Force: o.Force,
		Add: o.Add, Progress: func(done, total int) { bars.show("extract", done, total) },
		Broken: func(id string, err error) { a.warn(err) }})
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
