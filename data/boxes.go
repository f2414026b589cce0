package data

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/pickle"
)

// Boxes of the regions are for networks that use positions (GSMN). {split}_boxes.npy or, as the reference names it,
// {split}_ims_bbx.npy holds pixel coordinates x1, y1, x2, y2 [rows, R, 4]. {split}_sizes.npy or {split}_ims_size.npy
// holds the width and height of each picture, [rows, 2] numbers or dicts {image_w, image_h}. Rows are the rows of the
// feature file. If no coordinate is greater than 1, coordinates are shares of width and height.
//
// Every read returns x/width, y/height. The reference divides in place at each access, so its boxes shrink to nothing
// within a few epochs (quirk Q9), and it pairs image i of a validation set with the box of caption i (Q10).

// shareBoxes are boxes in pixels from a file of shares of width and height.
type shareBoxes struct {
	RowSource
	sizes []float32
}

// ReadRow implements RowSource.
func (b *shareBoxes) ReadRow(dst []float32, row int) error {
	err := b.RowSource.ReadRow(dst, row)
	for i := range dst {
		dst[i] *= b.sizes[2*row+i%2]
	}
	return err
}

// areShares reports whether boxes are shares of width and height: in a sample of 64 rows, no coordinate is greater than
// 1.5, and some picture is larger than 4 pixels.
func areShares(boxes RowSource, sizes []float32) (bool, error) {
	row, sample := make([]float32, boxes.RowLen()), min(boxes.Rows(), 64)
	largest, picture := float32(0), float32(0)
	for k := range sample {
		i := k * boxes.Rows() / sample
		if err := boxes.ReadRow(row, i); err != nil {
			return false, err
		}
		largest, picture = max(largest, slices.Max(row)), max(picture, sizes[2*i], sizes[2*i+1])
	}
	return largest > 0 && largest < 1.5 && picture > 4, nil
}

// boxNames and sizeNames are the ends of the file names, the references' last.
var boxNames, sizeNames = []string{"_boxes.npy", "_ims_bbx.npy"}, []string{"_sizes.npy", "_ims_size.npy"}

// HasBoxes reports whether the split was opened with boxes.
func (s *Split) HasBoxes() bool { return s.boxes != nil }

// BoxesStored reports whether a data set has boxes for a split.
func BoxesStored(dir, split string) bool {
	return slices.ContainsFunc(boxNames, func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, split+name))
		return err == nil
	})
}

// SharedBoxes reports whether the boxes are stored as float32. The last line of GSMN's loader is torch.Tensor(bboxes),
// which shares the memory of a float32 array, so the items of a batch see every access until the batch is collated. Of
// any other type it makes a copy.
func (s *Split) SharedBoxes() bool { return s.boxes != nil && s.boxes.shared }

// ReadBoxes writes the boxes [R, 4] of a feature row to dst, as shares of the width and height of the picture. Boxes
// outside the picture are an error.
func (s *Split) ReadBoxes(dst []float32, row int) error { return s.readBoxes(dst, row, 1) }

// readBoxes is ReadBoxes for boxes that were divided by the size of the picture times times: shared boxes in float32,
// others in float64.
func (s *Split) readBoxes(dst []float32, row, times int) error {
	b := s.boxes
	if b == nil {
		return fmt.Errorf("%s: the split was opened without boxes", s.imagePath)
	}
	if err := b.pixels.ReadRow(dst, row); err != nil {
		return err
	}
	if what := badBox(dst, b.sizes[2*row], b.sizes[2*row+1]); what != "" {
		return fmt.Errorf("%s: row %d (image id %s), %s; `vsetrain data check %s` lists every such row", b.path, row,
			s.ImageID(row), what, s.dir)
	}
	for i := range dst {
		size := b.sizes[2*row+i%2]
		if !b.shared {
			dst[i] = float32(float64(dst[i]) / math.Pow(float64(size), float64(times)))
			continue
		}
		for range times {
			dst[i] /= size
		}
	}
	return nil
}

// StoredBoxes selects the boxes that GSMN's evaluation uses (CrossmodalGroup/GSMN, evaluation.py, evalrank). It reads
// the split twice, caption by caption, and each access divides the boxes of the image by the size of its picture again.
// The boxes that the second pass finds at a caption are stored under the index of the caption. When a whole split is
// ranked, image i gets the boxes stored under i, as if i were a caption. In five folds it gets the boxes of its first
// caption.
type StoredBoxes struct {
	Folds bool // rank five folds
	Batch int  // captions in a batch of the evaluation (opt.batch_size), which decides about shared boxes
}

// stored returns the row and the number of divisions of the boxes of an image.
func (s *Split) stored(image int, which *StoredBoxes) (row, times int) {
	caption := image
	if which.Folds {
		caption = s.groups.First(image)
	}
	row = s.ImageRow(caption)
	if s.repeated {
		return row, 2
	}
	own := s.groups.ImageOf(caption)
	first, end, last := s.groups.First(own), s.groups.First(own+1), caption
	if s.boxes.shared {
		last = min((caption/which.Batch+1)*which.Batch, end) - 1
	}
	return row, end - first + last - first + 1 // by all captions of the image, then up to the last of these
}

