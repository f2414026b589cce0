// Package convert turns published region features and captions into the files of a precomp folder, features row by row
// in constant memory. Formats lists the sources that it reads.
//
// Features become {split}_ims.npy [N, R, D], and where the source has them {split}_ims_bbx.npy [N, R, 4] (float32,
// pixels x1, y1, x2, y2) and {split}_ims_size.npy [N, 2] (int32, width, height), plus {split}_ids.txt. Where an image
// has fewer regions than R, {split}_lengths.npy [N] (int32) has the number of each. Rows follow the order of an ids
// file, as SCAN's converter does; an id may occur several times there (the repeated layout).
package convert

import (
	"cmp"
	"fmt"

	"vsetrain/internal/compute/vec"
	"vsetrain/internal/files/runfs"
)

// Progress receives the progress of a phase, in bytes for "index" and in images for "write"; total is -1 if unknown.
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
	Duplicates []Duplicate    // records left out in favour of another record of the same image
	Broken     []Broken       // images that were left out (SkipBroken)
	Padded     int            // images with fewer than R regions (Fit)
	Cut        int            // images with more than R regions (Fit)
	Notes      []string       // other information for the user, a line each
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Duplicate is a record that was left out because another record of the same image was used.
type Duplicate struct {
	ID         string
	Kept, Left string // file:line
	Why        string // what is wrong with the record that was left out, or how it compares with the other one
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

// conversion is a conversion under way: its options, whose Regions and Dim the first image settles, and its report.
type conversion struct {
	Options
	Report
	progress Progress
}

// Limits that keep a corrupt count from asking for absurd memory.
const (
	maxRegions  = 1 << 14
	maxDim      = 1 << 20
	maxElements = 1 << 26 // features of one image
)

// item is one image of a source.
type item struct {
	regions, dim  int
	length        int       // regions that are not padding
	features      []float32 // [regions, dim]
	boxes         []float32 // [regions, 4]; nil when the source has none
	width, height int64     // 0 when unknown
}

// fitItem settles R and D by the first image, and checks or fits every later one.
func (c *conversion) fitItem(it *item) error {
	c.Regions, c.Dim = cmp.Or(c.Regions, it.regions), cmp.Or(c.Dim, it.dim)
	if it.dim != c.Dim {
		return fmt.Errorf("expected features of %d channels, found %d; all images of a data set must come from one "+
			"detector", c.Dim, it.dim)
	}
	it.length = min(it.regions, c.Regions)
	switch {
	case it.regions == c.Regions:
		return nil
	case !c.Fit:
		return fmt.Errorf("expected %d regions, found %d; allow padding and cutting with --fit, or extract the "+
			"features with a fixed number of boxes", c.Regions, it.regions)
	case it.regions < c.Regions:
		c.Padded++
	default:
		c.Cut++
	}
	it.features = fit(it.features, c.Regions*c.Dim)
	if it.boxes != nil {
		it.boxes = fit(it.boxes, c.Regions*4)
	}
	it.regions = c.Regions
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
	if i := vec.NotFinite(v); i >= 0 {
		return fmt.Errorf("%s: region %d, channel %d is %v: expected a finite number; extract the features of this "+
			"image again", what, i/width, i%width, v[i])
	}
	return nil
}

// free returns an error when path exists and force is not set.
func free(path string, force bool) error {
	there, err := runfs.Exists(path)
	if err == nil && there && !force {
		err = fmt.Errorf("%s: already exists; choose another folder or replace it with --force", path)
	}
	return err
}
