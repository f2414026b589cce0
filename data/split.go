package data

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync/atomic"

	"vsetrain/internal/compute/vec"
	"vsetrain/internal/files/half"
	"vsetrain/internal/files/npy"
)

// Split is one split of a data set: captions in memory, features memory-mapped. Its methods may be called from
// several goroutines at once, Close apart.
type Split struct {
	name, dir string
	captions  *lineFile // nil in a split of images alone
	images    RowSource // nil in a split of captions alone
	imagePath string
	ids       *lineFile // nil without an ids file
	layout
	n            int // captions in use
	regions, dim int
	counts       []int32 // regions of each row; nil where all places are regions

	boxes        *boxes        // nil unless asked for
	dependencies *Dependencies // nil unless asked for and there
	words        *wordIDs      // nil unless asked for and there

	noise *noise // nil where every caption has its own image

	// arrange orders the captions of an epoch anew, every one once, for batches of a size; nil leaves them.
	arrange func(order []int32, batch int) []int32

	semantics     RowSource
	semanticsPath string

	onDisk []fs.FileInfo // of features and boxes, as they were before they were opened

	// Rows whose features were found finite; each row is examined once.
	finite []atomic.Uint32

	files []io.Closer
}

// noise is the noise index of a split.
type noise struct {
	images []int64 // of every caption

	// The captions of image i are captions[start[i]:start[i+1]], in ascending order.
	captions, start []int32
}

// Name returns the name of the split.
func (s *Split) Name() string { return s.name }

// Dir returns the folder of the data set.
func (s *Split) Dir() string { return s.dir }

func (s *Split) path(suffix string) string { return filepath.Join(s.dir, s.name+suffix) }

