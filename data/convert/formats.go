package convert

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"vsetrain/internal/files/npy"
)

// Format is one kind of source. `vsetrain data convert` takes its help, its flags and what it does from here.
type Format struct {
	Kind  string   // ending of the name of a source, such as .tsv, or "folder"
	Help  string   // for the help text; lines of at most 108 characters
	Flags []string // names of the flags that it takes, besides --out and --force
	Parts bool     // several sources are the parts of one
	Stdin bool     // the source - is standard input
	File  bool     // --out names one array and not a folder; the report is empty

	check func(*Options) error
	run   func(*conversion) error
}

// Formats are all formats, sorted by kind.
var Formats = []Format{
	{Kind: ".json", Flags: strings.Fields("split skip-broken id-key captions"),
		Help: `captions and splits as dataset_flickr30k.json has them: {split}_caps.txt and {split}_ids.txt of train
(with restval), dev and test`,
		check: (*Options).checkNames, run: (*conversion).captions},
	{Kind: ".npy", Flags: strings.Fields("dtype scale grid squeeze mean"), File: true,
		Help: `features to store in another type or with other axes; --out names the new file. --scale multiplies
them, as codes of uint8 need it; --grid makes the places of a grid [N, C, H, W] or [N, H, W, C] regions;
--squeeze drops axes of length 1; --mean stores the mean of the regions, one vector for an image`,
		check: (*Options).checkArrays, run: (*conversion).retype},
	{Kind: ".npz", Flags: strings.Fields(arrayFlags), Help: "a NumPy archive of a whole split",
		check: (*Options).checkImages, run: (*conversion).wholeSplit},
	{Kind: ".tsv", Flags: strings.Fields("split dtype regions dim fit distinct skip-broken source-dtype keep-first"),
		Parts: true, Stdin: true,
		Help: `base64 arrays in the columns of bottom-up attention, ViLBERT, LXMERT, Oscar or VinVL, or in those
that a first line names; several parts may be given, - reads one from stdin`,
		check: (*Options).checkImages, run: (*conversion).tsv},
	{Kind: "folder", Flags: strings.Fields(arrayFlags + " distinct skip-broken"),
		Help:  "one .npz or .npy for each image, whose name is the id",
		check: (*Options).checkImages, run: (*conversion).folder},
}

const arrayFlags = "split dtype regions dim fit features-key boxes-key sizes-key scale grid squeeze"

// Check returns an error that names the first option that cannot be used. It reads no file.
func (f *Format) Check(o *Options) error {
	if err := f.check(o); err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	return nil
}

// Convert converts the sources of options that Check accepts. It leaves no incomplete file after an error.
func (f *Format) Convert(o *Options, p Progress) (*Report, error) {
	c := &conversion{Options: *o, Report: Report{Rows: map[string]int{}}, progress: p}
	if err := f.run(c); err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	return &c.Report, nil
}

