package data

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
)

// layout says how captions, image rows and ids of a split belong together.
type layout struct {
	captions int  // lines of the caption file
	rows     int  // rows of the feature file; of captions alone the images that they describe
	k        int  // captions per image; of images alone the rows of an image
	repeated bool // an image row per caption rather than per image
}

// solveLayout finds k and the storage of the rows. want is the captions per image that the user insists on, 0 for
// none; text is nil without captions, images without features, ids where there is no ids file. path is that of the
// features.
//
// Rule (spec of the precomp files): as many rows as captions means one row per caption, else five captions per
// row. One row per caption is either one caption per image (k = 1) or each image stored k times; the ids tell, and
// where they do not, the features do.
func solveLayout(text *lineFile, images RowSource, ids *lineFile, want int, path string) (layout, error) {
	switch {
	case text == nil:
		return galleryLayout(images, ids, path)
	case images == nil:
		return captionLayout(text, ids, want)
	}
	captions, name := text.len(), fmt.Sprintf("%s and %s", text.path, filepath.Base(path))
	l := layout{captions: captions, rows: images.Rows(), k: want}
	if l.rows != captions {
		l.k = cmp.Or(l.k, usualCaptions)
		if l.rows*l.k == captions {
			return l, nil
		}
		hint := ""
		if want == 0 && l.rows > 0 && captions%l.rows == 0 {
			hint = fmt.Sprintf("; if each image has %d captions, set data.captions_per_image: %d", captions/l.rows,
				captions/l.rows)
		}
		return l, fmt.Errorf("%s: %d captions do not fit %d image rows: expected %d captions (%d for each row) or %d "+
			"(one for each row)%s",
			name, captions, l.rows, l.rows*l.k, l.k, l.rows, hint)
	}
	if want == 0 {
		k, err := repetition(images, ids, captions, name)
		l.k, l.repeated = k, k > 1
		return l, err
	}
	l.repeated = want > 1
	if captions%want != 0 {
		return l, fmt.Errorf("%s: %d captions are not a multiple of %d captions per image", name, captions, want)
	}
	if ids == nil || ids.len() != captions {
		return l, nil
	}
	return l, checkRuns(images, ids, want, name)
}

// galleryLayout is that of images without captions. Each row is an image, unless ids come in groups of equal ones, or
// the features do where there are no ids that say otherwise.
func galleryLayout(images RowSource, ids *lineFile, name string) (layout, error) {
	l := layout{rows: images.Rows(), k: 1}
	if ids != nil && ids.len() == l.rows && runLength(ids, 0) == 1 {
		return l, nil
	}
	var err error
	l.k, err = repetition(images, ids, l.rows, name)
	l.repeated = l.k > 1
	return l, err
}

// captionLayout is that of captions without images.
func captionLayout(captions, ids *lineFile, want int) (layout, error) {
	l := layout{captions: captions.len(), k: max(want, 1)}
	if want == 0 && ids != nil && ids.len() == l.captions {
		l.k = runLength(ids, 0)
	} else if want == 0 && ids != nil && ids.len() > 0 {
		l.k = max(l.captions/ids.len(), 1)
	}
	if l.rows = l.captions / l.k; l.rows*l.k != l.captions {
		return l, fmt.Errorf("%s: %d captions are not a multiple of %d captions per image", captions.path, l.captions,
			l.k)
	}
	return l, nil
}

// usualCaptions is the number of captions per image of Flickr8K, Flickr30K and MS-COCO.
const usualCaptions = 5

// repetition returns how often each image is stored in a row-per-caption layout.
func repetition(images RowSource, ids *lineFile, n int, name string) (int, error) {
	k := 1
	switch {
	case ids == nil:
	case ids.len() == n:
		k = runLength(ids, 0)
		if k > 1 {
			return k, checkRuns(images, ids, k, name)
		}
		for i := 1; i < n; i++ {
			if ids.line(i) == ids.line(i-1) {
				return 0, fmt.Errorf("%s: image %q has several rows, image %q one; every image must have the same "+
					"number of captions",
					at(ids, i), ids.line(i), ids.line(0))
			}
		}
	case ids.len() > 0 && n%ids.len() == 0:
		k = n / ids.len()
		if same, err := rowsRepeat(images, k); err != nil || same {
			return k, err
		}
		return 0, fmt.Errorf("%s: %d ids for %d image rows, but the rows do not come in groups of %d equal ones",
			ids.path, ids.len(), n, k)
	}
	same, err := rowsRepeat(images, usualCaptions)
	if same {
		k = usualCaptions
	}
	return k, err
}

// runLength returns how many lines from i on are equal.
func runLength(ids *lineFile, i int) int {
	j := i + 1
	for j < ids.len() && ids.line(j) == ids.line(i) {
		j++
	}
	return j - i
}

// checkRuns checks that one id per row comes in groups of k equal ones. Ids that are all different are accepted when
// the features repeat.
func checkRuns(images RowSource, ids *lineFile, k int, name string) error {
	for i := 0; i < ids.len(); i += k {
		run := runLength(ids, i)
		if run == k {
			continue
		}
		if i == 0 && run == 1 && k > 1 {
			if same, err := rowsRepeat(images, k); err != nil || same {
				return err
			}
		}
		return fmt.Errorf("%s: image id %q stands on %d consecutive lines; expected %d, the captions per image of %s",
			at(ids, i), ids.line(i), run, k, name)
	}
	return nil
}

// rowsRepeat reports whether the rows come in groups of k equal ones, judged by up to eight groups spread over the
// file.
func rowsRepeat(images RowSource, k int) (bool, error) {
	n := images.Rows()
	if k < 2 || n == 0 || n%k != 0 {
		return false, nil
	}
	first, other := make([]float32, images.RowLen()), make([]float32, images.RowLen())
	groups := n / k
	probes := min(groups, 8)
	for p := range probes {
		g := p * groups / probes
		if err := images.ReadRow(first, g*k); err != nil {
			return false, err
		}
		for j := 1; j < k; j++ {
			if err := images.ReadRow(other, g*k+j); err != nil {
				return false, err
			}
			if !slices.Equal(first, other) {
				return false, nil
			}
		}
	}
	return true, nil
}

// at names a line of a file.
func at(l *lineFile, i int) string { return fmt.Sprintf("%s:%d", l.path, i+1) }
