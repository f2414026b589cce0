package convert

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// wholeSplit converts one archive that holds a whole split: features [N, R, D], boxes [N, R, 4], sizes [N, 2]. It reads
// the three arrays side by side, row by row. Rows stay in their order; an ids file must have a line for each.
func (c *conversion) wholeSplit() error {
	path := c.Sources[0]
	if len(c.Splits) != 1 {
		return fmt.Errorf("%s: an archive with all images is one split: expected one split, found %d", path,
			len(c.Splits))
	}
	a, err := openArchive(path, &c.Options)
	if err != nil {
		return err
	}
	defer a.Close()
	feats, err := a.features()
	if err != nil {
		return err
	}
	defer feats.Close()
	shape, err := c.imageShape(feats, false)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	n, r, d := shape[0], shape[1], shape[2]
	boxes, err := a.rows(c.Boxes, defaultKeys.boxes, n, r, 4)
	if err != nil {
		return err
	}
	defer boxes.Close()
	sizes, err := a.rows(c.Sizes, defaultKeys.sizes, n, 2)
	if err != nil {
		return err
	}
	defer sizes.Close()
	ids, err := c.wholeIDs(n)
	if err != nil {
		return err
	}
	out, err := c.newOutput(c.Splits[0], n)
	if err != nil {
		return err
	}
	defer out.abort()
	size := make([]float64, 2)
	it := &item{}
	for i := range n {
		id := strconv.Itoa(i)
		if ids != nil {
			id = ids[i]
		}
		it.regions, it.dim = r, d
		err := c.next(feats, it)
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
			err = c.fitItem(it)
		}
		if err == nil {
			err = out.write(it, id)
		}
		if err != nil {
			return fmt.Errorf("%s: row %d (image %s): %w", path, i, id, err)
		}
		c.Records++
		c.progress.report("write", int64(i+1), int64(n))
	}
	return c.commit(out)
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

// wholeIDs returns the lines of the ids file, one for each row; nil without an ids file.
func (o *Options) wholeIDs(n int) ([]string, error) {
	path := o.Splits[0].IDs
	if path == "" {
		return nil, nil
	}
	l, err := readIDs(path, false)
	if err == nil && len(l.ids) != n {
		err = fmt.Errorf("%s: expected %d ids, one for each row of %s, found %d", path, n, o.Sources[0], len(l.ids))
	}
	if err != nil {
		return nil, err
	}
	return l.lines, nil
}

// pixels converts a width and height to whole pixels.
func pixels(v []float64) (w, h int64, err error) {
	for _, x := range v {
		if x != math.Trunc(x) || x < 1 || x > 1<<30 {
			return 0, 0, fmt.Errorf("expected a picture size in whole pixels, found %v", v)
		}
	}
	return int64(v[0]), int64(v[1]), nil
}
