// Package convert turns published region features and captions into the files of a precomp folder, features row by row
// in constant memory:
//
//	TSV       bottom-up-attention's tab-separated files with base64 arrays, of any size
//	Arrays    NumPy archives and arrays: one archive for a whole split, or a folder with a file for each image
//	Retype    one array of features: float32 to float16 and back, other axes
//	Captions  Karpathy's JSON of captions and splits
//
// Features become {split}_ims.npy [N, R, D], and where the source has them {split}_ims_bbx.npy [N, R, 4] (float32,
// pixels x1, y1, x2, y2) and {split}_ims_size.npy [N, 2] (int32, width, height), plus {split}_ids.txt. Where an image
// has fewer regions than R, {split}_lengths.npy [N] (int32) has the number of each. Rows follow the order of an ids
// file, as SCAN's converter does; an id may occur several times there (the repeated layout).
package convert

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"vsetrain/internal/files/npy"
)

// Split names an output and the ids file that gives its images and their order. An empty IDs takes every image of the
// source in its own order; that is possible for one split only.
type Split struct {
	Name string // "train", "dev", "test", "testall" or any other prefix
	IDs  string // path of a text file with one image id per line
}

// Target says what is written and where. It is part of the options of TSV and Arrays.
type Target struct {
	// Out is a folder, made when missing.
	Out    string `flag:"out" arg:"DIR|FILE" need:"yes" usage:"output DIR, or for a .npy source the output FILE"`
	Splits []Split
	DType  npy.DType // of the features: npy.F32 or npy.F16
	Force  bool      `flag:"force" usage:"replace existing files"`

	Regions int `flag:"regions" min:"0" usage:"regions per image; 0 takes the first image's" group:"Images"`
	Dim     int `flag:"dim" min:"0" usage:"feature size; 0 takes the source's" group:"Images"`
	// Without Fit and SkipBroken images of another number of regions, and those that cannot be read, are errors.
	Fit        bool `flag:"fit" usage:"pad images with too few regions with zeros, and cut those with too many" group:"Images"`
	SkipBroken bool `flag:"skip-broken" usage:"skip images that cannot be read, and name them" group:"Images"`
	Distinct   bool `flag:"distinct" usage:"write one row for an image that an ids file repeats for each caption" group:"Images"`
}

// Progress is told what is being done ("index" counts bytes, "write" images) and how far it is; total is -1 when
// unknown.
type Progress func(phase string, done, total int64)

func (p Progress) report(phase string, done, total int64) {
	if p != nil {
		p(phase, done, total)
	}
}

