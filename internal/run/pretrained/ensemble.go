package pretrained

import (
	"fmt"

	"vsetrain/data"
	"vsetrain/internal/files/regular"
)

// Repeated warns of files of an ensemble with the same content: their mean counts one network several times.
func Repeated(files []string, warn func(error)) error {
	for i, a := range files {
		for _, b := range files[:i] {
			same, err := regular.Same(a, b)
			if err != nil {
				return err
			}
			if same && warn != nil {
				what := b + " and " + a + " are the same"
				if a == b {
					what = a + " is named twice"
				}
				warn(fmt.Errorf("%s: an ensemble of a network with itself is that network; leave one out", what))
				break
			}
		}
	}
	return nil
}

// SameSplit returns an error if checkpoint a on s and checkpoint b on t are not applied to the same images and
// captions: their scores cannot be averaged.
func SameSplit(a string, s *data.Split, b string, t *data.Split) error {
	same := s.NumImages() == t.NumImages() && s.NumCaptions() == t.NumCaptions() && data.Digest(s) == data.Digest(t)
	for i := 0; same && s.HasIDs() && t.HasIDs() && i < s.NumImages(); i++ {
		same = s.ImageID(s.RowOf(i)) == t.ImageID(t.RowOf(i))
	}
	if same {
		return nil
	}
	what := func(s *data.Split) string {
		return fmt.Sprintf("split %s of %s (%d images, %d captions)", s.Name(), s.Dir(), s.NumImages(), s.NumCaptions())
	}
	return fmt.Errorf("%s is applied to %s, %s to %s; an ensemble needs the same images and captions: "+
		"name one data set for all with --data", a, what(s), b, what(t))
}
