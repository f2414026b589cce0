package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/data/convert"
)

type dataConvertOptions struct {
	convert.Target
	Sources    []string
	SplitFlags []string // NAME or NAME=IDS
	DType      string
	KeepFirst  bool
	Features   string
	Boxes      string
	Sizes      string
	Scale      float64
	Grid       string
}

func newCmdDataConvert(a *app) *cobra.Command {
	o := &dataConvertOptions{}
	c := &cobra.Command{
		Use:   "convert SOURCE...",
		Short: "Convert region features from TSV or NPZ, or between f32 and f16",
		Long: `Convert published region features to {split}_ims.npy with boxes, picture sizes and ids, row by row
in constant memory. A SOURCE is

  .tsv    bottom-up-attention's file with base64 arrays; several parts may be given, - reads one from stdin
  .npz    a NumPy archive of a whole split, or a folder with one archive per image
  .npy    features to store in another type; --out names the new file. --scale multiplies them, as codes of uint8
          need it; --grid makes the places of a grid [N, C, H, W] or [N, H, W, C] regions

Each --split names an output and, after =, the ids file that chooses its images and their order. A split without
ids takes every image in the order of the source.`,
		Example: "  vsetrain data convert trainval_36.tsv --out data/coco " +
			`--split train=train_ids.txt --split dev=dev_ids.txt
  vsetrain data convert features/ --out data/f30k --split test=test_ids.txt --dtype f16
  vsetrain data convert train_ims.npy --out f16/train_ims.npy --dtype f16
  vsetrain data convert grid.npy --out data/mine/test_ims.npy --grid nchw --scale 0.0123   # uint8 codes`,
		Args: func(c *cobra.Command, args []string) error {
			o.Sources = args
			return cobra.MinimumNArgs(1)(c, args)
		},
		RunE: a.runs(o),
	}
	f := c.Flags()
	f.StringVar(&o.Out, "out", "", "output `DIR`; for a .npy source the output file")
	f.StringArrayVar(&o.SplitFlags, "split", nil, "output split and its ids file, `NAME[=IDS]`; may be repeated")
	f.StringVar(&o.DType, "dtype", "f32", "type of the stored features: f32 or f16")
	f.IntVar(&o.Regions, "regions", 0, "regions per image; 0 takes them from the first image")
	f.IntVar(&o.Dim, "dim", 0, "feature size; 0 takes it from the first image")
	f.BoolVar(&o.Fit, "fit", false, "pad images of fewer regions with zeros and cut those of more")
	f.BoolVar(&o.KeepFirst, "keep-first", false, "of images that a .tsv holds twice with different content keep the "+
		"first")
	f.StringVar(&o.Features, "features-key", "", "name of the features in .npz; empty tries the usual ones")
	f.StringVar(&o.Boxes, "boxes-key", "", "name of the boxes in .npz; empty tries the usual ones")
	f.StringVar(&o.Sizes, "sizes-key", "", "name of the picture sizes in .npz; empty tries the usual ones")
	f.Float64Var(&o.Scale, "scale", 0, "multiply the numbers of a .npy; integers need it, 1 takes them as they are")
	f.StringVar(&o.Grid, "grid", "", "axes of a .npy that holds grids: nchw or nhwc")
	f.BoolVar(&o.Force, "force", false, "replace files that exist")
	must(c.MarkFlagRequired("out"))
	return c
}

func (o *dataConvertOptions) run(_ context.Context, a *app) error {
	var err error
	if o.Target.DType, err = dtype(o.DType); err != nil {
		return err
	}
	for _, s := range o.SplitFlags {
		name, ids, _ := strings.Cut(s, "=")
		o.Splits = append(o.Splits, convert.Split{Name: name, IDs: ids})
	}
	job, err := o.job(a.In)
	if err != nil {
		return err
	}
	bars := phases{app: a}
	rep, err := job(func(phase string, done, total int64) { bars.show(phase, int(done), int(max(0, total))) })
	bars.close()
	if err != nil {
		return err
	}
	if rep == nil {
		a.Printf("%s: %s\n", o.Out, o.DType)
		return nil
	}
	o.summary(a, rep)
	return nil
}

