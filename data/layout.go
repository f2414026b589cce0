package data

import (
	"fmt"
	"path/filepath"
	"strings"
)

// devCaptions is the number of captions of the dev split that the references validate on.
const devCaptions = 5000

// openLayout finds how captions, features and ids belong together, and which captions are used.
func openLayout(s *Split, o *OpenOptions) (err error) {
	switch {
	case o.CaptionsPerImage < 0:
		return fmt.Errorf("captions per image %d; expected a positive number, or 0 to derive it from the files",
			o.CaptionsPerImage)
	case s.captions == nil && s.images == nil:
		return missingSplit(s.dir, s.name)
	case !o.Partial:
		if err := Need(s, true, true); err != nil {
			return err
		}
	}
	if s.layout, err = solveLayout(s.captions, s.images, s.ids, o.CaptionsPerImage, s.imagePath); err != nil {
		return err
	}
	s.limit(o.MaxCaptions)
	o.warn(func() error { return oddIDs(s) })
	o.warn(func() error { return dropped(s, o.MaxCaptions) })
	if n, line := s.captions.empty(s.n); n > 0 && !o.AllowEmpty {
		return fmt.Errorf("%s:%d: empty caption (%d in all); write a caption on the line, or remove the line "+
			"together with its image row and id", s.captions.path, line, n)
	}
	return nil
}

func (s *Split) limit(most int) {
	s.n = s.layout.captions
	if most == 0 && s.name == "dev" {
		most = devCaptions
	}
	if most > 0 && most < s.n {
		s.groups = s.groups.Part(0, s.groups.atMost(most))
		s.n = s.groups.Items()
	}
}

// dropped returns an error if captions are left out of a split, unless its published results leave them out, too.
func dropped(s *Split, asked int) error {
	if n := s.layout.captions; s.n == n || asked > 0 && asked != devCaptions || n == 5070 || n == 25000 {
		return nil // Flickr30K and MS-COCO
	}
	return fmt.Errorf("%s: the first %d of %d captions are used; data.dev_captions: 0 uses all", s.CaptionPath(), s.n,
		s.layout.captions)
}

// solveLayout reads from the files of a split how many captions each image has:
//
//  1. from the ids, which are equal for the captions of an image;
//  2. otherwise from runs of equal feature rows, if there is a row per caption;
//  3. otherwise from the numbers of rows and captions.
//
// Only ids can give images different numbers of captions. A number that the user gives (want, 0 for none) must agree
// with the files; it decides only if they say nothing. If two readings fit, the split is refused.
//
// text is nil without captions, images nil without features, ids nil without an ids file; path is the feature file.
func solveLayout(text *lineFile, images RowSource, ids *lineFile, want int, path string) (layout, error) {
	r := layoutReader{text: text, images: images, ids: ids, want: want, features: path}
	if text != nil {
		r.captions, r.items, r.of = text.len(), text.len(), text.path
	}
	if images != nil {
		r.rows = images.Rows()
	}
	var err error
	switch {
	case text == nil:
		r.items, r.of, r.want = r.rows, path, 0
		err = r.gallery()
	case images == nil:
		err = r.captionsAlone()
	case r.rows == r.captions:
		err = r.rowPerCaption()
	default:
		err = r.rowPerImage()
	}
	if err == nil && r.want > 0 && r.groups.Each() != r.want {
		err = fmt.Errorf("%s: data.captions_per_image (--captions-per-image) is %d, but %s; leave it at auto, or give "+
			"each split its own number, such as train=20,test=1", r.of, r.want, r.says)
	}
	if images == nil {
		r.rows = r.groups.Images()
	}
	return r.layout, err
}

// layoutReader is a layout while it is read.
type layoutReader struct {
	layout
	text     *lineFile
	images   RowSource
	ids      *lineFile
	want     int
	features string // file
	of       string // file of the items: captions, or feature rows if there are none
	items    int
	says     string // what the files say about the number of captions
}

// idLines returns the number of ids; 0 without a file.
func (r *layoutReader) idLines() int {
	if r.ids == nil {
		return 0
	}
	return r.ids.len()
}

// rowPerImage reads a split whose numbers of rows and captions differ: each row is an image.
func (r *layoutReader) rowPerImage() error {
	switch r.idLines() {
	case 0, r.rows:
	case r.captions:
		counts, err := runsOfIDs(r.ids)
		if err != nil {
			return err
		}
		if len(counts) == r.captions && r.captions%r.rows == 0 {
			return fmt.Errorf("%s: %d ids, all different, for the captions of %d image rows; expected the id of the "+
				"image of each caption, equal for the captions of an image", r.ids.path, len(counts), r.rows)
		}
		if len(counts) != r.rows {
			return fmt.Errorf("%s: %d runs of equal ids, but %s has %d rows; expected a row for each image, or for "+
				"each of the %d captions", r.ids.path, len(counts), filepath.Base(r.features), r.rows, r.captions)
		}
		r.take(counts)
		return nil
	default:
		return r.wrongIDs()
	}
	if r.captions%r.rows != 0 {
		return fmt.Errorf("%s and %s: %d captions do not fit %d image rows: expected the same number of captions for "+
			"each row, or a row for each caption; if images have different numbers of captions, write the id of its "+
			"image for each caption into %s", r.text.path, filepath.Base(r.features), r.captions, r.rows, r.idsPath())
	}
	k := r.captions / r.rows
	runs, err := runsOf(r.images, few)
	if err != nil {
		return err
	}
	if runs.length > 1 && runs.length < r.rows {
		return fmt.Errorf("%s: rows come in groups of %d equal ones, and there are %d captions for each row; expected "+
			"each image once, or once for each of its captions", r.features, runs.length, k)
	}
	r.groups = EqualGroups(r.rows, k)
	r.says = fmt.Sprintf("there are %d captions for %d image rows, %d for each", r.captions, r.rows, k)
	return nil
}

