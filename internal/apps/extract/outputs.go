package extract

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"vsetrain/data"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/npy"
)

type outputs struct{ features, ids, boxes, sizes, record, changes string }

// files returns the files of a request: DIR/SPLIT_ims.npy and the files with the same prefix, or FILE.npy and the files
// with the prefix FILE, without a last _ims.
func (r *Request) files() (outputs, error) {
	prefix := filepath.Join(r.Out, r.Split)
	features := prefix + "_ims.npy"
	if strings.EqualFold(filepath.Ext(r.Out), ".npy") {
		features = r.Out
		prefix = strings.TrimSuffix(strings.TrimSuffix(r.Out, filepath.Ext(r.Out)), "_ims")
		if r.Split != "" {
			return outputs{}, fmt.Errorf("--split %s names files in a folder, but --out %s is a file", r.Split, r.Out)
		}
	} else if r.Split == "" {
		return outputs{}, fmt.Errorf("--out %s is a folder: name the split with --split, such as --split test", r.Out)
	}
	return outputs{features, prefix + "_ids.txt", prefix + "_ims_bbx.npy", prefix + "_ims_size.npy",
		data.ExtractorFile(filepath.Dir(prefix), filepath.Base(prefix)),
		data.ChangesFile(filepath.Dir(prefix), filepath.Base(prefix))}, nil
}

func (o *outputs) all() []string {
	return []string{o.features, o.ids, o.boxes, o.sizes, o.record, o.changes}
}

// free checks that the outputs may be written. The output may use the ids file of the request.
func (r *Request) free(out outputs) error {
	for _, path := range out.all() {
		st, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) || r.Force && err == nil {
			continue
		}
		if err != nil {
			return err
		}
		if own, err := os.Stat(r.IDs); path == out.ids && err == nil && os.SameFile(st, own) {
			continue
		}
		return fmt.Errorf("%s exists; replace it with --force", path)
	}
	return nil
}

// write writes ids, boxes and sizes first, and the features last.
func (r *Request) write(x *Extractor, ids []string, w *work, out outputs, rep *Report) error {
	var kept []string
	for i, s := range w.sizes {
		if s[0] > 0 {
			kept = append(kept, ids[i])
		}
	}
	rep.Rows, rep.Regions, rep.Dim, rep.Skipped = len(kept), x.Regions, x.Dim, len(ids)-len(kept)
	if rep.Rows == 0 {
		return fmt.Errorf("none of %d pictures could be read", len(ids))
	}
	set := &atomicfile.Set{}
	defer set.Abort()
	if err := set.Write(out.ids, []byte(strings.Join(kept, "\n")+"\n")); err != nil {
		return err
	}
	model, err := filepath.Abs(x.Model)
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(data.ExtractorRecord{Model: model, Hash: x.Hash, Runtime: x.Runtime,
		Regions: x.Regions, Dim: x.Dim, DType: map[npy.DType]string{npy.F16: "f16", npy.F32: "f32"}[r.DType]}, "", "  ")
	if err != nil {
		return err
	}
	if err := set.Write(out.record, append(b, '\n')); err != nil {
		return err
	}
	if x.HasBoxes() {
		if err := writeBoxes(set, x, w, out, rep.Rows); err != nil {
			return err
		}
	} else {
		set.Remove(out.boxes)
		set.Remove(out.sizes)
	}
	set.Remove(out.changes) // of the earlier files
	if err := w.finish(r.DType, []int{rep.Rows, x.Regions, x.Dim}); err != nil {
		return err
	}
	set.Add(atomicfile.Adopt(w.rows.Name(), out.features))
	rep.Files = set.Paths()
	if err := integrity.Commit(set); err != nil {
		return err
	}
	return w.forget()
}

// writeBoxes adds the boxes of the cells of a grid and the sizes of the pictures.
func writeBoxes(set *atomicfile.Set, x *Extractor, w *work, out outputs, n int) error {
	return errors.Join(
		npy.Stage(set, out.boxes, npy.F32, []int{n, x.Regions, 4}, func(boxes *npy.Writer) error {
			return w.pictures(func(s [2]uint32) error {
				return boxes.WriteFloat32(x.Boxes(int(s[0]), int(s[1])))
			})
		}),
		npy.Stage(set, out.sizes, npy.I32, []int{n, 2}, func(sizes *npy.Writer) error {
			return w.pictures(func(s [2]uint32) error { return sizes.WriteInts([]int64{int64(s[0]), int64(s[1])}) })
		}))
}

// pictures calls use with the size of each picture that could be read.
func (w *work) pictures(use func(size [2]uint32) error) error {
	for _, s := range w.sizes {
		if s[0] > 0 {
			if err := use(s); err != nil {
				return err
			}
		}
	}
	return nil
}
