package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/data/convert"
	"vsetrain/internal/files/regular"
)

type dataConvertOptions struct {
	Sources    []string `args:"SOURCE"`
	Out        string   `flag:"out" arg:"DIR|FILE" need:"yes" usage:"output DIR; for a .npy source the output file"`
	SplitFlags []string `flag:"split" arg:"NAME[=IDS]" usage:"output split and its ids file"`
	Force      bool     `flag:"force" usage:"replace files that exist"`

	DType       string  `flag:"dtype" enum:"f32|f16" default:"f32" usage:"type of the stored features"`
	SourceDType string  `flag:"source-dtype" enum:"f16|f32|f64" usage:"type of the features in a .tsv, where its values do not tell it"`
	Regions     int     `flag:"regions" min:"0" usage:"regions per image; 0 takes them from the first image"`
	Dim         int     `flag:"dim" min:"0" usage:"feature size; 0 takes it from the source"`
	Fit         bool    `flag:"fit" usage:"pad images of fewer regions with zeros and cut those of more"`
	Distinct    bool    `flag:"distinct" usage:"one row for an image that an ids file names once for each caption"`
	KeepFirst   bool    `flag:"keep-first" usage:"of images that a .tsv holds twice with different content keep the first"`
	SkipBroken  bool    `flag:"skip-broken" usage:"leave out images that cannot be read, and name them"`
	Features    string  `flag:"features-key" arg:"NAME" usage:"NAME of the features in .npz, if it is none of the usual ones"`
	Boxes       string  `flag:"boxes-key" arg:"NAME" usage:"NAME of the boxes in .npz, if it is none of the usual ones"`
	Sizes       string  `flag:"sizes-key" arg:"NAME" usage:"NAME of the picture sizes in .npz, if it is none of the usual ones"`
	Scale       float64 `flag:"scale" usage:"multiply the numbers of arrays; integers need it, 1 takes them as they are"`
	Grid        string  `flag:"grid" enum:"nchw|nhwc" usage:"axes of arrays that hold grids"`
	Squeeze     []int   `flag:"squeeze" list:"," min:"0" usage:"drop these axes of length 1 of arrays, counted from 0"`
	IDKey       string  `flag:"id-key" arg:"NAME" usage:"key of an image of a .json that holds its id" empty:"cocoid or filename"`
	Captions    int     `flag:"captions" min:"0" usage:"take the first so many captions of each image of a .json; 0 takes all"`

	target convert.Target
	given  func(func(*pflag.Flag)) // visits the flags that were given
}

func newCmdDataConvert(a *app) *cobra.Command {
	return a.command(&dataConvertOptions{}, &cobra.Command{
		Use:   "convert SOURCE...",
		Short: "Convert published region features and captions, or arrays of other types and axes",
		Long: `Convert published region features to {split}_ims.npy with boxes, picture sizes and ids, row by row
in constant memory. A SOURCE is

  .tsv    base64 arrays in the columns of bottom-up attention, ViLBERT, LXMERT, Oscar or VinVL, or in those that a
          first line names; several parts may be given, - reads one from stdin
  .npz    a NumPy archive of a whole split
  folder  one .npz or .npy for each image, whose name is the id
  .npy    features to store in another type or with other axes; --out names the new file. --scale multiplies them,
          as codes of uint8 need it; --grid makes the places of a grid [N, C, H, W] or [N, H, W, C] regions;
          --squeeze drops axes of length 1
  .json   captions and splits as dataset_flickr30k.json has them: {split}_caps.txt and {split}_ids.txt of train
          (with restval), dev and test

Each --split names an output and, after =, the ids file that chooses its images and their order. A split without
ids takes every image in the order of the source. Of a .json the names after = are those of its own splits.

The type of base64 features follows from their number with --dim, and otherwise from their values; where those do
not tell it, --source-dtype is asked for. With --fit, {split}_lengths.npy says how many regions of each image are
not padding. Of an image with a broken record and a whole one the whole one is taken.`,
		Example: "  vsetrain data convert trainval_36.tsv --out data/coco " +
			`--split train=train_ids.txt --split dev=dev_ids.txt
  vsetrain data convert features/ --out data/f30k --split test=test_ids.txt --dtype f16
  vsetrain data convert train_ims.npy --out f16/train_ims.npy --dtype f16
  vsetrain data convert grid.npy --out data/mine/test_ims.npy --grid nchw --scale 0.0123   # uint8 codes
  vsetrain data convert dataset_coco.json --out data/coco --captions 5
  vsetrain data convert dataset_coco.json --out data/coco --split testall=test`,
	})
}

// convertFlags are the flags that each kind of source has beside --out and --force.
var convertFlags = map[string][]string{
	".tsv": {"split", "dtype", "source-dtype", "regions", "dim", "fit", "distinct", "keep-first", "skip-broken"},
	".npz": {"split", "dtype", "regions", "dim", "fit", "features-key", "boxes-key", "sizes-key", "scale", "grid",
		"squeeze"},
	"folder": {"split", "dtype", "regions", "dim", "fit", "distinct", "skip-broken", "features-key", "boxes-key",
		"sizes-key", "scale", "grid", "squeeze"},
	".npy":  {"dtype", "scale", "grid", "squeeze"},
	".json": {"split", "id-key", "captions", "skip-broken"},
}

func (o *dataConvertOptions) arguments(c *cobra.Command, args []string) error {
	o.Sources, o.given = args, c.Flags().Visit
	return cobra.MinimumNArgs(1)(c, args)
}

