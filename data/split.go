package data

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync/atomic"

	"vsetrain/internal/files/npy"
)

// Split is one split of a data set: captions in memory, features memory-mapped. Its methods except Close are safe for
// concurrent use.
type Split struct {
	name, dir string
	captions  *lineFile // nil in a split with only images
	images    RowSource // nil in a split with only captions
	imagePath string
	ids       *lineFile // nil without an ids file
	layout
	n            int // captions in use
	regions, dim int
	counts       []int32 // regions of each row; nil if all rows have R

	boxes        *boxes        // nil unless asked for
	dependencies *Dependencies // nil unless asked for and there
	words        *wordIDs      // nil unless asked for and there

	noise *noise // nil where every caption has its own image

	// arrange reorders the captions of an epoch for batches of a size; nil keeps the order.
	arrange func(order []int32, batch int) []int32

	semantics     RowSource
	semanticsPath string

	onDisk []fs.FileInfo // of features and boxes, as they were before they were opened

	// finite has a bit for each row whose features were found finite; a row is examined once.
	finite []atomic.Uint32

	files []io.Closer
	read  []string // names of the files that were read, except a journal of changes, which has its own checksums
}

// boxes are the boxes of the regions (boxes.go).
type boxes struct {
	pixels RowSource // [rows, R·4]
	sizes  []float32 // [rows, 2]
	shared bool      // see Split.SharedBoxes
	shares bool      // the file holds shares of width and height
	path   string
}

// layout says how captions, feature rows and ids of a split belong together.
type layout struct {
	groups   Groups // the captions of each image; without captions its feature rows
	captions int    // lines of the caption file
	rows     int    // rows of the feature file; without features the number of images
	repeated bool   // an image has several feature rows, one per caption
}

// Dependencies are the edges of the dependency trees of captions, for the sparse text graph of GSMN: pairs
// [governor, dependent] of token numbers, 1-based; 0 is the root. Number t is position t of the word ids, whose
// position 0 is <start>.
//
// They come from {split}_caps.json, a list with a list of pairs for each caption (GSMN's files, made with Stanford
// CoreNLP), or from {split}_caps.conllu in the CoNLL-U format. The first pair of a caption is the pair of the root and
// is not an edge.
type Dependencies struct {
	path  string
	pairs []int32 // [edges, 2]
	first []int32 // of each caption, and the number of edges at the end
	lines []int32 // line of the file at which each caption begins
}

// wordIDs are word ids from another tokeniser. {split}_precaps_stan.txt of the released GSMN data has the ids of every
// caption in the JSON vocabulary, separated by commas, tokenised by Stanford CoreNLP like the dependencies. If the
// options ask for them, they replace the words of the captions. Missing <start> and <end> are added, so that
// dependencies fit.
type wordIDs struct {
	path    string
	ids     []int32
	first   []int32 // of each caption, and the number of ids at the end
	largest int32
	line    int // of the largest
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

// lines reads a file of lines of the split; nil if it does not exist.
func (s *Split) lines(end, what string) (*lineFile, error) {
	l, err := readLines(s.path(end), what)
	if missing(err) {
		return nil, nil
	}
	if err == nil {
		s.read = append(s.read, s.name+end)
	}
	return l, err
}

// array opens the first of several arrays of the split that exists.
func (s *Split) array(ends ...string) (f *npy.File, err error) {
	for _, end := range ends {
		if f, err = npy.Open(s.path(end)); err == nil {
			s.files, s.read = append(s.files, f), append(s.read, s.name+end)
		}
		if !missing(err) {
			break
		}
	}
	return f, err
}

// Files returns the names of the files of the data set from which a split was read.
func Files(s *Split) []string {
	names := slices.Clone(s.read)
	if filepath.Dir(s.semanticsPath) == filepath.Clean(s.dir) {
		names = append(names, filepath.Base(s.semanticsPath))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// FeaturePath returns the path of the region features.
func (s *Split) FeaturePath() string { return s.imagePath }

// CaptionPath returns the path of the captions.
func (s *Split) CaptionPath() string { return s.path("_caps.txt") }

// Need returns an error that names the missing file if a split lacks images or captions that are needed.
func Need(s *Split, images, captions bool) error {
	if captions && s.captions == nil {
		return fmt.Errorf("split %q has images (%s) but no captions: expected %s, the captions of each image one "+
			"after the other, a line each; to search for images and to embed them, captions are not needed", s.name,
			s.imagePath, s.CaptionPath())
	}
	if images && s.images == nil {
		return fmt.Errorf("split %q has captions (%s) but no features: expected %s; `vsetrain data convert` or "+
			"`vsetrain data extract` writes it", s.name, s.CaptionPath(), s.imagePath)
	}
	return nil
}

// SemanticsPath returns the path of the semantic vectors; "" if there are none.
func (s *Split) SemanticsPath() string { return s.semanticsPath }

// FeatureRows returns the number of rows of the feature file.
func (s *Split) FeatureRows() int { return s.rows }

// HalfFeatures reports whether the features are stored in half precision.
func (s *Split) HalfFeatures() bool {
	f, ok := s.images.(*npy.File)
	return ok && f.DType == npy.F16
}

// NumCaptions returns the number of captions in use; 0 in a split with only images.
func (s *Split) NumCaptions() int { return s.n }

// NumImages returns the number of distinct images in use.
func (s *Split) NumImages() int { return s.groups.Images() }

// Groups returns the captions in use of each image. It is empty in a split with only images.
func (s *Split) Groups() Groups {
	if s.captions == nil {
		return Groups{}
	}
	return s.groups
}

// Repeated reports whether the feature file has several rows for an image, one per caption.
func (s *Split) Repeated() bool { return s.repeated }

// Regions returns R: 1 for features [rows, D], 0 in a split with only captions.
func (s *Split) Regions() int { return s.regions }

// Dim returns D; 0 in a split with only captions.
func (s *Split) Dim() int { return s.dim }

// Caption returns caption i as in the file, without white space at its ends.
func (s *Split) Caption(i int) string { return s.captions.line(i) }

// Captions iterates over the captions in use, in file order.
func (s *Split) Captions(yield func(string) bool) {
	for i := range s.n {
		if !yield(s.captions.line(i)) {
			return
		}
	}
}

// ImageOf returns the image 0..NumImages-1 of a caption. With a noise index, it is the image in the index.
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

// Digest returns the SHA-256 of the captions of a split, with a line feed after each.
func Digest(s *Split) string {
	h := sha256.New()
	for c := range s.Captions {
		fmt.Fprintf(h, "%s\n", c)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// RowOf returns the feature row of an image, the first if it has several.
func (s *Split) RowOf(image int) int {
	if s.repeated {
		return s.groups.First(image)
	}
	return image
}

// HasIDs reports whether the split has an ids file.
func (s *Split) HasIDs() bool { return s.ids != nil }

// ImageID returns the id of a feature row; without an ids file, its number.
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

// Close unmaps the files. The split must not be used afterwards.
func (s *Split) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	s.files = nil
	return errors.Join(errs...)
}
