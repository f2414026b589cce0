package data

import (
	"fmt"
	"path/filepath"
	"slices"
)

// Images with fewer regions than the array are padded: {split}_lengths.npy, whole numbers [rows], has the number of
// regions of each row. The rest of the row is ignored. Without the file every image has R regions.
const lengthsEnd = "_lengths.npy"

// Counted reports whether images have different numbers of regions (Batch.Counts).
func Counted(s *Split) bool { return s.counts != nil }

// regionCount returns the number of regions of a feature row.
func regionCount(s *Split, row int) int {
	if s.counts == nil {
		return s.regions
	}
	return int(s.counts[row])
}

// openLengths reads the numbers of regions, if there is a file of them.
func openLengths(s *Split, o *OpenOptions) error {
	if s.images == nil {
		return nil
	}
	f, err := s.array(lengthsEnd)
	if missing(err) {
		o.warn(func() error { return padding(s) })
		return nil
	}
	if err != nil {
		return err
	}
	if len(f.Shape) != 1 || f.Rows() != s.rows || !f.Whole() {
		return fmt.Errorf("%s: shape %v of %s; expected whole numbers [%d], the regions of each row of %s", f.Path,
			f.Shape, f.DType.Name(), s.rows, filepath.Base(s.imagePath))
	}
	counts, err := f.Ints()
	if err != nil {
		return err
	}
	out := make([]int32, len(counts))
	for row, n := range counts {
		if n < 1 || n > int64(s.regions) {
			return fmt.Errorf("%s: row %d has %d regions; expected 1 to %d, the places of %s", f.Path, row, n,
				s.regions, filepath.Base(s.imagePath))
		}
		out[row] = int32(n)
	}
	if slices.Min(out) < int32(s.regions) {
		s.counts = out
	}
	o.warn(func() error { return padding(s) })
	return nil
}

// padding returns an error if rows seem to be padded although no file says so: their last regions are zeros. It
// examines 64 rows.
func padding(s *Split) error {
	if s.counts != nil || s.regions < 2 {
		return nil
	}
	row := make([]float32, s.regions*s.dim)
	sample := min(s.rows, 64)
	var z zeroRegions
	for k := range sample {
		if err := s.images.ReadRow(row, k*s.rows/sample); err != nil {
			return err
		}
		z.add(row, s.dim, k)
	}
	if !z.padding() {
		return nil
	}
	return fmt.Errorf("%s: the last regions of %d of %d rows are zeros and count as regions; %s", s.imagePath,
		len(z.last), sample, lengthsRemedy)
}

// zeroRegions counts rows of features with regions of zeros.
type zeroRegions struct {
	last    []int // rows that end with a region of zeros
	between int   // number of rows with a region of zeros before another region
}

// add takes a row [R, dim]. It ignores a row that is all zeros.
func (z *zeroRegions) add(row []float32, dim, number int) {
	n := regionsIn(row, dim)
	if n > 0 && n*dim < len(row) {
		z.last = append(z.last, number)
	}
	for r := range max(n-1, 0) {
		if regionsIn(row[r*dim:(r+1)*dim], dim) == 0 {
			z.between++
			return
		}
	}
}

// padding reports whether regions of zeros are at the ends of rows more often than by chance.
func (z *zeroRegions) padding() bool { return len(z.last) > 1+2*z.between }

// lengthsRemedy says how to count regions without padding.
const lengthsRemedy = "if they are padding, `vsetrain data convert --fit` writes how many regions each image has " +
	"({split}_lengths.npy, docs/data.md)"

// regionsIn returns the number of regions of a row [R, dim] up to the last that is not zero.
func regionsIn(row []float32, dim int) int {
	for i := len(row) - 1; i >= 0; i-- {
		if row[i] != 0 {
			return i/dim + 1
		}
	}
	return 0
}
