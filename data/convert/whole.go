package convert

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// wholeSplit converts one archive that holds a whole split: features [N, R, D], boxes [N, R, 4], sizes [N, 2]. The
// three arrays are read side by side, row by row.
func wholeSplit(o *ArrayOptions, rep *Report, progress Progress) error {
	if len(o.Splits) != 1 {
		return fmt.Errorf("%s: an archive with all images is one split: expected one split, found %d", o.Path,
			len(o.Splits))
	}
	a, err := openArchive(o.Path, o)
	if err != nil {
		return err
	}
	defer a.Close()
	feats, err := a.features()
	if err != nil {
		return err
	}
	defer feats.Close()
	shape, err := o.shape(feats, false)
	if err != nil {
		return fmt.Errorf("%s: %w", o.Path, err)
	}
	n, r, d := shape[0], shape[1], shape[2]
	boxes, err := a.rows(o.Boxes, defaultKeys.boxes, n, r, 4)
	if err != nil {
		return err
	}
	if boxes != nil {
		defer boxes.Close()
	}
	sizes, err := a.rows(o.Sizes, defaultKeys.sizes, n, 2)
	if err != nil {
		return err
	}
	if sizes != nil {
		defer sizes.Close()
	}
	ids, err := wholeIDs(o, n)
	if err != nil {
		return err
	}
	out, err := newOutput(&o.Target, o.Splits[0], n)
	if err != nil {
		return err
	}
	defer out.abort()
	size := make([]float64, 2)
	it := &item{}
	for i := range n {
		if it.id = strconv.Itoa(i); ids != nil {
			it.id = ids[i]
		}
		it.regions, it.dim = r, d
		err := o.next(feats, it)
		if err == nil && boxes != nil {
			it.boxes = make([]float32, 4*r)
			if err = read(boxes, it.boxes); err == nil {
				err = finite(boxes.name, it.boxes, 4)
			}
		}
		if err == nil && sizes != nil {
			if err = read(sizes, size); err == nil {
				it.width, it.height, err = pixels(size)
			}
		}
		if err == nil {
			err = o.Target.shape(it, rep)
		}
		if err == nil {
			err = out.write(it, it.id)
		}
		if err != nil {
			return fmt.Errorf("%s: row %d (image %s): %w", o.Path, i, it.id, err)
		}
		rep.Records++
		progress.report("write", int64(i+1), int64(n))
	}
	rep.Rows[out.split] = out.written
	return commit(out)
}

// rows opens an optional array of exactly the given shape.
func (a *archive) rows(name string, usual []string, shape ...int) (*member, error) {
	m, err := a.array(name, usual)
	if m == nil || err != nil {
		return nil, err
	}
	if !slices.Equal(m.Shape, shape) {
		m.Close()
		return nil, fmt.Errorf("%s: %s: expected shape %v, found %v", a.path, m.name, shape, m.Shape)
	}
	return m, nil
}

// wholeIDs returns the id of every row, the lines of the ids file; nil if there is none and rows are known by their
// number.
func wholeIDs(o *ArrayOptions, n int) ([]string, error) {
	path := o.Splits[0].IDs
	if path == "" {
		return nil, nil
	}
	l, err := readIDs(path, false)
	if err != nil {
		return nil, err
	}
	if len(l.ids) != n {
		return nil, fmt.Errorf("%s: expected %d ids, one for each row of %s, found %d", path, n, o.Path, len(l.ids))
	}
	return l.lines, nil
}

// pixels checks a width and height.
func pixels(v []float64) (w, h int64, err error) {
	for _, x := range v {
		if x != math.Trunc(x) || x < 1 || x > 1<<30 {
			return 0, 0, fmt.Errorf("expected a picture size in whole pixels, found %v", v)
		}
	}
	return int64(v[0]), int64(v[1]), nil
}
