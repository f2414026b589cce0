package convert

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/regular"
)

// output writes the files of one split. They appear under their names when the conversion is committed.
type output struct {
	*conversion
	split             string
	rows              int // expected; -1 when unknown
	ims, boxes, sizes *npy.Writer
	lengths           []int64 // of each row
	ids               bytes.Buffer
}

// newOutput checks that the files of a split may be written; they are opened by the first image.
func (c *conversion) newOutput(s Split, rows int) (*output, error) {
	if err := atomicfile.MkdirAll(c.Out); err != nil {
		return nil, err
	}
	o := &output{conversion: c, split: s.Name, rows: rows}
	if c.SkipBroken {
		o.rows = -1
	}
	for _, end := range []string{"_ims.npy", "_ims_bbx.npy", "_ims_size.npy", "_lengths.npy"} {
		if err := free(o.name(end), c.Force); err != nil {
			return nil, err
		}
	}
	// The ids file may be the one of the output folder. It keeps its lines, unless images are left out.
	a, errA := os.Stat(o.name("_ids.txt"))
	b, errB := os.Stat(s.IDs)
	switch {
	case c.Force || errors.Is(errA, os.ErrNotExist):
	case errA != nil || errB != nil || !os.SameFile(a, b):
		return nil, free(o.name("_ids.txt"), false)
	case c.SkipBroken:
		return nil, fmt.Errorf("%s: --skip-broken may leave out images of this file, which chooses the images too; "+
			"name another --out, or replace the file with --force", o.name("_ids.txt"))
	}
	return o, nil
}

func (o *output) name(end string) string { return filepath.Join(o.Out, o.split+end) }

func (o *output) create(end string, d npy.DType, row ...int) (*npy.Writer, error) {
	if o.rows < 0 {
		return npy.CreateUnknownRows(o.name(end), d, row)
	}
	return npy.Create(o.name(end), d, append([]int{o.rows}, row...))
}

func (o *output) open(it *item) (err error) {
	if o.ims, err = o.create("_ims.npy", o.DType, o.Regions, o.Dim); err != nil {
		return err
	}
	if it.boxes != nil {
		if o.boxes, err = o.create("_ims_bbx.npy", npy.F32, o.Regions, 4); err != nil {
			return err
		}
	}
	if it.width > 0 {
		o.sizes, err = o.create("_ims_size.npy", npy.I32, 2)
	}
	return err
}

// write appends an image whose shape was checked, and its id.
func (o *output) write(it *item, id string) error {
	if o.ims == nil {
		if err := o.open(it); err != nil {
			return err
		}
	}
	if (o.boxes != nil) != (it.boxes != nil) || (o.sizes != nil) != (it.width > 0) {
		return fmt.Errorf("expected boxes and image size in all images or in none; this image differs from the first")
	}
	if err := o.ims.WriteFloat32(it.features); err != nil {
		return err
	}
	if o.boxes != nil {
		if err := o.boxes.WriteFloat32(it.boxes); err != nil {
			return err
		}
	}
	if o.sizes != nil {
		if err := o.sizes.WriteInts([]int64{it.width, it.height}); err != nil {
			return err
		}
	}
	o.lengths = append(o.lengths, int64(it.length))
	o.again(id)
	return nil
}

// again writes the id of the last row again, for its next caption.
func (o *output) again(id string) {
	o.ids.WriteString(id + "\n")
}

// writeImages writes every split of a source whose images have the given ids. A split without an ids file has their
// order. load is the same as in writeLists.
func (c *conversion) writeImages(source string, ids []string,
	load func(id string) (it *item, where string, err error)) error {
	lists, has, used := make([]*idList, len(c.Splits)), map[string]bool{}, map[string]bool{}
	for _, id := range ids {
		has[id] = true
	}
	for i, s := range c.Splits {
		var err error
		if s.IDs == "" {
			lists[i] = &idList{path: source, ids: ids, lines: ids, rows: len(ids)}
		} else if lists[i], err = readIDs(s.IDs, c.Distinct); err != nil {
			return err
		}
		if err := lists[i].missing(func(id string) bool { return has[id] }, source); err != nil {
			return err
		}
		for _, id := range lists[i].ids {
			used[id] = true
		}
	}
	c.Records, c.Unused = len(ids), len(ids)-len(used)
	return c.writeLists(lists, map[string]bool{}, load)
}