// badBox describes the first box that is more than one pixel outside its picture; "" if there is none.
func badBox(boxes []float32, w, h float32) string {
	for i := 0; i+4 <= len(boxes); i += 4 {
		x1, y1, x2, y2 := boxes[i], boxes[i+1], boxes[i+2], boxes[i+3]
		if !(x1 >= -1 && y1 >= -1 && x2 <= w+1 && y2 <= h+1 && x1 <= x2 && y1 <= y2) {
			return fmt.Sprintf("region %d: box %v,%v to %v,%v; expected x1 <= x2 and y1 <= y2 inside a picture of %v "+
				"x %v", i/4, x1, y1, x2, y2, w, h)
		}
	}
	return ""
}

// openBoxes opens boxes and sizes and checks their shapes.
func openBoxes(s *Split, o *OpenOptions) error {
	if !o.Boxes || s.images == nil {
		return nil
	}
	f, err := s.array(boxNames...)
	if missing(err) {
		return fmt.Errorf("split %q has no boxes: expected %s or %s, pixel coordinates x1,y1,x2,y2 of every region "+
			"[%d, %d, 4]",
			s.name, s.path(boxNames[0]), s.path(boxNames[1]), s.rows, s.regions)
	}
	if err != nil {
		return err
	}
	path := f.Path
	b := &boxes{pixels: f, path: path, shared: f.DType == npy.F32}
	if len(f.Shape) != 3 || f.Shape[0] != s.rows || f.Shape[1] != s.regions || f.Shape[2] != 4 {
		return fmt.Errorf("%s: shape %v; expected [%d, %d, 4], a box for every region of %s", path, f.Shape, s.rows,
			s.regions, s.imagePath)
	}
	if f.Fortran || f.DType != npy.F16 && f.DType != npy.F32 && f.DType != npy.F64 {
		values, err := f.Float64s()
		if err != nil {
			return err
		}
		b.pixels = &floatRows{values, 4 * s.regions}
	}
	if b.sizes, err = s.readSizes(); err != nil {
		return err
	}
	if b.shares, err = areShares(b.pixels, b.sizes); b.shares {
		b.pixels = &shareBoxes{b.pixels, b.sizes}
	}
	s.boxes = b
	return err
}

func (s *Split) readSizes() ([]float32, error) {
	f, err := s.array(sizeNames...)
	if missing(err) {
		return nil, fmt.Errorf("split %q has boxes but no picture sizes: expected %s or %s, width and height of "+
			"every row [%d, 2]",
			s.name, s.path(sizeNames[0]), s.path(sizeNames[1]), s.rows)
	}
	if err != nil {
		return nil, err
	}
	return sizesOf(f, s.rows)
}

// sizesOf reads width and height of every row: numbers [rows, 2], or dicts.
func sizesOf(f *npy.File, rows int) (out []float32, err error) {
	var values []float64
	if f.DType == npy.Object {
		values, err = objectSizes(f.Path)
	} else if values, err = f.Float64s(); err == nil && (len(f.Shape) != 2 || f.Shape[1] != 2) {
		err = fmt.Errorf("%s: shape %v of %s; expected [%d, 2], width and height of every row", f.Path, f.Shape,
			f.DType, rows)
	}
	if err != nil {
		return nil, err
	}
	if len(values) != 2*rows {
		return nil, fmt.Errorf("%s: %d sizes for %d image rows; expected one for each", f.Path, len(values)/2, rows)
	}
	for i, v := range values {
		if !(v >= 1 && v <= math.MaxInt32) {
			return nil, fmt.Errorf("%s: row %d: a picture of %v x %v; expected pixels", f.Path, i/2, values[i&^1],
				values[i|1])
		}
		out = append(out, float32(v))
	}
	return out, nil
}

// objectSizes reads an object array of dicts {image_w, image_h}, as the reference stores it.
func objectSizes(path string) ([]float64, error) {
	objects, err := npy.ReadObjects(path)
	if err != nil {
		return nil, err
	}
	var out []float64
	for i, o := range objects {
		d, ok := o.(*pickle.Dict)
		if !ok {
			return nil, fmt.Errorf("%s: row %d is a %s; expected a dict {image_w, image_h}", path, i,
				pickle.TypeName(o))
		}
		for _, key := range []string{"image_w", "image_h"} {
			v, found := 0.0, false
			for k, x := range d.All() { // keys of Python 2 are bytes
				if name, _ := pickle.Text(k); name == key {
					v, found = numberOf(x)
				}
			}
			if !found {
				return nil, fmt.Errorf("%s: row %d has no number %s; expected a dict {image_w, image_h}", path, i, key)
			}
			out = append(out, v)
		}
	}
	return out, nil
}

func numberOf(x any) (float64, bool) {
	switch v := x.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// ImageSize returns the width and height in pixels of the picture of a feature row; 0, 0 without boxes.
func (s *Split) ImageSize(row int) (width, height float32) {
	if s.boxes == nil {
		return 0, 0
	}
	return s.boxes.sizes[2*row], s.boxes.sizes[2*row+1]
}
