package convert

import (
	"archive/zip"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vsetrain/internal/files/regular"
)

// defaultKeys are the names that public extractors give their arrays.
var defaultKeys = struct{ features, boxes, sizes, width, height []string }{
	features: []string{"features", "x", "feat", "feats", "arr_0"},
	boxes:    []string{"bbox", "boxes", "bbx", "bboxes"},
	sizes:    []string{"size", "sizes", "ims_size", "image_size"},
	width:    []string{"image_w", "img_w", "width"},
	height:   []string{"image_h", "img_h", "height"},
}

// archive is an open .npz file.
type archive struct {
	*zip.Reader
	f     *os.File
	bytes int64
	path  string
	o     *Options
}

// Close closes the file.
func (a *archive) Close() error { return a.f.Close() }

func openArchive(path string, o *Options) (*archive, error) {
	f, size, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	z, err := zip.NewReader(f, size)
	if err != nil {
		f.Close()
		return nil, regular.Explain(fmt.Errorf("%s: not a readable .npz archive: %w", path, err), path, regular.NPZ)
	}
	return &archive{z, f, size, path, o}, nil
}

// array opens the array called name, or, if name is "", the first with a usual name. It returns nil if there is none
// with a usual name.
func (a *archive) array(name string, usual []string) (*member, error) {
	if name != "" {
		usual = []string{name}
	}
	for _, want := range usual {
		for _, f := range a.File {
			if f.Name == want+".npy" || f.Name == want {
				m, err := openMember(f, a.bytes)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", a.path, err)
				}
				return m, nil
			}
		}
	}
	if name != "" {
		return nil, fmt.Errorf("%s: expected an array %q, found %s", a.path, name, a.names())
	}
	return nil, nil
}

func (a *archive) names() string {
	var names []string
	for _, f := range a.File {
		names = append(names, strings.TrimSuffix(f.Name, ".npy"))
	}
	return "only " + strings.Join(names, ", ")
}

// features opens the features of an archive.
func (a *archive) features() (*member, error) {
	m, err := a.array(a.o.Features, defaultKeys.features)
	if err == nil && m == nil {
		err = fmt.Errorf("%s: expected features called %s, found %s; name the array with --features-key", a.path,
			strings.Join(defaultKeys.features, " or "), a.names())
	}
	return m, err
}

// imageShape returns the shape of the features of an array: [R, D] for one image, otherwise [N, R, D].
func (o *Options) imageShape(m *member, one bool) ([]int, error) {
	_, s, err := o.Axes.features(m.Shape, one)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	if n := len(s); n != 2 && one || n != 3 && !one || slices.Min(s) < 1 || s[n-2] > maxRegions || s[n-1] > maxDim ||
		s[n-2]*s[n-1] > maxElements {
		return nil, fmt.Errorf("%s: expected features whose shape ends in regions x channels, at most %d x %d, found "+
			"shape %v", m.name, maxRegions, maxDim, m.Shape)
	}
	if o.Scale == 0 && m.DType.Whole() {
		return nil, fmt.Errorf("%s: %w", m.name, errCodes(m.DType))
	}
	return s, nil
}

// next reads the features of an image, [regions, dim], whose shape it has.
func (o *Options) next(m *member, it *item) error {
	v, wide := make([]float32, it.regions*it.dim), make([]float64, it.regions*it.dim)
	if err := read(m, wide); err != nil {
		return err
	}
	for i, x := range wide {
		v[i] = float32(cmp.Or(o.Scale, 1) * x)
	}
	if it.features = v; o.Grid == "nchw" {
		it.features, _ = o.order(v, make([]float32, len(v)), it.dim)
	}
	return finite(m.name, it.features, it.dim)
}

// folder converts a folder with a file for each image: {image_id}.npz, with features [R, D], boxes [R, 4] and the size
// of the picture, or {image_id}.npy, the features alone.
func (c *conversion) folder() error {
	dir := c.Sources[0]
	f, err := listFolder(dir)
	if err != nil {
		return err
	}
	if n := len(f.infos); n > 0 {
		c.note("%s: %d files such as %s, which describe other files, were skipped", dir, n, f.infos[0])
	}
	return c.writeImages(dir, f.order, func(id string) (*item, string, error) {
		it, err := c.readImage(f.path[id])
		if err != nil {
			return nil, "", err
		}
		return it, f.path[id], nil
	})
}

// imageFolder lists the files of a folder by image id.
type imageFolder struct {
	order []string // ids, numbers by value before other names
	path  map[string]string
	infos []string // NAME_info.npy beside NAME.npy, from facebookresearch/mmf
}