// job chooses the conversion by what the sources are. Its report is nil when only the type changes.
func (o *dataConvertOptions) job(in io.Reader) (func(convert.Progress) (*convert.Report, error),
	error) {
	sources := o.Sources
	first := sources[0]
	info, err := os.Stat(first)
	ext := strings.ToLower(filepath.Ext(first))
	tsv := convert.TSVOptions{Target: o.Target, Files: sources, KeepFirst: o.KeepFirst}
	npz := convert.NPZOptions{Target: o.Target, Path: first, Features: o.Features, Boxes: o.Boxes, Sizes: o.Sizes}
	single := len(sources) == 1
	switch {
	case first == "-" && single:
		return func(p convert.Progress) (*convert.Report, error) { return convert.TSVStream(in, "stdin", tsv, p) },
			check(tsv.Validate())
	case err != nil:
		return nil, fmt.Errorf("convert: %w", err)
	}
	library := map[string]string{".h5": "h5py", ".hdf5": "h5py", ".hdf": "h5py", ".pt": "torch", ".pth": "torch"}[ext]
	if library != "" {
		return nil, usagef("%s: not read; write it as a .npy first, piece by piece, with %s and "+
			"numpy.lib.format.open_memmap: docs/data.md, \"HDF5 and PyTorch files\", has the lines of Python", first,
			library)
	}
	if err := o.checkOut(first, ext == ".npy" && single); err != nil {
		return nil, err
	}
	array := ext == ".npy" && single
	switch {
	case !array && (o.Scale != 0 || o.Grid != ""):
		return nil, usagef("--scale and --grid are for a .npy file, found %s", strings.Join(sources, " "))
	case ext == ".tsv":
		return func(p convert.Progress) (*convert.Report, error) { return convert.TSV(tsv, p) }, check(tsv.Validate())
	case (ext == ".npz" || info.IsDir()) && single:
		return func(p convert.Progress) (*convert.Report, error) { return convert.NPZ(npz, p) }, check(npz.Validate())
	case array:
		if err := check(o.retype().Validate()); err != nil {
			return nil, err
		}
		return func(p convert.Progress) (*convert.Report, error) {
			return nil, convert.Retype(first, o.Out, o.retype(), p)
		}, nil
	}
	return nil, usagef("%s: expected .tsv files, or one .npz, .npy or folder of .npz", strings.Join(sources, " "))
}

// retype are the options of a .npy source.
func (o *dataConvertOptions) retype() convert.RetypeOptions {
	return convert.RetypeOptions{DType: o.Target.DType, Scale: o.Scale, Grid: o.Grid, Force: o.Force}
}

// checkOut returns an error where --out names a folder and a file is written, or the other way round.
func (o *dataConvertOptions) checkOut(source string, file bool) error {
	info, err := os.Stat(o.Out)
	there := err == nil
	named := strings.EqualFold(filepath.Ext(o.Out), ".npy")
	switch {
	case file && there && info.IsDir():
		return usagef("--out %s: a folder; for %s name the new file, such as %s", o.Out, source,
			filepath.Join(o.Out, filepath.Base(source)))
	case file && !named:
		return usagef("--out %s: for %s expected the name of the new file, ending in .npy", o.Out, source)
	case !file && (named && !there || there && !info.IsDir()):
		return usagef("--out %s: a file; for %s name the folder of the new files, such as %s", o.Out, source,
			filepath.Dir(o.Out))
	}
	return nil
}

// check turns an error about options into a usage error.
func check(err error) error {
	if err == nil {
		return nil
	}
	return usagef("%v", err)
}

// unused says how many images went into no split, nothing where all did.
func unused(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d of them in no split", n)
}

func (o *dataConvertOptions) summary(a *app, r *convert.Report) {
	for _, s := range o.Splits {
		a.Printf("%s: %d rows (%s)\n", filepath.Join(o.Out, s.Name+"_ims.npy"), r.Rows[s.Name], o.DType)
	}
	a.Printf("%s read%s\n", ui.Count(r.Records, "image"), unused(r.Unused))
	if r.Padded+r.Cut > 0 {
		a.Printf("%d images padded with zeros, %d cut\n", r.Padded, r.Cut)
	}
	for _, d := range r.Duplicates {
		same := "with other content"
		if d.Same {
			same = "byte by byte the same"
		}
		a.Printf("image %s occurs again at %s, %s; kept the one at %s\n", d.ID, d.Second, same, d.First)
	}
}
