package data

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vsetrain/internal/files/npy"
)

// checkFile adds the report of one file. splits are the splits that could be opened.
func (r *Report) checkFile(e fs.DirEntry, splits map[string]*Split, o CheckOptions) {
	kind, split := kindOf(e.Name())
	f := FileReport{Name: e.Name(), Kind: kind}
	path := filepath.Join(r.Dir, e.Name())
	info, err := os.Stat(path) // of the file that a link leads to
	if err != nil {
		r.warn(f.Name, "mend or remove the link", "leads nowhere: %v", err)
		return
	}
	f.Bytes = info.Size()
	switch {
	case info.IsDir():
		return
	case kind == "captions" || kind == "ids" || kind == "semantics" && strings.HasSuffix(path, ".txt"):
		n, err := countLines(path)
		f.Lines = n
		if err != nil {
			r.fail(f.Name, "", "%v", err)
		} else if want, known := captionsOfSplit(splits[split]); kind == "semantics" && known && n != want {
			r.fail(f.Name, "run `vsetrain precompute-svd` on this data set", "%d semantic vectors, but the split has "+
				"%d captions", n, want)
		}
	case strings.HasSuffix(path, ".npy"):
		r.checkArray(path, splits[split], &f, o)
	}
	r.Files = append(r.Files, f)
}

// checkArray reads an .npy file. Its shape must fit its split, and its floating-point elements must be finite.
func (r *Report) checkArray(path string, s *Split, f *FileReport, o CheckOptions) {
	a, err := npy.Open(path)
	if err != nil {
		r.fail(f.Name, "copy or convert the file again", "%v", err)
		return
	}
	defer a.Close()
	f.DType, f.Shape = string(a.DType), slices.Clone(a.Shape)
	if f.Kind == "semantics" {
		if n, known := captionsOfSplit(s); len(a.Shape) != 2 || known && a.Shape[0] != n {
			r.fail(f.Name, "run `vsetrain precompute-svd` on this data set", "shape %v; expected [%s, k]: a vector "+
				"for each caption", a.Shape, count(n, known))
		}
	}
	if a.Fortran || a.DType != npy.F16 && a.DType != npy.F32 && a.DType != npy.F64 || a.RowLen() == 0 {
		return
	}
	progress := func(done, total int) {
		if o.Progress != nil {
			o.Progress(f.Name, done, total)
		}
	}
	looks := look{source: a}
	if f.Kind == "features" && s != nil && s.images != nil {
		looks.regions, looks.counts = s.regions, s.counts
	}
	st, err := looks.scan(o.SampleRows, progress)
	if err != nil {
		r.fail(f.Name, "", "%v", err)
		return
	}
	f.Scan = st
	if st.BadRows > 0 {
		r.fail(f.Name, "extract or convert these images again", "%d rows hold NaN or infinity, the first are %v",
			st.BadRows, st.FirstBad)
	}
	if f.Kind == "features" && st.ZeroRows > 0 {
		r.warn(f.Name, "was the extraction of these images complete?", "%d rows are all zero, the first are %v",
			st.ZeroRows, st.FirstZero)
	}
	switch n := st.PaddedRows; {
	case n == 0:
	case looks.counts == nil:
		r.warn(f.Name, lengthsRemedy, "the last regions of %d rows are zeros and count as regions, the first rows are "+
			"%v", n, st.FirstPadded)
	default:
		r.warn(f.Name, "are "+s.name+lengthsEnd+" the numbers of these images?", "%d rows have values after the "+
			"regions that are counted, the first are %v", n, st.FirstPadded)
	}
}

// captionsOfSplit returns the lines of the caption file of a split, which may be nil.
func captionsOfSplit(s *Split) (n int, known bool) {
	if s == nil || s.captions == nil {
		return 0, false
	}
	return s.layout.captions, true
}

func count(n int, known bool) string {
	if !known {
		return "rows"
	}
	return fmt.Sprint(n)
}

// checkChanges examines the images that were added to a gallery. Their features must be finite.
func (r *Report) checkChanges(sr *SplitReport) {
	file := sr.Name + changesEnd
	if _, err := os.Lstat(filepath.Join(r.Dir, file)); missing(err) {
		return
	}
	s, err := Open(r.Dir, sr.Name, OpenOptions{Partial: true})
	if err != nil {
		r.fail(file, "", "%v", err)
		return
	}
	defer s.Close()
	sr.Images = s.NumImages()
	sr.Added, sr.Removed = Changed(s)
	row := make([]float32, s.regions*s.dim)
	for i, p := range placesOf(s) {
		if p.record < 0 {
			continue
		}
		if err := s.ReadImage(row, i); err != nil {
			r.fail(file, "remove the image and add it again", "%v", err)
		}
	}
}