func listFolder(dir string) (*imageFolder, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	f := &imageFolder{path: map[string]string{}}
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		base := strings.TrimSuffix(e.Name(), ext)
		if !slices.Contains([]string{".npz", ".npy"}, strings.ToLower(ext)) || strings.HasPrefix(base, ".") ||
			e.IsDir() {
			continue
		}
		if of, ok := strings.CutSuffix(base, "_info"); ok && f.path[canonical(of)] != "" {
			f.infos = append(f.infos, e.Name())
			continue
		}
		id := canonical(base)
		if err := regular.CheckID(id); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, e.Name()), err)
		}
		if f.path[id] != "" {
			return nil, fmt.Errorf("%s and %s are both image %s; remove one of them", f.path[id],
				filepath.Join(dir, e.Name()), id)
		}
		f.path[id] = filepath.Join(dir, e.Name())
		f.order = append(f.order, id)
	}
	if len(f.order) == 0 {
		return nil, fmt.Errorf("%s: expected a file {image_id}.npz or {image_id}.npy for each image, found none", dir)
	}
	slices.SortFunc(f.order, func(a, b string) int {
		na, nb := strings.Trim(a, "0123456789") == "", strings.Trim(b, "0123456789") == ""
		switch {
		case na && !nb:
			return -1
		case nb && !na:
			return 1
		case na:
			return cmp.Or(len(a)-len(b), strings.Compare(a, b))
		}
		return strings.Compare(a, b)
	})
	return f, nil
}

// readImage reads the file of one image.
func (o *Options) readImage(path string) (*item, error) {
	var a *archive
	var m *member
	var err error
	if strings.EqualFold(filepath.Ext(path), ".npy") {
		m, err = openArray(path)
	} else if a, err = openArchive(path, o); err == nil {
		defer a.Close()
		m, err = a.features()
	}
	if err != nil {
		return nil, err
	}
	defer m.Close()
	s, err := o.imageShape(m, true)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	it := &item{regions: s[0], dim: s[1]}
	if err := o.next(m, it); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if a == nil {
		return it, nil
	}
	if it.boxes, err = a.boxes(it.regions); err != nil {
		return nil, err
	}
	it.width, it.height, err = a.size()
	return it, err
}

// boxes reads the boxes [regions, 4] of an image; nil if there are none.
func (a *archive) boxes(regions int) ([]float32, error) {
	m, err := a.array(a.o.Boxes, defaultKeys.boxes)
	if m == nil || err != nil {
		return nil, err
	}
	defer m.Close()
	want := []int{regions, 4}
	squeezed, err := a.o.squeeze(m.Shape) // with the features, or as they are
	if !slices.Equal(m.Shape, want) && (err != nil || !slices.Equal(squeezed, want)) {
		return nil, fmt.Errorf("%s: %s: expected boxes of shape [%d 4], found %v", a.path, m.name, regions, m.Shape)
	}
	v := make([]float32, 4*regions)
	if err := read(m, v); err != nil {
		return nil, fmt.Errorf("%s: %w", a.path, err)
	}
	if err := finite(m.name, v, 4); err != nil {
		return nil, fmt.Errorf("%s: %w", a.path, err)
	}
	return v, nil
}

// size reads the width and height of the picture from one array of two values or two arrays of one; 0, 0 if there are
// none.
func (a *archive) size() (w, h int64, err error) {
	v, err := a.numbers(a.o.Sizes, defaultKeys.sizes, 2)
	if v == nil && err == nil {
		width, errW := a.numbers("", defaultKeys.width, 1)
		height, errH := a.numbers("", defaultKeys.height, 1)
		v, err = append(width, height...), cmp.Or(errW, errH)
	}
	if len(v) < 2 || err != nil {
		return 0, 0, err
	}
	if w, h, err = pixels(v); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", a.path, err)
	}
	return w, h, nil
}

// numbers reads an array of n values; nil if there is none.
func (a *archive) numbers(name string, usual []string, n int) ([]float64, error) {
	m, err := a.array(name, usual)
	if m == nil || err != nil {
		return nil, err
	}
	defer m.Close()
	if m.Bytes() != int64(n*m.DType.Size()) {
		return nil, fmt.Errorf("%s: %s: expected %d values, found shape %v", a.path, m.name, n, m.Shape)
	}
	v := make([]float64, n)
	if err := read(m, v); err != nil {
		return nil, fmt.Errorf("%s: %w", a.path, err)
	}
	return v, nil
}
