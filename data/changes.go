package data

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"vsetrain/data/text"
	"vsetrain/internal/files/half"
	"vsetrain/internal/files/journal"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/regular"
)

// The images of a gallery, a split without captions, may change after its files were written: {split}_changes.bin is a
// journal of the images that were added and removed. Open reads files and journal together: first the images of the
// files that were not removed, then the added images, in the order in which they were added. An id that is removed and
// added again comes last.
//
// The note of a record is a Change, whose removals come first. Its data are, for each added image, the features [R, D]
// in the type of the feature file, and boxes [R, 4] of float32 in pixels if the split has boxes.
const changesEnd = journal.Ending

// ChangesFile returns the path of the journal of changes of a split.
func ChangesFile(dir, split string) string { return filepath.Join(dir, split+changesEnd) }

// ChangeError is the error of a change that the images of a gallery do not allow.
type ChangeError struct {
	Text string
	Kind error // ErrImageExists, ErrNoImage or nil
}

// Error implements error.
func (e *ChangeError) Error() string { return e.Text }

// Unwrap returns the kind.
func (e *ChangeError) Unwrap() error { return e.Kind }

// Kinds of a ChangeError, for errors.Is.
var (
	ErrImageExists = errors.New("the image is there already")
	ErrNoImage     = errors.New("no such image")
)

func refuse(kind error, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if kind != nil {
		text += ": " + kind.Error()
	}
	return &ChangeError{text, kind}
}

// Change is images to remove from a gallery and to add to it, all together or not at all.
type Change struct {
	Removed []string   `json:"removed,omitempty"` // ids
	Added   []NewImage `json:"added,omitempty"`
}

// NewImage is an image to add to a gallery.
type NewImage struct {
	ID            string `json:"id"`
	Width, Height uint32 // of the picture in pixels; 0 if unknown
}

// changesHead identifies the files that the changes belong to.
type changesHead struct {
	Rows    int       `json:"rows"`
	Regions int       `json:"regions"`
	Dim     int       `json:"dim"`
	DType   npy.DType `json:"dtype"`
	Boxes   bool      `json:"boxes"`      // whether added images have boxes
	IDs     string    `json:"ids_sha256"` // of the ids file, each id with a line feed
	Begun   int64     `json:"begun"`      // nanoseconds since 1970, so that no other journal has the same head
}

// fits returns an error if the changes belong to other files.
func (h changesHead) fits(s *Split) error {
	n := headOf(s)
	n.Boxes, n.Begun = h.Boxes, h.Begun
	if n == h {
		return nil
	}
	return fmt.Errorf("%s: changes of other files, of %d images of %d x %d %s; %s has %d of %d x %d %s; bring the "+
		"earlier files back, or remove the file to forget the changes", s.path(changesEnd), h.Rows, h.Regions,
		h.Dim, h.DType.Name(), s.imagePath, n.Rows, n.Regions, n.Dim, n.DType.Name())
}

// headOf describes the files of a gallery.
func headOf(s *Split) changesHead {
	sum := sha256.New()
	for i := range s.rows {
		fmt.Fprintf(sum, "%s\n", s.ImageID(i))
	}
	h := changesHead{Rows: s.rows, Regions: s.regions, Dim: s.dim, IDs: hex.EncodeToString(sum.Sum(nil)),
		Begun: time.Now().UnixNano()}
	h.DType, h.Boxes = FeatureDType(s)
	return h
}

// sizes returns the bytes of the features and of the boxes of an added image.
func (h changesHead) sizes() (features, boxes int64) {
	features = int64(h.Regions) * int64(h.Dim) * int64(h.DType.Size())
	if h.Boxes {
		boxes = 16 * int64(h.Regions)
	}
	return features, boxes
}

// place locates the features of an image: row from of the feature file, or byte from of the data of a record.
type place struct {
	record int // -1 is the feature file
	from   int64
}

