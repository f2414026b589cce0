package data

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// checkBoxes examines the boxes of a split and the sizes of its pictures, if there are any.
func (r *Report) checkBoxes(s *Split) {
	found := func(names []string) bool {
		return slices.ContainsFunc(names, func(n string) bool {
			_, err := os.Lstat(s.path(n))
			return !missing(err)
		})
	}
	file := s.name + boxNames[0]
	switch boxes, sizes := found(boxNames), found(sizeNames); {
	case !boxes && !sizes:
		return
	case !boxes:
		r.warn(s.name+sizeNames[0], "nothing else needs them",
			"picture sizes without boxes: GSMN and pictures of attention need both")
		return
	case !sizes:
		r.warn(file, "nothing else needs them", "boxes without picture sizes: GSMN and pictures of attention need both")
		return
	}
	if err := openBoxes(s, &OpenOptions{Boxes: true}); err != nil {
		r.fail(file, "convert boxes and sizes again together with the features", "%v", err)
		return
	}
	file = filepath.Base(s.boxes.path)
	if s.boxes.shares {
		r.warn(file, "nothing to do if that is correct", "no coordinate of a box is greater than 1: boxes "+
			"are taken for shares of the width and height of their pictures, not for pixels")
	}
	row := make([]float32, 4*s.regions)
	var bad []int
	first := ""
	for i := range s.rows {
		if err := s.boxes.pixels.ReadRow(row, i); err != nil {
			r.fail(file, "", "%v", err)
			return
		}
		if what := badBox(row, s.boxes.sizes[2*i], s.boxes.sizes[2*i+1]); what != "" {
			if bad = append(bad, i); first == "" {
				first = what
			}
		}
	}
	if len(bad) > 0 {
		r.fail(file, "do boxes and sizes belong to the same pictures? convert them again together",
			"%d rows have boxes outside the picture, the first are %v; row %d, %s",
			len(bad), bad[:min(len(bad), firstRows)], bad[0], first)
	}
}

// checkRepeated checks that several rows of an image are equal.
func (r *Report) checkRepeated(s *Split, o CheckOptions) {
	if !s.repeated || o.SampleRows > 0 {
		return
	}
	count, first := 0, 0
	for row := 1; row < s.rows && row < s.groups.Items(); row++ {
		if s.groups.ImageOf(row) != s.groups.ImageOf(row-1) {
			continue
		}
		equal, _, err := equalRows(s.images, row-1, row)
		if err != nil {
			r.fail(s.name+"_ims.npy", "", "%v", err)
			return
		}
		if !equal {
			if count++; count == 1 {
				first = row
			}
		}
	}
	if count > 0 {
		r.warn(s.name+"_ims.npy", "are ids and rows in the same order?", "%d rows differ from the previous row "+
			"although both belong to one image, the first is row %d (image id %s)", count, first, s.ImageID(first))
	}
}

// checkDependencies examines the dependency trees of a split, if there are any. words is the number of words of each
// caption in use.
func (r *Report) checkDependencies(s *Split, words []int) {
	if err := openWordIDs(s, &OpenOptions{WordIDs: true}); err != nil {
		r.fail(s.name+wordIDsEnd, "", "%v", err)
	}
	if w := s.words; w != nil { // the dependencies are the dependencies of these words
		words = slices.Clone(words)
		for c := range words {
			words[c] = int(w.first[c+1]-w.first[c]) - 2
		}
	}
	if err := openDependencies(s, &OpenOptions{Dependencies: "check"}); err != nil {
		r.fail(s.name+"_caps.json", "parse the captions again", "%v", err)
		return
	}
	d := s.dependencies
	if d == nil {
		return
	}
	var wrong []string
	first := error(nil)
	for c, n := range words {
		if err := d.check(c, n); err != nil {
			first = cmp.Or(first, err)
			wrong = append(wrong, fmt.Sprint(d.Line(c)))
		}
	}
	if first != nil {
		r.fail(filepath.Base(d.path), "parse these captions as they are tokenised here, or leave such pairs out; "+
			"training ignores them",
			"%d captions have dependencies on words they do not have (lines %s): %v", len(wrong),
			strings.Join(wrong[:min(len(wrong), firstRows)], ", "), first)
	}
}
