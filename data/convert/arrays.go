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

// NPZOptions describes a conversion of NumPy archives.
type NPZOptions struct {
	Target

	// Path is a folder with one archive {image_id}.npz for each image, holding features [n, D], boxes [n, 4] and the
	// size of the picture; or one archive of a whole split, holding features [N, R, D], boxes [N, R, 4] and sizes
	// [N, 2]. Rows of a whole split stay in their order; its ids file, if any, must have one line per row.
	Path string

	// Names of the arrays; empty tries the usual ones (see defaultKeys).
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
func (o *NPZOptions) Validate() error {
	if o.Path == "" {
		return fmt.Errorf("convert: expected a .npz file or a folder of them, found no path")
	}
	return o.Target.Validate()
}

// NPZ converts an archive or a folder of archives.
func NPZ(o NPZOptions, progress Progress) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	rep := &Report{Rows: map[string]int{}}
	info, err := os.Stat(o.Path)
	if err == nil {
		if info.IsDir() {
			err = npzFolder(&o, rep, progress)
		} else {
			err = npzWhole(&o, rep, progress)
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
	o     *NPZOptions
}

// Close closes the file.
func (a *archive) Close() error { return a.f.Close() }

func openArchive(path string, o *NPZOptions) (*archive, error) {
	f, size, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	z, err := zip.NewReader(f, size)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: not a readable .npz archive: %w", path, err)
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

// features opens the features, which must have the given number of dimensions.
func (a *archive) features(dims int) (*member, error) {
	m, err := a.array(a.o.Features, defaultKeys.features)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, fmt.Errorf("%s: expected features called %s, found %s; name the array with --features-key", a.path,
			strings.Join(defaultKeys.features, " or "), a.names())
	}
	s := m.Shape
	if len(s) != dims || slices.Min(s) < 1 || s[dims-2] > maxRegions || s[dims-1] > maxDim ||
		s[dims-2]*s[dims-1] > maxElements {
		m.Close()
		return nil, fmt.Errorf("%s: %s: expected features with %d dimensions ending in regions x channels, found "+
			"shape %v", a.path, m.name, dims, s)
	}
	return m, nil
}

// npzFolder converts a folder of one archive per image.
func npzFolder(o *NPZOptions, rep *Report, progress Progress) error {
	names, err := folderIDs(o.Path)
	if err != nil {
		return err
	}
	lists := make([]*idList, len(o.Splits))
	outs := make([]*output, len(o.Splits))
	var done, total int64
	used := map[string]bool{}
	for i, s := range o.Splits {
		if s.IDs == "" {
			lists[i] = &idList{path: o.Path, ids: names.order}
		} else if lists[i], err = readIDs(s.IDs); err != nil {
			return err
		}
		if err := lists[i].missing(func(id string) bool { return names.path[id] != "" }, o.Path); err != nil {
			return err
		}
		if outs[i], err = newOutput(&o.Target, s, len(lists[i].ids)); err != nil {
			return err
		}
		total += int64(len(lists[i].ids))
		for _, id := range lists[i].ids {
			used[id] = true
		}
	}
	rep.Records, rep.Unused = len(names.order), len(names.order)-len(used)
	for i, out := range outs {
		defer out.abort()
		var it *item
		for _, id := range lists[i].ids {
			if it == nil || it.id != id {
				if it, err = readImage(names.path[id], id, o, rep); err != nil {
					return err
				}
			}
			if err := out.write(it); err != nil {
				return fmt.Errorf("%s: %w", names.path[id], err)
			}
			done++
			progress.report("write", done, total)
		}
		rep.Rows[out.split] = out.written
	}
	return commit(outs...)
}

// folder lists the archives of a folder by image id.
type folder struct {
	order []string // ids, numbers by value before other names
	path  map[string]string
}

func folderIDs(dir string) (*folder, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	f := &folder{path: map[string]string{}}
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), ".npz")
		if !ok {
			continue
		}
		id := canonical(base)
		if err := checkID(id); err != nil {
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
		return nil, fmt.Errorf("%s: expected archives {image_id}.npz, found none", dir)
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

// readImage reads the archive of one image.
func readImage(path, id string, o *NPZOptions, rep *Report) (*item, error) {
	a, err := openArchive(path, o)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	m, err := a.features(2)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	it := &item{id: id, regions: m.Shape[0], dim: m.Shape[1], features: make([]float32, m.Shape[0]*m.Shape[1])}
	if err := read(m, it.features); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := finite(m.name, it.features, it.dim); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if it.boxes, err = a.boxes(it.regions); err != nil {
		return nil, err
	}
	if it.width, it.height, err = a.size(); err != nil {
		return nil, err
	}
	if err := o.shape(it, rep); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return it, nil
}

// boxes reads the [regions, 4] boxes of an image, nil when there are none.
func (a *archive) boxes(regions int) ([]float32, error) {
	m, err := a.array(a.o.Boxes, defaultKeys.boxes)
	if m == nil || err != nil {
		return nil, err
	}
	defer m.Close()
	if len(m.Shape) != 2 || m.Shape[0] != regions || m.Shape[1] != 4 {
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
