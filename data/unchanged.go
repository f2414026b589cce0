package data

import (
	"errors"
	"io/fs"
	"os"
	"slices"
)

// filesOf describes the files of features and boxes of a split.
func filesOf(s *Split) (all []fs.FileInfo) {
	for _, end := range slices.Concat([]string{"_ims.npy", lengthsEnd}, boxNames, sizeNames) {
		if st, err := os.Stat(s.path(end)); err == nil {
			all = append(all, st)
		}
	}
	return all
}

// Unchanged returns for each image of s the image of earlier with the same id, features and boxes; -1 if there is none.
// If the files are the same, it compares where features are stored, not the features.
func Unchanged(earlier, s *Split) ([]int32, error) {
	same := make([]int32, s.NumImages())
	from, now := placesOf(earlier), placesOf(s)
	stored := slices.EqualFunc(earlier.onDisk, s.onDisk, func(a, b fs.FileInfo) bool {
		return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
	}) && sameJournal(earlier, s)
	other := earlier.regions != s.regions || earlier.dim != s.dim || (earlier.boxes == nil) != (s.boxes == nil)
	at := make(map[string]int32, len(from))
	for i, id := range ImageIDs(earlier) {
		at[id] = int32(i)
	}
	a, b := make([]float32, s.regions*s.dim), make([]float32, s.regions*s.dim)
	for i, id := range ImageIDs(s) {
		j, ok := at[id]
		if same[i] = -1; !ok || other || stored && from[j] != now[i] {
			continue
		}
		if !stored {
			err := errors.Join(earlier.ReadImage(a, earlier.RowOf(int(j))), s.ReadImage(b, s.RowOf(i)))
			if err != nil {
				return nil, err
			}
			if !slices.Equal(a, b) || regionCount(earlier, earlier.RowOf(int(j))) != regionCount(s, s.RowOf(i)) ||
				!equalBoxes(earlier, s, int(j), i) {
				continue
			}
		}
		same[i] = j
	}
	return same, nil
}

func equalBoxes(s, t *Split, i, j int) bool {
	if s.boxes == nil {
		return true
	}
	a, b := make([]float32, 4*s.regions), make([]float32, 4*s.regions)
	return errors.Join(s.ReadBoxes(a, s.RowOf(i)), t.ReadBoxes(b, t.RowOf(j))) == nil && slices.Equal(a, b)
}

// placesOf returns the places of the features of all images.
func placesOf(s *Split) []place {
	if c, ok := s.images.(*changes); ok {
		return c.places
	}
	places := make([]place, s.NumImages())
	for i := range places {
		places[i] = place{-1, int64(s.RowOf(i))}
	}
	return places
}

// sameJournal reports whether places mean the same in the journals of two splits. A split without a journal fits any.
func sameJournal(s, t *Split) bool {
	a, changedA := s.images.(*changes)
	b, changedB := t.images.(*changes)
	return !changedA || !changedB || string(a.head) == string(b.head)
}
