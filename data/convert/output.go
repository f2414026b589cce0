package convert

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/regular"
)

// output writes the files of one split. They appear under their names when commit is called.
type output struct {
	t                 *Target
	split             string
	rows              int // expected; -1 when unknown
	written           int
	ims, boxes, sizes *npy.Writer
	ids               bytes.Buffer
}

// newOutput checks that the files of a split may be written; they are opened by the first image.
func newOutput(t *Target, s Split, rows int) (*output, error) {
	if err := atomicfile.MkdirAll(t.Out); err != nil {
		return nil, err
	}
	o := &output{t: t, split: s.Name, rows: rows}
	for _, end := range []string{"_ims.npy", "_ims_bbx.npy", "_ims_size.npy"} {
		if err := free(o.name(end), t.Force); err != nil {
			return nil, err
		}
	}
	// The ids file may well be the one of the output folder.
	if a, err := os.Stat(o.name("_ids.txt")); !errors.Is(err, os.ErrNotExist) && !t.Force {
		if err != nil {
			return nil, err
		}
		if b, err := os.Stat(s.IDs); err != nil || !os.SameFile(a, b) {
			return nil, free(o.name("_ids.txt"), false)
		}
	}
	return o, nil
}

func (o *output) name(end string) string { return filepath.Join(o.t.Out, o.split+end) }

func (o *output) create(end string, d npy.DType, row ...int) (*npy.Writer, error) {
	if o.rows < 0 {
		return npy.CreateUnknownRows(o.name(end), d, row)
	}
	return npy.Create(o.name(end), d, append([]int{o.rows}, row...))
}

func (o *output) open(it *item) (err error) {
	if o.ims, err = o.create("_ims.npy", o.t.DType, o.t.Regions, o.t.Dim); err != nil {
		return err
	}
	if it.boxes != nil {
		if o.boxes, err = o.create("_ims_bbx.npy", npy.F32, o.t.Regions, 4); err != nil {
			return err
		}
	}
	if it.width > 0 {
		o.sizes, err = o.create("_ims_size.npy", npy.I32, 2)
	}
	return err
}

// write appends an image whose shape has been checked.
func (o *output) write(it *item) error {
	if o.ims == nil {
		if err := o.open(it); err != nil {
			return err
		}
	}
	if (o.boxes != nil) != (it.boxes != nil) || (o.sizes != nil) != (it.width > 0) {
		return fmt.Errorf("expected boxes and image size in all images or in none; this one differs from the first")
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
	o.ids.WriteString(it.id)
	o.ids.WriteByte('\n')
	o.written++
	return nil
}

// commit puts the files of all splits in their places.
func commit(outs ...*output) error {
	set := &atomicfile.Set{}
	defer set.Abort()
	if err := prepare(set, outs...); err != nil {
		return err
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
	}
	for _, o := range outs {
		if err := o.prepareArray(set, o.ims, "_ims.npy"); err != nil {
			return err
		}
	}
	return nil
}

// prepareArray adds an array to a set. Where the source has none, that of an earlier conversion goes: it would belong
// to other images.
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

// prepareIDs adds the ids file to a set. One that has the same ids already is left alone: it may be the one that chose
// the images.
func (o *output) prepareIDs(set *atomicfile.Set) error {
	path := o.name("_ids.txt")
	atomicfile.RemoveLeft(filepath.Dir(path)) // of a conversion that was killed; of equal ids nothing is written below
	old, err := regular.ReadFile(path, int64(o.ids.Len()), "ids of images")
	if err == nil && bytes.Equal(old, o.ids.Bytes()) {
		return nil
	}
	f, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	set.Add(f)
	_, err = f.Write(o.ids.Bytes())
	return err
}

// abort removes what is not complete.
func (o *output) abort() {
	for _, w := range []*npy.Writer{o.ims, o.boxes, o.sizes} {
		if w != nil {
			w.Abort()
		}
	}
}
