package synth

import (
	"bufio"
	"errors"
	"path/filepath"
	"strconv"

	"vsetrain/internal/files/disk"
	"vsetrain/internal/files/npy"
)

// bufferedFile is a buffered file that remembers its first error.
type bufferedFile struct {
	f disk.File
	*bufio.Writer
}

func createBuffered(path string) (*bufferedFile, error) {
	f, err := disk.Now().Create(path)
	if err != nil {
		return nil, err
	}
	return &bufferedFile{f, bufio.NewWriterSize(f, 1<<16)}, nil
}

func (t *bufferedFile) finish() error {
	err := t.Flush()
	if err == nil {
		err = t.f.Sync()
	}
	return errors.Join(err, t.f.Close())
}

// splitFiles are the open files of one split.
type splitFiles struct {
	ims, boxes, sizes *npy.Writer
	caps, ids, trees  *bufferedFile
	arrays            []*npy.Writer // that are open
	texts             []*bufferedFile
	repeat            int // times each image row is stored
	captions          int // written so far
}

// openSplit creates the files of a split of n images in dir.
func openSplit(dir, split string, n int, o *Options) (*splitFiles, error) {
	f := &splitFiles{repeat: 1}
	if o.Repeat && split != "train" {
		f.repeat = o.CaptionsPerImage
	}
	var errs []error
	array := func(end string, d npy.DType, row ...int) *npy.Writer {
		w, err := npy.Create(filepath.Join(dir, split+end), d, append([]int{n * f.repeat}, row...))
		if errs = append(errs, err); err == nil {
			f.arrays = append(f.arrays, w)
		}
		return w
	}
	text := func(end string) *bufferedFile {
		t, err := createBuffered(filepath.Join(dir, split+end))
		if errs = append(errs, err); err == nil {
			f.texts = append(f.texts, t)
		}
		return t
	}
	f.ims, f.boxes = array("_ims.npy", o.DType, o.Regions, o.Dim), array("_ims_bbx.npy", npy.F32, o.Regions, 4)
	f.sizes = array("_ims_size.npy", npy.I32, 2)
	f.caps, f.ids, f.trees = text("_caps.txt"), text("_ids.txt"), text("_caps.json")
	if err := errors.Join(errs...); err != nil {
		f.abort()
		return nil, err
	}
	f.trees.WriteString("[") // a buffered writer keeps its first error, which finish reports
	return f, nil
}

// write appends one finished picture.
func (f *splitFiles) write(p *picture) error {
	for range f.repeat {
		if err := f.ims.WriteFloat32(p.ims); err != nil {
			return err
		}
		if err := f.boxes.WriteFloat32(p.boxes); err != nil {
			return err
		}
		if err := f.sizes.WriteInts([]int64{int64(p.scene.width), int64(p.scene.height)}); err != nil {
			return err
		}
		f.ids.WriteString(strconv.Itoa(p.id) + "\n")
	}
	for i := range p.captions {
		if f.captions > 0 {
			f.trees.WriteByte(',')
		}
		f.trees.WriteString("\n" + string(p.trees[i]))
		f.caps.WriteString(p.captions[i] + "\n")
		f.captions++
	}
	return nil
}

// close completes all files.
func (f *splitFiles) close() error {
	f.trees.WriteString("\n]\n")
	var errs []error
	for _, t := range f.texts {
		errs = append(errs, t.finish())
	}
	for _, w := range f.arrays {
		errs = append(errs, w.Close())
	}
	return errors.Join(errs...)
}

// abort closes what is open; the staging folder is removed by the caller.
func (f *splitFiles) abort() {
	for _, w := range f.arrays {
		w.Abort()
	}
	for _, t := range f.texts {
		t.f.Close()
	}
}