func (o *dataConvertOptions) axes() convert.Axes {
	return convert.Axes{Grid: o.Grid, Squeeze: o.Squeeze}
}

func (o *dataConvertOptions) run(_ context.Context, a *app) error {
	o.target = convert.Target{Out: o.Out, Regions: o.Regions, Dim: o.Dim, Fit: o.Fit, DType: dtypes[o.DType],
		Force: o.Force, SkipBroken: o.SkipBroken, Distinct: o.Distinct}
	for _, s := range o.SplitFlags {
		name, ids, _ := strings.Cut(s, "=")
		o.target.Splits = append(o.target.Splits, convert.Split{Name: name, IDs: ids})
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

// job chooses the conversion by what the sources are. Its report is nil when one array was written.
func (o *dataConvertOptions) job(in io.Reader) (func(convert.Progress) (*convert.Report, error), error) {
	first, single := o.Sources[0], len(o.Sources) == 1
	kind := strings.ToLower(filepath.Ext(first))
	stream := first == "-" && single
	if stream {
		kind = ".tsv"
	} else if info, err := os.Stat(first); err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	} else if info.IsDir() {
		kind = "folder"
	}
	library := map[string]string{".h5": "h5py", ".hdf5": "h5py", ".hdf": "h5py", ".pt": "torch", ".pth": "torch"}[kind]
	if library != "" {
		return nil, usagef("%s: not read; write it as a .npy first, piece by piece, with %s and "+
			"numpy.lib.format.open_memmap: docs/data.md, \"HDF5 and PyTorch files\", has the lines of Python", first,
			library)
	}
	flags, known := convertFlags[kind]
	if !known || !single && kind != ".tsv" {
		const expected = "expected .tsv files, or one .npz, .npy, .json or folder of .npz or .npy"
		return nil, usagef("%v", regular.Explain(fmt.Errorf("%s: %s", strings.Join(o.Sources, " "), expected), first))
	}
	if err := o.checkOut(first, kind == ".npy"); err != nil {
		return nil, err
	}
	var misused error
	o.given(func(f *pflag.Flag) {
		for _, all := range convertFlags {
			if slices.Contains(all, f.Name) && !slices.Contains(flags, f.Name) {
				misused = usagef("--%s is not for %s; a %s source has --%s", f.Name, strings.Join(o.Sources, " "), kind,
					strings.Join(flags, ", --"))
			}
		}
	})
	if misused != nil {
		return nil, misused
	}
	switch kind {
	case ".tsv":
		tsv := convert.TSVOptions{Target: o.target, Files: o.Sources, Source: dtypes[o.SourceDType],
			KeepFirst: o.KeepFirst}
		return func(p convert.Progress) (*convert.Report, error) {
			if stream {
				return convert.TSVStream(in, "stdin", tsv, p)
			}
			return convert.TSV(tsv, p)
		}, check(tsv.Validate())
	case ".npy":
		retype := convert.RetypeOptions{DType: o.target.DType, Scale: o.Scale, Axes: o.axes(), Force: o.Force}
		return func(p convert.Progress) (*convert.Report, error) {
			return nil, convert.Retype(first, o.Out, retype, p)
		}, check(retype.Validate())
	case ".json":
		captions := convert.CaptionOptions{Path: first, Out: o.Out, Splits: o.target.Splits, IDKey: o.IDKey,
			Captions: o.Captions, SkipBroken: o.SkipBroken, Force: o.Force}
		o.target.Splits = nil // of which there are no features
		return func(convert.Progress) (*convert.Report, error) { return convert.Captions(captions) },
			check(captions.Validate())
	}
	arrays := convert.ArrayOptions{Target: o.target, Axes: o.axes(), Scale: o.Scale, Path: first, Features: o.Features,
		Boxes: o.Boxes, Sizes: o.Sizes}
	return func(p convert.Progress) (*convert.Report, error) { return convert.Arrays(arrays, p) },
		check(arrays.Validate())
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

// shownImages is how many images are named where many are told of.
const shownImages = 10

func (o *dataConvertOptions) summary(a *app, r *convert.Report) {
	for _, n := range r.Notes {
		a.Printf("%s\n", n)
	}
	for _, s := range o.target.Splits {
		a.Printf("%s: %d rows (%s)\n", filepath.Join(o.Out, s.Name+"_ims.npy"), r.Rows[s.Name], o.DType)
	}
	if len(o.target.Splits) > 0 {
		a.Printf("%s read%s\n", ui.Count(r.Records, "image"), unused(r.Unused))
	}
	if r.Padded+r.Cut > 0 {
		a.Printf("%d images padded with zeros, %d cut\n", r.Padded, r.Cut)
	}
	if r.Padded > 0 {
		a.Printf("{split}_lengths.npy has the number of regions of each image\n")
	}
	for i, d := range r.Duplicates {
		if i == shownImages {
			a.Printf("%d more records left out\n", len(r.Duplicates)-i)
			break
		}
		a.Printf("image %s: took the record at %s, left out the one at %s: %s\n", d.ID, d.Kept, d.Left, d.Why)
	}
	for i, b := range r.Broken {
		if i == shownImages {
			break
		}
		a.Printf("left out: %v\n", b)
	}
	if n := len(r.Broken); n > 0 {
		a.Printf("%s left out; captions of such images have to go too\n", ui.Count(n, "broken image"))
	}
}
