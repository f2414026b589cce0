package synth

import (
	"bufio"
	"fmt"
	"path/filepath"
	"strconv"

	"vsetrain/internal/files/disk"
	"vsetrain/internal/files/npy"
)

// textFile is a buffered text file that remembers its first error.
type textFile struct {
	f disk.File
	*bufio.Writer
}

func createText(path string) (*textFile, error) {
	f, err := disk.Now().Create(path)
	if err != nil {
		return nil, err
	}
	return &textFile{f, bufio.NewWriterSize(f, 1<<16)}, nil
}

func (t *textFile) finish() error {
	err := t.Flush()
	if err == nil {
		err = t.f.Sync()
	}
	if e := t.f.Close(); err == nil {
		err = e
	}
	return err
}

// splitFiles are the open files of one split.
type splitFiles struct {
	ims, boxes, sizes *npy.Writer
	caps, ids, trees  *textFile
	repeat            int // times each image row is stored
	captions          int // written so far
}

// openSplit creates the files of a split of n images in dir.
func openSplit(dir, split string, n int, o *Options) (f *splitFiles, err error) {
	f = &splitFiles{repeat: 1}
	if o.Repeat && split != "train" {
		f.repeat = o.CaptionsPerImage
	}
	defer func() {
		if err != nil {
			f.abort()
		}
	}()
	name := func(end string) string { return filepath.Join(dir, split+end) }
	rows := n * f.repeat
	if f.ims, err = npy.Create(name("_ims.npy"), o.DType, []int{rows, o.Regions, o.Dim}); err != nil {
		return f, err
	}
	if f.boxes, err = npy.Create(name("_ims_bbx.npy"), npy.F32, []int{rows, o.Regions, 4}); err != nil {
		return f, err
	}
	if f.sizes, err = npy.Create(name("_ims_size.npy"), npy.I32, []int{rows, 2}); err != nil {
		return f, err
	}
	if f.caps, err = createText(name("_caps.txt")); err != nil {
		return f, err
	}
	if f.ids, err = createText(name("_ids.txt")); err != nil {
		return f, err
	}
	if f.trees, err = createText(name("_caps.json")); err != nil {
		return f, err
	}
	_, err = f.trees.WriteString("[")
	return f, err
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
		// A buffered writer keeps its first error, which finish reports.
		f.ids.WriteString(strconv.Itoa(p.id))
		f.ids.WriteByte('\n')
	}
	for i := range p.captions {
		if f.captions > 0 {
			f.trees.WriteByte(',')
		}
		f.trees.WriteByte('\n')
		f.trees.Write(p.trees[i])
		f.caps.WriteString(p.captions[i])
		f.caps.WriteByte('\n')
		f.captions++
	}
	return nil
}

// close completes all files.
func (f *splitFiles) close() error {
	f.trees.WriteString("\n]\n")
	for _, t := range []*textFile{f.caps, f.ids, f.trees} {
		if err := t.finish(); err != nil {
			return err
		}
	}
	for _, w := range []*npy.Writer{f.ims, f.boxes, f.sizes} {
		if err := w.Close(); err != nil {
			return err
		}
	}
	return nil
}

// abort closes what is open; the staging folder is removed by the caller.
func (f *splitFiles) abort() {
	for _, w := range []*npy.Writer{f.ims, f.boxes, f.sizes} {
		if w != nil {
			w.Abort()
		}
	}
	for _, t := range []*textFile{f.caps, f.ids, f.trees} {
		if t != nil {
			t.f.Close()
		}
	}
}

// appendTree appends [[0,3],[3,1],...] to b.
func appendTree(b []byte, pairs [][2]int) []byte {
	b = append(b, '[')
	for i, p := range pairs {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "[%d,%d]", p[0], p[1])
	}
	return append(b, ']')
}