// Options say what to convert. Tags declare the flags (cmd/vsetrain/internal/flags).
type Options struct {
	// Out is a folder, which is made if it is missing; for a .npy source the new file.
	Out   string `flag:"out" arg:"DIR|FILE" need:"yes" usage:"output DIR, or for a .npy source the output FILE"`
	Force bool   `flag:"force" usage:"replace existing files"`

	Regions int `flag:"regions" min:"0" usage:"regions per image; 0 takes the first image's" group:"Images"`
	Dim     int `flag:"dim" min:"0" usage:"feature size; 0 takes the source's" group:"Images"`
	// Without Fit and SkipBroken, images with another number of regions and images that cannot be read are errors.
	Fit        bool `flag:"fit" usage:"pad images with too few regions with zeros, and cut those with too many" group:"Images"`
	SkipBroken bool `flag:"skip-broken" usage:"skip images that cannot be read, and name them" group:"Images"`
	Distinct   bool `flag:"distinct" usage:"write one row for an image that an ids file repeats for each caption" group:"Images"`

	Sources    []string  `args:"SOURCE"`
	SplitFlags []string  `flag:"split" arg:"NAME[=IDS]" usage:"output split and its ids file"`
	Splits     []Split   // from SplitFlags, by Parse
	Type       string    `flag:"dtype" enum:"f32|f16" default:"f32" usage:"type of the stored features"`
	DType      npy.DType // from Type, by Parse

	// Names of the arrays in archives; "" tries the usual ones (defaultKeys).
	Features string `flag:"features-key" arg:"NAME" usage:"NAME of the features in .npz, if it is none of the usual ones" group:"Arrays"`
	Boxes    string `flag:"boxes-key" arg:"NAME" usage:"NAME of the boxes in .npz, if it is none of the usual ones" group:"Arrays"`
	Sizes    string `flag:"sizes-key" arg:"NAME" usage:"NAME of the picture sizes in .npz, if it is none of the usual ones" group:"Arrays"`

	// Scale multiplies the features. 0 keeps floats and refuses integers, whose meaning is unknown.
	Scale float64 `flag:"scale" usage:"factor for the numbers in arrays; integers require it, 1 keeps them as they are" group:"Arrays"`
	Axes

	IDKey      string `flag:"id-key" arg:"NAME" usage:"key of the image id in a .json" empty:"cocoid or filename" group:"Other sources"`
	Captions   int    `flag:"captions" min:"0" usage:"take only the first N captions of each image in a .json; 0 takes all" group:"Other sources"`
	Mean       bool   `flag:"mean" usage:"store the mean of the regions of each image (.npy)" group:"Arrays"`
	SourceType string `flag:"source-dtype" enum:"f16|f32|f64" usage:"type of the features in a .tsv, if its values are ambiguous" group:"Other sources"`
	KeepFirst  bool   `flag:"keep-first" usage:"keep the first of two different records of an image in a .tsv" group:"Other sources"`

	In io.Reader // standard input, for the source -
}

// Split names an output and the ids file that gives its images and their order. An empty IDs takes every image of the
// source in its own order; that is possible for one split only. For a .json, IDs are the splits of the file, separated
// by commas.
type Split struct {
	Name string // "train", "dev", "test", "testall" or any other prefix
	IDs  string // path of a text file with one image id per line
}

// Parse sets Splits and DType, which flags give as text.
func (o *Options) Parse() {
	o.DType, o.Splits = map[string]npy.DType{"f16": npy.F16, "f32": npy.F32}[o.Type], nil
	for _, s := range o.SplitFlags {
		name, ids, _ := strings.Cut(s, "=")
		o.Splits = append(o.Splits, Split{Name: name, IDs: ids})
	}
}

// checkImages checks the options of sources of images with features.
func (o *Options) checkImages() error {
	switch {
	case o.Regions > maxRegions:
		return fmt.Errorf("regions: expected a whole number in [0, %d], found %d", maxRegions, o.Regions)
	case o.Dim > maxDim:
		return fmt.Errorf("feature size: expected a whole number in [0, %d], found %d", maxDim, o.Dim)
	case len(o.Splits) == 0:
		return errors.New("expected at least one split, found none; name one, such as train")
	case o.Fit && o.Regions == 0:
		return errors.New("padding and cutting needs the number of regions; set it with --regions, 36 for the usual " +
			"layout")
	}
	for _, s := range o.Splits {
		if s.IDs == "" && len(o.Splits) > 1 {
			return fmt.Errorf("split %s has no ids file: with several splits each needs one, to tell which images are "+
				"its own", s.Name)
		}
	}
	if err := o.checkArrays(); err != nil {
		return err
	}
	return o.checkNames()
}

// checkNames returns an error for splits whose files would have the same names.
func (o *Options) checkNames() error {
	seen := map[string]bool{}
	for _, s := range o.Splits {
		if s.Name == "" || filepath.Base(s.Name) != s.Name || seen[s.Name] {
			return fmt.Errorf("split name %q: expected a different plain name for each split, such as train", s.Name)
		}
		seen[s.Name] = true
	}
	return nil
}

// checkArrays checks the options of arrays.
func (o *Options) checkArrays() error {
	if !(o.Scale >= 0 && o.Scale <= math.MaxFloat64) {
		return fmt.Errorf("scale: expected a number > 0, found %v", o.Scale)
	}
	for i, axis := range o.Squeeze {
		if slices.Contains(o.Squeeze[:i], axis) {
			return fmt.Errorf("squeeze: expected different axes, counted from 0, found %v", o.Squeeze)
		}
	}
	return nil
}