// changes are the images of a gallery with a journal. It is the RowSource of their features.
type changes struct {
	changesHead
	head   []byte
	file   *journal.File
	base   RowSource
	places []place
	gone   map[string]bool // ids that were removed and did not come back
}

// Rows implements RowSource.
func (c *changes) Rows() int { return len(c.places) }

// RowLen implements RowSource.
func (c *changes) RowLen() int { return c.base.RowLen() }

// ReadRow implements RowSource.
func (c *changes) ReadRow(dst []float32, row int) error {
	size, _ := c.sizes()
	return c.read(dst, row, c.base, 0, size, c.DType)
}

// read reads a row of the files, or a part of the data of an added image.
func (c *changes) read(dst []float32, row int, base RowSource, from, size int64, d npy.DType) error {
	p := c.places[row]
	if p.record < 0 {
		return base.ReadRow(dst, int(p.from))
	}
	b := make([]byte, size)
	err := c.file.ReadAt(b, p.record, p.from+from)
	if err == nil && d == npy.F16 {
		half.Decode(dst, b)
	} else if err == nil {
		_, err = binary.Decode(b, binary.LittleEndian, dst)
	}
	return err
}

// changedBoxes are the boxes of the same images.
type changedBoxes struct {
	*changes
	base RowSource
}

// ReadRow implements RowSource.
func (c *changedBoxes) ReadRow(dst []float32, row int) error {
	features, boxes := c.sizes()
	return c.read(dst, row, c.base, features, boxes, npy.F32)
}

// members are the images of a gallery while changes are read.
type members struct {
	ids    []string
	places []place
	sizes  [][2]uint32 // of added images
	at     map[string]int
	gone   map[string]bool // ids that were removed and did not come back
}

func membersOf(s *Split) (*members, error) {
	m := &members{at: make(map[string]int, s.rows), gone: map[string]bool{}}
	for i := range s.rows {
		id := s.ImageID(i)
		if _, twice := m.at[id]; twice {
			return nil, fmt.Errorf("%s: image id %q occurs twice; expected different ids: only such a gallery can be "+
				"amended", s.path("_ids.txt"), id)
		}
		m.add(NewImage{ID: id}, place{-1, int64(i)})
	}
	return m, nil
}

func (m *members) add(n NewImage, p place) {
	m.at[n.ID] = len(m.ids)
	delete(m.gone, n.ID)
	m.ids, m.places, m.sizes = append(m.ids, n.ID), append(m.places, p), append(m.sizes, [2]uint32{n.Width, n.Height})
}

// apply makes a change, or returns an error that says why it cannot.
func (m *members) apply(c Change, record int, size int64) error {
	for _, id := range c.Removed {
		i, ok := m.at[id]
		if !ok {
			return refuse(ErrNoImage, "image %.200q", id)
		}
		delete(m.at, id)
		m.ids[i], m.gone[id] = "", true
	}
	for i, n := range c.Added {
		if _, ok := m.at[n.ID]; ok {
			return refuse(ErrImageExists, "image %.200q", n.ID)
		}
		m.add(n, place{record, int64(i) * size})
	}
	if len(m.at) == 0 {
		return refuse(nil, "no image would be left; a gallery keeps at least one: remove its files instead")
	}
	return nil
}

// maxID bounds an id in bytes.
const maxID = 1024

// checkID returns an error if an id cannot be a line of an ids file.
func checkID(id string) error {
	if id == "" || len(id) > maxID || strings.TrimFunc(id, text.IsSpace) != id {
		return refuse(nil, "image id %.100q: expected 1 to %d bytes without blanks at the ends", id, maxID)
	}
	if err := regular.CheckID(id); err != nil {
		return refuse(nil, "%v", err)
	}
	return nil
}

