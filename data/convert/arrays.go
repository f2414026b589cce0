package convert

import (
	"archive/zip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vsetrain/internal/files/regular"
)

func init() {
	const takes = "split dtype regions dim fit features-key boxes-key sizes-key scale grid squeeze"
	for _, f := range []Format{
		{Kind: ".npz", Help: "a NumPy archive of a whole split", Takes: takes},
		{Kind: "folder", Help: "one .npz or .npy for each image, whose name is the id",
			Takes: takes + " distinct skip-broken"},
	} {
		register(func(o *Options) *Format {
			f, a := f, ArrayOptions{}
			f.Check = func() error {
				a = ArrayOptions{Target: o.Target, Axes: o.Axes, Scale: o.Scale, Path: o.Sources[0],
					Features: o.Features, Boxes: o.Boxes, Sizes: o.Sizes}
				return a.Validate()
			}
			f.Run = func(p Progress) (*Report, error) { return Arrays(a, p) }
			return &f
		})
	}
}

// ArrayOptions describes a conversion of arrays of NumPy.
type ArrayOptions struct {
	Target
	Axes
	Scale float64 // multiplies the features; 0 takes floats as they are and refuses integers, whose meaning it would be

	// Path is a folder with one file for each image: {image_id}.npz, holding features [R, D], boxes [R, 4] and the size
	// of the picture, or {image_id}.npy, the features alone. Or it is one archive of a whole split, holding features
	// [N, R, D], boxes [N, R, 4] and sizes [N, 2]. Rows of a whole split stay in their order; its ids file, if any,
	// must have one line per row.
	Path string

	// Names of the arrays in archives; empty tries the usual ones (see defaultKeys).
	Features, Boxes, Sizes string
}

// defaultKeys are the names under which public extractors store their arrays.
var defaultKeys = struct{ features, boxes, sizes, width, height []string }{
	features: []string{"features", "x", "feat", "feats", "arr_0"},
	boxes:    []string{"bbox", "boxes", "bbx", "bboxes"},
	sizes:    []string{"size", "sizes", "ims_size", "image_size"},
	width:    []string{"image_w", "img_w", "width"},
	height:   []string{"image_h", "img_h", "height"},
}

// Validate returns an error that names the first field that cannot be used.
func (o *ArrayOptions) Validate() error {
	if o.Path == "" {
		return fmt.Errorf("convert: expected a .npz file, or a folder with a file for each image, found no path")
	}
	if err := checkScale(o.Scale); err != nil {
		return err
	}
	if err := o.Axes.validate(); err != nil {
		return err
	}
	return o.Target.Validate()
}

// Arrays converts an archive, or a folder with a file for each image.
func Arrays(o ArrayOptions, progress Progress) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	rep := &Report{Rows: map[string]int{}}
	info, err := os.Stat(o.Path)
	if err == nil {
		if info.IsDir() {
			err = folderOf(&o, rep, progress)
		} else {
			err = wholeSplit(&o, rep, progress)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	return rep, nil
}

// archive is an open .npz file.
type archive struct {
	*zip.Reader
	f     *os.File
	bytes int64
	path  string
	o     *ArrayOptions
}

// Close closes the file.
func (a *archive) Close() error { return a.f.Close() }

func openArchive(path string, o *ArrayOptions) (*archive, error) {
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

// array opens the array called name, or the first of the usual names. It returns nil when none is there and name is
// empty.
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

// shape returns the shape of the features that an array becomes, of one image [R, D], otherwise [N, R, D].
func (o *ArrayOptions) shape(m *member, one bool) ([]int, error) {
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

// next reads the features of an image, [regions, dim], of the shape of it.
func (o *ArrayOptions) next(m *member, it *item) error {
	v := make([]float32, it.regions*it.dim)
	if o.Scale == 0 {
		if err := read(m, v); err != nil {
			return err
		}
	} else {
		wide := make([]float64, len(v))
		if err := read(m, wide); err != nil {
			return err
		}
		for i, x := range wide {
			v[i] = float32(o.Scale * x)
		}
	}
	if it.features = v; o.Grid == "nchw" {
		it.features, _ = o.order(v, make([]float32, len(v)), it.dim)
	}
	return finite(m.name, it.features, it.dim)
}

// folderOf converts a folder of one file for each image.
func folderOf(o *ArrayOptions, rep *Report, progress Progress) error {
	names, err := folderIDs(o.Path)
	if err != nil {
		return err
	}
	if n := len(names.infos); n > 0 {
		rep.note("%s: %d files such as %s, which describe others, were passed over", o.Path, n, names.infos[0])
	}
	return o.writeImages(o.Path, names.order, rep, progress, func(id string) (*item, string, error) {
		it, err := readImage(names.path[id], o)
		if err != nil {
			return nil, "", err
		}
		return it, names.path[id], nil
	})
}

// folder lists the files of a folder by image id.
type folder struct {
	order []string // ids, numbers by value before other names
	path  map[string]string
	infos []string // NAME_info.npy beside NAME.npy, of facebookresearch/mmf
}

func folderIDs(dir string) (*folder, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	f := &folder{path: map[string]string{}}
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
		case na != nb && na:
			return -1
		case na != nb:
			return 1
		case na && len(a) != len(b):
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return f, nil
}

// readImage reads the file of one image.
func readImage(path string, o *ArrayOptions) (*item, error) {
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
	s, err := o.shape(m, true)
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

// boxes reads the [regions, 4] boxes of an image, nil when there are none.
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

// size reads width and height of the picture from one array of two or from two of one; 0, 0 when there are none.
func (a *archive) size() (w, h int64, err error) {
	both, err := a.numbers(a.o.Sizes, defaultKeys.sizes, 2)
	if err != nil {
		return 0, 0, err
	}
	if both == nil {
		width, err := a.numbers("", defaultKeys.width, 1)
		if err != nil {
			return 0, 0, err
		}
		height, err := a.numbers("", defaultKeys.height, 1)
		if width == nil || height == nil || err != nil {
			return 0, 0, err
		}
		both = []float64{width[0], height[0]}
	}
	if w, h, err = pixels(both); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", a.path, err)
	}
	return w, h, nil
}

// numbers reads a small array of n values, nil when it is not there.
func (a *archive) numbers(name string, usual []string, n int) ([]float64, error) {
	m, err := a.array(name, usual)
	if m == nil || err != nil {
		return nil, err
	}
	defer m.Close()
	count := 1
	for _, d := range m.Shape {
		count *= min(d, 1<<10)
	}
	if len(m.Shape) > 4 || count != n {
		return nil, fmt.Errorf("%s: %s: expected %d values, found shape %v", a.path, m.name, n, m.Shape)
	}
	v := make([]float64, n)
	if err := read(m, v); err != nil {
		return nil, fmt.Errorf("%s: %w", a.path, err)
	}
	return v, nil
}