// rowPerCaption reads a split with as many rows as captions: each image has one caption, or is stored once for each.
func (r *layoutReader) rowPerCaption() error {
	switch m := r.idLines(); {
	case m == r.items:
		if err := r.takeIDs(); err != nil || r.repeated {
			return err
		}
		// Ids that all differ are ids of images, or of captions where the rows repeat.
		runs, err := runsOf(r.images, many)
		if err == nil && runs.length > 1 && runs.length < r.rows {
			r.takeRuns(runs.length)
			return nil
		}
		r.groups = EqualGroups(r.items, 1)
		r.says = fmt.Sprintf("%s has a different id for each caption", r.ids.path)
		return err
	case m > 0:
		return r.idPerImage()
	}
	runs, err := runsOf(r.images, many)
	if err != nil {
		return err
	}
	k := 1
	switch {
	case runs.differ == 0 && (runs.equal == 0 || r.want > 0): // zeros, or all equal: the features say nothing
		if k = max(r.want, 1); r.items%k != 0 {
			return fmt.Errorf("%s: %d captions are not a multiple of %d captions per image", r.of, r.items, k)
		}
	case !runs.clear() && r.want != runs.length:
		return fmt.Errorf("%s: %d of %d neighbouring rows are equal, the first of them %d and %d, but not the same "+
			"number for each image, so it is not clear which rows belong to one image; write the id of its image for "+
			"each caption into %s, or set data.captions_per_image to %d if images look alike", r.features, runs.equal,
			runs.equal+runs.differ, runs.first, runs.first+1, r.idsPath(), runs.length)
	case runs.length > 1:
		r.takeRuns(runs.length)
		return nil
	}
	r.groups, r.repeated = EqualGroups(r.items/k, k), k > 1
	r.says = fmt.Sprintf("%s has a row for each caption, and neighbouring rows differ", r.features)
	return nil
}

// idPerImage reads a split with a row per caption and an id per image.
func (r *layoutReader) idPerImage() error {
	m := r.ids.len()
	if m > r.items {
		return r.wrongIDs()
	}
	runs, err := runsOf(r.images, many)
	if err != nil {
		return err
	}
	k := r.items / m
	if m*k == r.items && runs.length%k == 0 {
		r.repeated = k > 1
		r.groups = EqualGroups(m, k)
		r.says = fmt.Sprintf("%s has %d ids for %d rows, %d for each", r.ids.path, m, r.rows, k)
		return nil
	}
	counts, err := countRuns(r.images)
	if err != nil {
		return err
	}
	if len(counts) != m {
		return fmt.Errorf("%s: %d ids for %d image rows, which come in %d groups of equal ones; expected a group for "+
			"each id, or an id for each row", r.ids.path, m, r.rows, len(counts))
	}
	r.repeated = true
	r.take(counts)
	return nil
}

// gallery reads a split without captions. Each row is an image, unless ids come in runs of equal ids or, without ids,
// rows in runs of equal rows.
func (r *layoutReader) gallery() error {
	switch m := r.idLines(); {
	case m == r.rows:
		return r.takeIDs()
	case m > 0:
		return r.idPerImage()
	}
	runs, err := runsOf(r.images, many)
	if r.groups = EqualGroups(r.rows, 1); err == nil && runs.length > 1 && runs.length < r.rows {
		r.takeRuns(runs.length)
	}
	return err
}

// captionsAlone reads a split without images.
func (r *layoutReader) captionsAlone() error {
	k := max(r.want, 1)
	switch m := r.idLines(); {
	case m == r.items:
		return r.takeIDs()
	case m > 0 && r.items%m == 0:
		k = r.items / m
	case m > 0:
		return r.wrongIDs()
	case r.items%k != 0:
		return fmt.Errorf("%s: %d captions are not a multiple of %d captions per image", r.of, r.items, k)
	}
	r.groups = EqualGroups(r.items/k, k)
	r.says = fmt.Sprintf("there are %d captions for each of the %d ids", k, r.idLines())
	return nil
}

// takeIDs takes runs of equal ids, each of an image, where every item has an id.
func (r *layoutReader) takeIDs() error {
	counts, err := runsOfIDs(r.ids)
	if err == nil {
		r.repeated = r.images != nil && len(counts) < r.rows
		r.take(counts)
	}
	return err
}

// take takes the number of captions of each image.
func (r *layoutReader) take(counts []int) {
	r.groups = GroupsOf(counts)
	each := "different numbers of lines for its images"
	if k := r.groups.Each(); k > 0 {
		each = fmt.Sprintf("%d equal lines for each image", k)
	}
	r.says = fmt.Sprintf("%s has %s", r.ids.path, each)
}

// takeRuns takes runs of k equal rows, each of an image.
func (r *layoutReader) takeRuns(k int) {
	r.groups, r.repeated = EqualGroups(r.items/k, k), true
	r.says = fmt.Sprintf("the rows of %s come in groups of %d equal ones", r.features, k)
}

// idsPath returns the path of the ids of the split.
func (r *layoutReader) idsPath() string {
	return strings.TrimSuffix(r.features, "_ims.npy") + "_ids.txt"
}

func (r *layoutReader) wrongIDs() error {
	return fmt.Errorf("%s: %d ids for the %d image rows of %s and %d captions; expected one for each row, image or "+
		"caption",
		r.ids.path, r.ids.len(), r.rows, filepath.Base(r.features), r.captions)
}