// Files returns the names of the files of the data set that a split was read from.
func Files(s *Split) []string {
	var paths []string
	if s.captions != nil {
		paths = append(paths, s.captions.path)
	}
	for _, f := range s.files {
		if f, ok := f.(*npy.File); ok { // a journal of changes has its own checksums
			paths = append(paths, f.Path)
		}
	}
	if s.ids != nil {
		paths = append(paths, s.ids.path)
	}
	if s.dependencies != nil {
		paths = append(paths, s.dependencies.path)
	}
	if s.words != nil {
		paths = append(paths, s.words.path)
	}
	if s.semanticsPath != "" {
		paths = append(paths, s.semanticsPath)
	}
	var names []string
	for _, path := range paths {
		if filepath.Dir(path) == filepath.Clean(s.dir) {
			names = append(names, filepath.Base(path))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// FeaturePath returns the file of the region features.
func (s *Split) FeaturePath() string { return s.imagePath }

// CaptionPath returns the file of the captions.
func (s *Split) CaptionPath() string { return s.path("_caps.txt") }

// Need returns an error that names the file which a split lacks of those that are needed.
func Need(s *Split, images, captions bool) error {
	if captions && s.captions == nil {
		return fmt.Errorf("split %q has images (%s) but no captions: expected %s, the captions of each image one "+
			"after the other, a line each; to search for images and to embed them none are needed", s.name,
			s.imagePath, s.CaptionPath())
	}
	if images && s.images == nil {
		return fmt.Errorf("split %q has captions (%s) but no features: expected %s; `vsetrain data convert` or "+
			"`vsetrain data extract` writes it", s.name, s.CaptionPath(), s.imagePath)
	}
	return nil
}

// SemanticsPath returns the file of the semantic vectors, "" when there are none.
func (s *Split) SemanticsPath() string { return s.semanticsPath }

// FeatureRows returns the number of rows of the feature file.
func (s *Split) FeatureRows() int { return s.rows }

// HalfFeatures reports whether the features are stored in half precision.
func (s *Split) HalfFeatures() bool {
	f, ok := s.images.(*npy.File)
	return ok && f.DType == npy.F16
}

// NumCaptions returns the number of captions in use, 0 in a split of images alone.
func (s *Split) NumCaptions() int { return s.n }

// DroppedCaptions returns how many captions at the end of the file are left out (OpenOptions.MaxCaptions).
func (s *Split) DroppedCaptions() int { return s.layout.captions - s.n }

// NumImages returns the number of distinct images in use; of captions alone, of those that they describe.
func (s *Split) NumImages() int { return s.groups.Images() }

// Groups returns the captions in use of each image; none without captions.
func (s *Split) Groups() Groups {
	if s.captions == nil {
		return Groups{}
	}
	return s.groups
}

// Repeated reports whether the feature file holds one row per caption, each image k times; without captions, whether
// each image is there several times.
func (s *Split) Repeated() bool { return s.repeated }

// Regions returns R, 1 for features [rows, D]; 0 in a split of captions alone.
func (s *Split) Regions() int { return s.regions }

// Dim returns D, 0 in a split of captions alone.
func (s *Split) Dim() int { return s.dim }

// Caption returns caption i as it stands in the file, without white space at its ends.
func (s *Split) Caption(i int) string { return s.captions.line(i) }

// Captions iterates over the captions in use, in file order.
func (s *Split) Captions(yield func(string) bool) {
	for i := range s.n {
		if !yield(s.captions.line(i)) {
			return
		}
	}
}

// ImageOf returns the image 0..NumImages-1 that a caption describes, with a noise index the one that it gives.
func (s *Split) ImageOf(caption int) int {
	if s.noise != nil {
		return int(s.noise.images[caption])
	}
	return s.groups.ImageOf(caption)
}

// ImageRow returns the feature row of a caption's image.
func (s *Split) ImageRow(caption int) int {
	image := s.ImageOf(caption)
	if !s.repeated {
		return image
	}
	first, own := s.groups.First(image), s.groups.First(s.groups.ImageOf(caption))
	return first + (caption-own)%(s.groups.First(image+1)-first)
}

// users appends the captions whose image is a feature row of a split, in ascending order.
func users(to []int32, s *Split, row int) []int32 {
	image := row
	if s.repeated {
		image = s.groups.ImageOf(row)
	}
	to = captionsOf(to, s, image)
	if s.repeated {
		to = slices.DeleteFunc(to, func(c int32) bool { return s.ImageRow(int(c)) != row })
	}
	return to
}

// captionsOf appends the captions of an image, in ascending order.
func captionsOf(to []int32, s *Split, image int) []int32 {
	if s.noise != nil {
		return append(to, s.noise.captions[s.noise.start[image]:s.noise.start[image+1]]...)
	}
	for c := range s.groups.Of(image) {
		to = append(to, int32(c))
	}
	return to
}

// Digest identifies the captions of a split: the SHA-256 of them, a line feed after each.
func Digest(s *Split) string {
	h := sha256.New()
	for c := range s.Captions {
		fmt.Fprintf(h, "%s\n", c)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// RowOf returns the feature row of an image; of repeated rows the first.
func (s *Split) RowOf(image int) int {
	if s.repeated {
		return s.groups.First(image)
	}
	return image
}

// HasIDs reports whether the split has an ids file.
func (s *Split) HasIDs() bool { return s.ids != nil }

// ImageID returns the id of a feature row; without an ids file its number.
func (s *Split) ImageID(row int) string {
	if s.ids == nil {
		return fmt.Sprint(row)
	}
	switch m := s.ids.len(); {
	case m == s.rows:
		return s.ids.line(row)
	case m > s.rows: // one per caption
		return s.ids.line(s.groups.First(row))
	}
	return s.ids.line(s.groups.ImageOf(row)) // one per image, rows repeated
}

// ReadImage writes the features [R, D] of a row into dst. Features that are not finite are an error.
func (s *Split) ReadImage(dst []float32, row int) error {
	if err := s.images.ReadRow(dst, row); err != nil {
		return err
	}
	if s.isFinite(row) {
		return nil
	}
	if i := vec.NotFinite(dst); i >= 0 {
		return s.notFinite(row, i, dst[i])
	}
	s.setFinite(row)
	return nil
}

// ReadHalves is ReadImage of features in half precision (HalfFeatures), as bits of float16.
func (s *Split) ReadHalves(dst []uint16, row int) error {
	f, ok := s.images.(*npy.File)
	if !ok {
		return fmt.Errorf("%s: the features are not stored in half precision", s.imagePath)
	}
	if err := f.ReadHalves(dst, row); err != nil || s.isFinite(row) {
		return err
	}
	if i := half.NotFinite(dst); i >= 0 {
		return s.notFinite(row, i, half.Float32(dst[i]))
	}
	s.setFinite(row)
	return nil
}

func (s *Split) isFinite(row int) bool { return s.finite[row/32].Load()>>(row%32)&1 != 0 }

func (s *Split) setFinite(row int) { s.finite[row/32].Or(1 << (row % 32)) }

func (s *Split) notFinite(row, i int, value float32) error {
	return fmt.Errorf("%s: row %d (image id %s), region %d, feature %d is %v: features must be finite; `vsetrain data "+
		"check %s` lists every such row",
		s.imagePath, row, s.ImageID(row), i/s.dim, i%s.dim, value, s.dir)
}

// SemanticDim returns the length of the semantic vectors, 0 when there are none.
func (s *Split) SemanticDim() int {
	if s.semantics == nil {
		return 0
	}
	return s.semantics.RowLen()
}

// ReadSemantics writes the semantic vector of a caption into dst.
func (s *Split) ReadSemantics(dst []float32, caption int) error {
	if s.semantics == nil {
		return fmt.Errorf("%s: the split was opened without semantic vectors", s.captions.path)
	}
	if err := s.semantics.ReadRow(dst, caption); err != nil {
		return err
	}
	if i := vec.NotFinite(dst); i >= 0 {
		return fmt.Errorf("%s: row %d, element %d is %v: semantic vectors must be finite; run `vsetrain "+
			"precompute-svd` again",
			s.semanticsPath, caption, i, dst[i])
	}
	return nil
}

// AttachSemantics gives the split the semantic vectors of its captions, row c for caption c of the file. path names
// them in errors.
func (s *Split) AttachSemantics(m RowSource, path string) error {
	if m.Rows() != s.layout.captions {
		return fmt.Errorf("%s: %d semantic vectors, but %s has %d captions; run `vsetrain precompute-svd` on this "+
			"data set",
			path, m.Rows(), s.captions.path, s.layout.captions)
	}
	if m.RowLen() < 1 {
		return fmt.Errorf("%s: semantic vectors of length %d", path, m.RowLen())
	}
	s.semantics, s.semanticsPath = m, path
	return nil
}

// Close unmaps the files. The split must not be used afterwards.
func (s *Split) Close() error {
	var first error
	for _, f := range s.files {
		if err := f.Close(); err != nil && first == nil {
			first = err
		}
	}
	s.files = nil
	return first
}