// openChanges reads the journal of a gallery, if there is one, and puts it into the split.
func openChanges(s *Split, o *OpenOptions) error {
	if !o.Partial || o.Original || s.images == nil {
		return nil
	}
	file, err := journal.Open(s.path(changesEnd))
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	s.files = append(s.files, file)
	if err := changeable(s); err != nil {
		return err
	}
	c := &changes{head: file.Head, file: file, base: s.images}
	if err := json.Unmarshal(file.Head, &c.changesHead); err != nil {
		return fmt.Errorf("%s: %w", s.path(changesEnd), err)
	}
	if err := c.fits(s); err != nil {
		return err
	}
	m, err := membersOf(s)
	if err != nil {
		return err
	}
	features, boxes := c.sizes()
	for i, r := range file.Records {
		var change Change
		err := json.Unmarshal(r.Note, &change)
		if err == nil && r.Size != int64(len(change.Added))*(features+boxes) {
			err = fmt.Errorf("%d bytes for %d images of %d", r.Size, len(change.Added), features+boxes)
		}
		if err == nil {
			err = m.apply(change, i, features+boxes)
		}
		if err != nil {
			return fmt.Errorf("%s: record %d: %w; the file is damaged", s.path(changesEnd), i, err)
		}
	}
	install(s, c, m)
	return nil
}

// install gives a split its images after the changes.
func install(s *Split, c *changes, m *members) {
	var ids strings.Builder
	var pixels []float32
	c.gone = m.gone
	for i, id := range m.ids {
		if id == "" {
			continue
		}
		fmt.Fprintln(&ids, id)
		p := m.places[i]
		c.places = append(c.places, p)
		switch {
		case s.boxes == nil:
		case p.record < 0:
			pixels = append(pixels, s.boxes.sizes[2*p.from:2*p.from+2]...)
		default:
			pixels = append(pixels, float32(m.sizes[i][0]), float32(m.sizes[i][1]))
		}
	}
	lines := splitLines(s.path("_ids.txt"), ids.String())
	s.ids, s.images, s.rows = lines, c, lines.len()
	if s.counts != nil { // images that were added have a region in every place
		counts := make([]int32, len(c.places))
		for i, p := range c.places {
			if counts[i] = int32(s.regions); p.record < 0 {
				counts[i] = s.counts[p.from]
			}
		}
		s.counts = counts
	}
	s.groups = EqualGroups(s.rows, 1)
	s.finite = make([]atomic.Uint32, (s.rows+31)/32)
	if s.boxes != nil {
		s.boxes.pixels, s.boxes.sizes = &changedBoxes{c, s.boxes.pixels}, pixels
	}
}

// changeable returns an error if the images of a split cannot be changed.
func changeable(s *Split) error {
	if s.captions != nil {
		return refuse(nil, "%s: changes of a gallery, but the split has captions (%s); fold the changes into a new "+
			"folder with `vsetrain data fold` before captions are written", s.path(changesEnd), s.CaptionPath())
	}
	if s.repeated {
		return refuse(nil, "%s: %d rows of %d images; only a gallery with one row for each image can be "+
			"amended", s.imagePath, s.rows, s.NumImages())
	}
	return nil
}

// ImageIDs returns the ids of the images of a gallery, in their order.
func ImageIDs(s *Split) []string {
	ids := make([]string, s.NumImages())
	for i := range ids {
		ids[i] = s.ImageID(s.RowOf(i))
	}
	return ids
}

// FeatureDType returns the type in which the features of a split are stored, and whether images that are added to it
// need boxes.
func FeatureDType(s *Split) (d npy.DType, boxes bool) {
	switch f := s.images.(type) {
	case *changes:
		return f.DType, f.Boxes
	case *npy.File:
		d = f.DType
	}
	return d, BoxesStored(s.dir, s.name)
}

// Changed returns how many images were added to the files of a gallery, and how many images of the files were removed.
func Changed(s *Split) (added, removed int) {
	c, ok := s.images.(*changes)
	if !ok {
		return 0, 0
	}
	for _, p := range c.places {
		if p.record >= 0 {
			added++
		}
	}
	return added, c.changesHead.Rows - (len(c.places) - added)
}