// writeLists writes every split in the order of its ids. load returns an image and its place in the source; an image
// that cannot be loaded is broken. left has the images that were left out before.
func (c *conversion) writeLists(lists []*idList, left map[string]bool,
	load func(id string) (it *item, where string, err error)) error {
	outs, total := make([]*output, len(lists)), 0
	for i, l := range lists {
		var err error
		if outs[i], err = c.newOutput(c.Splits[i], l.rows); err != nil {
			return err
		}
		defer outs[i].abort()
		total += l.rows
	}
	done := 0
	for i, out := range outs {
		var it *item
		last, where := "", ""
		for j, id := range lists[i].ids {
			switch line := lists[i].lines[j]; {
			case left[id]:
			case id == last && c.Distinct:
				out.again(line)
			default:
				if id != last {
					var err error
					if it, where, err = load(id); err != nil {
						last, left[id] = "", true
						if err := c.broken(id, where, err); err != nil {
							return err
						}
						break
					}
					if err := c.fitItem(it); err != nil {
						return fmt.Errorf("%s: image %s: %w", where, id, err)
					}
					last = id
				}
				if err := out.write(it, line); err != nil {
					return fmt.Errorf("%s: image %s: %w", where, id, err)
				}
				done++
				c.progress.report("write", int64(done), int64(total))
			}
		}
	}
	return c.commit(outs...)
}

// broken turns what is wrong with an image into an error, or notes it where such images are left out.
func (c *conversion) broken(id, where string, err error) error {
	b := Broken{id, where, err}
	if !c.SkipBroken {
		return fmt.Errorf("%w; --skip-broken leaves such images out", b)
	}
	c.Broken = append(c.Broken, b)
	return nil
}

// commit puts the files of all splits in their places.
func (c *conversion) commit(outs ...*output) error {
	set := &atomicfile.Set{}
	defer set.Abort()
	if err := prepare(set, outs...); err != nil {
		return err
	}
	for _, o := range outs {
		c.Rows[o.split] = len(o.lengths)
	}
	return integrity.Commit(set)
}

// prepare completes the files of all splits, the features last: a split without them is visibly incomplete.
func prepare(set *atomicfile.Set, outs ...*output) error {
	for _, o := range outs {
		if o.ims == nil {
			return fmt.Errorf("split %s: the source holds no image", o.split)
		}
		if err := o.prepareIDs(set); err != nil {
			return err
		}
		if err := o.prepareArray(set, o.boxes, "_ims_bbx.npy"); err != nil {
			return err
		}
		if err := o.prepareArray(set, o.sizes, "_ims_size.npy"); err != nil {
			return err
		}
		if err := o.prepareLengths(set); err != nil {
			return err
		}
	}
	for _, o := range outs {
		set.Remove(o.name("_extractor.json")) // of features that were there before
		if err := o.prepareArray(set, o.ims, "_ims.npy"); err != nil {
			return err
		}
	}
	return nil
}

// prepareArray adds an array to a set. Where the source has none, the array of an earlier conversion is removed: it
// belongs to other images.
func (o *output) prepareArray(set *atomicfile.Set, w *npy.Writer, end string) error {
	if w == nil {
		set.Remove(o.name(end))
		return nil
	}
	f, err := w.Prepare()
	if err != nil {
		return err
	}
	set.Add(f)
	return nil
}

// prepareLengths adds the number of regions of each image to a set if some image has fewer than the array.
func (o *output) prepareLengths(set *atomicfile.Set) error {
	if slices.Min(o.lengths) == int64(o.Regions) {
		return o.prepareArray(set, nil, "_lengths.npy")
	}
	return npy.Stage(set, o.name("_lengths.npy"), npy.I32, []int{len(o.lengths)}, func(w *npy.Writer) error {
		return w.WriteInts(o.lengths)
	})
}

// prepareIDs adds the ids file to a set. A file with the same ids is left alone: it may be the one that chose the
// images.
func (o *output) prepareIDs(set *atomicfile.Set) error {
	path := o.name("_ids.txt")
	atomicfile.RemoveLeft(filepath.Dir(path)) // of a conversion that was killed; of equal ids nothing is written below
	old, err := regular.ReadFile(path, int64(o.ids.Len()), "ids of images")
	if err == nil && bytes.Equal(old, o.ids.Bytes()) {
		return nil
	}
	return set.Write(path, o.ids.Bytes())
}

// abort removes incomplete files.
func (o *output) abort() {
	for _, w := range []*npy.Writer{o.ims, o.boxes, o.sizes} {
		if w != nil {
			w.Abort()
		}
	}
}
