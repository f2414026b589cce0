package data

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/regular"
)

// Fold writes the files of a gallery after its changes to another folder, which must not have files of the split. Use
// it for programs that do not read changes, and to discard removed images. It returns the paths of the files. The
// gallery itself stays the same.
func Fold(dir, split, to string) ([]string, error) {
	boxes := BoxesStored(dir, split)
	s, err := Open(dir, split, OpenOptions{Partial: true, Boxes: boxes})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := changeable(s); err != nil {
		return nil, err
	}
	if err := atomicfile.MkdirAll(to); err != nil {
		return nil, err
	}
	out := &Split{dir: to, name: split}
	set := &atomicfile.Set{}
	defer set.Abort()
	record, err := regular.ReadFile(s.path(extractorEnd), maxRecord, "the record of an extractor")
	if err == nil {
		err = set.Write(out.path(extractorEnd), record)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := set.Write(out.path("_ids.txt"), []byte(strings.Join(ImageIDs(s), "\n")+"\n")); err != nil {
		return nil, err
	}
	if boxes {
		err = errors.Join(
			stageRows(set, out.path("_boxes.npy"), npy.F32, []int{s.rows, s.regions, 4}, s.boxes.pixels.ReadRow),
			stageRows(set, out.path("_sizes.npy"), npy.F32, []int{s.rows, 2}, func(dst []float32, row int) error {
				copy(dst, s.boxes.sizes[2*row:])
				return nil
			}))
		if err != nil {
			return nil, err
		}
	}
	if s.counts != nil {
		err := npy.Stage(set, out.path(lengthsEnd), npy.I32, []int{s.rows}, func(w *npy.Writer) error {
			counts := make([]int64, len(s.counts))
			for i, n := range s.counts {
				counts[i] = int64(n)
			}
			return w.WriteInts(counts)
		})
		if err != nil {
			return nil, err
		}
	}
	dtype, _ := FeatureDType(s)
	if err := stageRows(set, out.path("_ims.npy"), dtype, []int{s.rows, s.regions, s.dim}, s.ReadImage); err != nil {
		return nil, err
	}
	for _, path := range append(set.Paths(), out.path(changesEnd), out.CaptionPath()) {
		if _, err := os.Lstat(path); err == nil {
			return nil, fmt.Errorf("%s exists; name another folder with --out", path)
		}
	}
	return set.Paths(), integrity.Commit(set)
}

// stageRows adds an array to a set, row by row.
func stageRows(set *atomicfile.Set, path string, d npy.DType, shape []int, read func([]float32, int) error) error {
	n := 1
	for _, k := range shape[1:] {
		n *= k
	}
	row := make([]float32, n)
	return npy.Stage(set, path, d, shape, func(w *npy.Writer) error {
		for i := range shape[0] {
			if err := errors.Join(read(row, i), w.WriteFloat32(row)); err != nil {
				return fmt.Errorf("%s: %w", filepath.Base(path), err)
			}
		}
		return nil
	})
}
