package main

import (
	"context"
	"fmt"
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
	convert.Options
	given func(func(*pflag.Flag)) // calls a function for each flag that was given
}

func newCmdDataConvert(a *app) *cobra.Command {
	o := &dataConvertOptions{}
	var kinds strings.Builder
	var names []string
	for _, f := range convert.Formats {
		names = append(names, f.Kind)
		fmt.Fprintf(&kinds, "  %-7s %s\n", f.Kind, strings.ReplaceAll(f.Help, "\n", "\n          "))
	}
	return a.command(o, &cobra.Command{
		Use:   "convert SOURCE...",
		Short: "Convert published region features and captions, or arrays",
		Long: `Convert published region features and captions, or arrays of other types and
layouts, to a data set. A SOURCE is one of: ` + strings.Join(names, ", ") + `.

Features become {split}_ims.npy with boxes, picture sizes and ids, row by row in constant memory. A SOURCE is

` + kinds.String() + `
Each --split names an output split and, after =, the ids file that selects its images and their order. Without ids,
a split has every image in the order of the source. For a .json, the names after = are the splits of the file.

The type of base64 features follows from their number with --dim, otherwise from their values; if those are
ambiguous, --source-dtype is required. With --fit, {split}_lengths.npy says how many regions of each image are not
padding. If an image has a broken record and a whole one, the whole one is used.`,
		Example: "  vsetrain data convert trainval_36.tsv --out data/coco " +
			`--split train=train_ids.txt --split dev=dev_ids.txt
  vsetrain data convert features/ --out data/f30k --split test=test_ids.txt --dtype f16
  vsetrain data convert train_ims.npy --out f16/train_ims.npy --dtype f16
  vsetrain data convert grid.npy --out data/mine/test_ims.npy --grid nchw --scale 0.0123   # uint8 codes
  vsetrain data convert dataset_coco.json --out data/coco --captions 5
  vsetrain data convert dataset_coco.json --out data/coco --split testall=test`,
	})
}

func (o *dataConvertOptions) arguments(c *cobra.Command, args []string) error {
	o.Sources, o.given = args, c.Flags().Visit
	return cobra.MinimumNArgs(1)(c, args)
}

func (o *dataConvertOptions) run(_ context.Context, a *app) error {
	o.Parse()
	format, err := o.format()
	if err != nil {
		return err
	}
	if err := format.Check(&o.Options); err != nil {
		return asUsage(err)
	}
	o.In = a.In
	bars := phases{app: a}
	rep, err := format.Convert(&o.Options, func(phase string, done, total int64) {
		bars.show(phase, int(done), int(max(0, total)))
	})
	bars.close()
	if err != nil {
		return err
	}
	if format.File {
		a.Printf("%s: %s\n", o.Out, o.Type)
		return nil
	}
	o.summary(a, rep)
	return nil
}

// format returns the format of the sources, and an error for flags of other formats.
func (o *dataConvertOptions) format() (*convert.Format, error) {
	first := o.Sources[0]
	kind := strings.ToLower(filepath.Ext(first))
	stream := first == "-" && len(o.Sources) == 1
	if info, err := os.Stat(first); !stream && err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	} else if err == nil && info.IsDir() {
		kind = "folder"
	}
	library := map[string]string{".h5": "h5py", ".hdf5": "h5py", ".hdf": "h5py", ".pt": "torch", ".pth": "torch"}[kind]
	if library != "" {
		return nil, usagef("%s: not read; write it as a .npy first, piece by piece, with %s and "+
			"numpy.lib.format.open_memmap: docs/data.md, \"HDF5 and PyTorch files\", has the lines of Python", first,
			library)
	}
	at := slices.IndexFunc(convert.Formats, func(f convert.Format) bool { return f.Kind == kind || stream && f.Stdin })
	if at < 0 || len(o.Sources) > 1 && !convert.Formats[at].Parts {
		var parts, single []string
		for _, f := range convert.Formats {
			if f.Parts {
				parts = append(parts, f.Kind+" files")
			} else {
				single = append(single, f.Kind)
			}
		}
		return nil, asUsage(regular.Explain(fmt.Errorf("%s: expected %s, or one %s", strings.Join(o.Sources, " "),
			strings.Join(parts, ", "), strings.Join(single, " or ")), first))
	}
	format := &convert.Formats[at]
	if err := o.checkOut(first, format.File); err != nil {
		return nil, err
	}
	var misused error
	o.given(func(f *pflag.Flag) {
		takes := func(g convert.Format) bool { return slices.Contains(g.Flags, f.Name) }
		if slices.ContainsFunc(convert.Formats, takes) && !takes(*format) {
			misused = usagef("--%s is not for %s; a %s source has --%s", f.Name, strings.Join(o.Sources, " "),
				format.Kind, strings.Join(format.Flags, ", --"))
		}
	})
	return format, misused
}

// checkOut returns an error if --out names a folder for a format that writes a file, or the other way round.
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

// shownImages is the number of images that are named of a longer list.
const shownImages = 10

func (o *dataConvertOptions) summary(a *app, r *convert.Report) {
	for _, n := range r.Notes {
		a.Printf("%s\n", n)
	}
	for _, s := range o.Splits {
		if rows, ok := r.Rows[s.Name]; ok {
			a.Printf("%s: %d rows (%s)\n", filepath.Join(o.Out, s.Name+"_ims.npy"), rows, o.Type)
		}
	}
	if len(r.Rows) > 0 {
		unused := ""
		if r.Unused > 0 {
			unused = fmt.Sprintf(", %d of them in no split", r.Unused)
		}
		a.Printf("%s read%s\n", ui.Count(r.Records, "image"), unused)
	}
	if r.Padded+r.Cut > 0 {
		a.Printf("%d images padded with zeros, %d cut\n", r.Padded, r.Cut)
	}
	if r.Padded > 0 {
		a.Printf("{split}_lengths.npy has the number of regions of each image\n")
	}
	for _, d := range r.Duplicates[:min(shownImages, len(r.Duplicates))] {
		a.Printf("image %s: took the record at %s, left out the one at %s: %s\n", d.ID, d.Kept, d.Left, d.Why)
	}
	if more := len(r.Duplicates) - shownImages; more > 0 {
		a.Printf("%d more records left out\n", more)
	}
	for _, b := range r.Broken[:min(shownImages, len(r.Broken))] {
		a.Printf("left out: %v\n", b)
	}
	if n := len(r.Broken); n > 0 {
		a.Printf("%s left out; remove the captions of such images, too\n", ui.Count(n, "broken image"))
	}
}
