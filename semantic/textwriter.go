package semantic

import (
	"bufio"
	"fmt"
	"strconv"

	"vsetrain/internal/files/atomicfile"
)

// textWriter writes rows in the format of the references: a line of comma-separated numbers for each caption. The
// numbers are the shortest decimals that parse to the same float32.
type textWriter struct {
	f         *atomicfile.File
	out       *bufio.Writer
	rows, dim int
	written   int
	buf       []byte
}

func createText(path string, rows, dim int) (*textWriter, error) {
	f, err := atomicfile.Create(path)
	if err != nil {
		return nil, err
	}
	return &textWriter{f: f, out: bufio.NewWriterSize(f, 1<<20), rows: rows, dim: dim}, nil
}

// WriteFloat32 appends values in row order.
func (w *textWriter) WriteFloat32(values []float32) error {
	for _, v := range values {
		w.buf = strconv.AppendFloat(w.buf[:0], float64(v), 'g', -1, 32)
		w.written++
		if w.written%w.dim == 0 {
			w.buf = append(w.buf, '\n')
		} else {
			w.buf = append(w.buf, ',')
		}
		if _, err := w.out.Write(w.buf); err != nil {
			return err
		}
	}
	return nil
}

// Prepare completes the contents and returns the file, which the caller commits.
func (w *textWriter) Prepare() (*atomicfile.File, error) {
	if w.written != w.rows*w.dim {
		w.Abort()
		return nil, fmt.Errorf("%s: %d values written, expected %d rows of %d", w.f.Path(), w.written, w.rows, w.dim)
	}
	if err := w.out.Flush(); err != nil {
		w.Abort()
		return nil, err
	}
	return w.f, nil
}

// Abort removes the unfinished file. It does nothing after the file was committed.
func (w *textWriter) Abort() { w.f.Abort() }
