package data

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"vsetrain/internal/files/regular"
)

// openIDs reads the ids of the images, if there are any.
func openIDs(s *Split, _ *OpenOptions) (err error) {
	if s.ids, err = s.lines("_ids.txt", "ids"); s.ids == nil {
		return err
	}
	for i := range s.ids.len() {
		if id := s.ids.line(i); id != "" {
			if err := regular.CheckID(id); err != nil {
				return fmt.Errorf("%s: %w", at(s.ids, i), err)
			}
		}
	}
	return nil
}

// oddIDs returns an error if two images of a split have the same id, or ids that differ only in a file name extension,
// so that both find the same picture.
func oddIDs(s *Split) error {
	if !named(s) {
		return nil
	}
	seen := make(map[string]int, s.groups.Images())
	count, first := 0, ""
	for i := range s.groups.Images() {
		id := s.ImageID(s.RowOf(i))
		other, again := seen[stem(id)]
		if !again {
			seen[stem(id)] = i
			continue
		}
		if count++; count == 1 {
			first = fmt.Sprintf("images %d and %d have the ids %q and %q", other, i, s.ImageID(s.RowOf(other)), id)
		}
	}
	if count == 0 {
		return nil
	}
	return fmt.Errorf("%s: ids of images repeat, endings of file names aside (%d of %d): %s", s.ids.path, count,
		s.groups.Images(), first)
}

// stem returns an id without a file name extension.
func stem(id string) string {
	if end := filepath.Ext(id); len(end) > 3 && len(end) < 6 {
		return strings.TrimSuffix(id, end)
	}
	return id
}

// named reports whether images have ids other than their numbers, from 0 or 1.
func named(s *Split) bool {
	for i := 0; s.ids != nil && i < s.groups.Images(); i++ {
		if n, err := strconv.Atoi(s.ImageID(s.RowOf(i))); err != nil || n != i && n != i+1 {
			return true
		}
	}
	return false
}

// SharedImages returns an error that says how many images of split b are in split a, too, by their ids; nil if there
// are none. It ignores the ids of b if they are the numbers of its images.
func SharedImages(a, b *Split) error {
	if a.ids == nil || !named(b) {
		return nil
	}
	have := make(map[string]bool, a.NumImages())
	for i := range a.NumImages() {
		have[stem(a.ImageID(a.RowOf(i)))] = true
	}
	count, first := 0, ""
	for i := range b.NumImages() {
		if id := b.ImageID(b.RowOf(i)); have[stem(id)] {
			if count++; count == 1 {
				first = id
			}
		}
	}
	if count == 0 {
		return nil
	}
	return fmt.Errorf("%s: %d of %d images are in split %s too, such as %q: are these the ids of another split?",
		b.ids.path, count, b.NumImages(), a.name, first)
}
