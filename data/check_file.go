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

// checkFile adds the report of one file. captions counts those of the splits that could be opened.
func (r *Report) checkFile(e fs.DirEntry, captions map[string]int, o CheckOptions) {
	kind, split := kindOf(e.Name())
	f := FileReport{Name: e.Name(), Kind: kind}
	path := filepath.Join(r.Dir, e.Name())
	info, err := os.Stat(path) // of the file that a link leads to
	switch {
	case err != nil:
		r.warn(f.Name, "mend or remove the link", "leads nowhere: %v", err)
		return
	case info.IsDir():
		return
	}
	f.Bytes = info.Size()
	switch {
	case kind == "captions" || kind == "ids" || kind == "semantics" && strings.HasSuffix(path, ".txt"):
		n, err := countLines(path)
		f.Lines = n
		if err != nil {
			r.fail(f.Name, "", "%v", err)
		} else if want, known := captions[split]; kind == "semantics" && known && n != want {
			r.fail(f.Name, "run `vsetrain precompute-svd` on this data set", "%d semantic vectors, but the split has "+
				"%d captions", n, want)
		}
	case strings.HasSuffix(path, ".npy"):
		r.checkArray(path, split, &f, captions, o)
	}
	r.Files = append(r.Files, f)
}

// checkArray reads an .npy file: its shape must fit its split, its floating-point elements must be finite.
func (r *Report) checkArray(path, split string, f *FileReport, captions map[string]int, o CheckOptions) {
	a, err := npy.Open(path)
	if err != nil {
		r.fail(f.Name, "copy or convert the file again", "%v", err)
		return
	}
	defer a.Close()
	f.DType, f.Shape = string(a.DType), slices.Clone(a.Shape)
	switch f.Kind {
	case "semantics":
		if n, known := captions[split]; len(a.Shape) != 2 || known && a.Shape[0] != n {
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
	st, err := scan(a, o.SampleRows, o.Workers, progress)
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
}

func count(n int, known bool) string {
	if !known {
		return "rows"
	}
	return fmt.Sprint(n)
}

// checkChanges looks at what was added to and removed from a gallery since its files were written: features must be
// finite.
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