// Report sums up a conversion.
type Report struct {
	Rows       map[string]int // rows written for each split
	Records    int            // images read from the source
	Unused     int            // images of the source in no split
	Duplicates []Duplicate    // records beside others of the same images
	Broken     []Broken       // images that were left out (SkipBroken)
	Padded     int            // images with fewer than R regions (Fit)
	Cut        int            // images with more than R regions (Fit)
	Notes      []string       // what else a person should know, a line each
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Duplicate is a record that was left out, since another one of the same image was taken.
type Duplicate struct {
	ID         string
	Kept, Left string // file:line
	Why        string // it was left: what is wrong with it, or how it compares with the other
}

// Broken is an image whose record cannot be read.
type Broken struct {
	ID    string // "" where the record does not tell
	Where string // file:line; "" where the error names the file
	Err   error
}

// Error implements error.
func (b Broken) Error() string {
	text := b.Err.Error()
	if b.ID != "" {
		text = "image " + b.ID + ": " + text
	}
	if b.Where != "" {
		text = b.Where + ": " + text
	}
	return text
}

// Unwrap implements errors.Unwrap.
func (b Broken) Unwrap() error { return b.Err }

// Validate returns an error that names the first field that cannot be used.
func (t *Target) Validate() error {
	switch {
	case t.DType != npy.F32 && t.DType != npy.F16:
		return fmt.Errorf("convert: feature type: expected f32 (%s) or f16 (%s), found %q", npy.F32, npy.F16,
			string(t.DType))
	case t.Regions < 0 || t.Regions > maxRegions:
		return fmt.Errorf("convert: regions: expected a whole number in [0, %d], found %d", maxRegions, t.Regions)
	case t.Dim < 0 || t.Dim > maxDim:
		return fmt.Errorf("convert: feature size: expected a whole number in [0, %d], found %d", maxDim, t.Dim)
	case len(t.Splits) == 0:
		return fmt.Errorf("convert: expected at least one split, found none; name one, such as train")
	case t.Fit && t.Regions == 0:
		return fmt.Errorf("convert: padding and cutting needs the number of regions; set it with --regions, 36 for " +
			"the usual layout")
	}
	for _, s := range t.Splits {
		if s.IDs == "" && len(t.Splits) > 1 {
			return fmt.Errorf("convert: split %s has no ids file: with several splits each needs one, to tell which "+
				"images are its own", s.Name)
		}
	}
	return checkNames(t.Out, t.Splits)
}

// checkNames returns an error for an output that has no folder, or splits whose files would not be different ones.
func checkNames(out string, splits []Split) error {
	if out == "" {
		return fmt.Errorf("convert: output folder: expected a path, found nothing")
	}
	seen := map[string]bool{}
	for _, s := range splits {
		if s.Name == "" || filepath.Base(s.Name) != s.Name || seen[s.Name] {
			return fmt.Errorf("convert: split name %q: expected a different plain name for each split, such as train",
				s.Name)
		}
		seen[s.Name] = true
	}
	return nil
}

// Limits that keep a corrupt count from asking for absurd memory.
const (
	maxRegions  = 1 << 14
	maxDim      = 1 << 20
	maxElements = 1 << 26 // features of one image
)

// item is one image of a source.
type item struct {
	id            string
	regions, dim  int
	length        int       // regions that are not padding
	features      []float32 // [regions, dim]
	boxes         []float32 // [regions, 4]; nil when the source has none
	width, height int64     // 0 when unknown
}

// shape settles R and D by the first image and checks or fits every later one.
func (t *Target) shape(it *item, rep *Report) error {
	t.Regions = cmp.Or(t.Regions, it.regions)
	t.Dim = cmp.Or(t.Dim, it.dim)
	if it.dim != t.Dim {
		return fmt.Errorf("expected features of %d channels, found %d; all images of a data set must come from one "+
			"detector", t.Dim, it.dim)
	}
	it.length = min(it.regions, t.Regions)
	if it.regions == t.Regions {
		return nil
	}
	if !t.Fit {
		return fmt.Errorf("expected %d regions, found %d; allow padding and cutting with --fit, or extract the "+
			"features with a fixed number of boxes", t.Regions, it.regions)
	}
	if it.regions < t.Regions {
		rep.Padded++
	} else {
		rep.Cut++
	}
	it.features = fit(it.features, t.Regions*t.Dim)
	if it.boxes != nil {
		it.boxes = fit(it.boxes, t.Regions*4)
	}
	it.regions = t.Regions
	return nil
}

// fit cuts v to n elements or pads it with zeros.
func fit(v []float32, n int) []float32 {
	for len(v) < n {
		v = append(v, 0)
	}
	return v[:n]
}

// finite returns an error for the first value that is not a finite number; width is the row length of v.
func finite(what string, v []float32, width int) error {
	for i, x := range v {
		if d := float64(x); math.IsNaN(d) || math.IsInf(d, 0) {
			return fmt.Errorf("%s: region %d, channel %d is %v: expected a finite number; extract the features of "+
				"this image again", what, i/width, i%width, x)
		}
	}
	return nil
}

// free returns an error when path exists and force is not set.
func free(path string, force bool) error {
	_, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case force:
		return nil
	}
	return fmt.Errorf("%s: already exists; choose another folder or replace it with --force", path)
}
