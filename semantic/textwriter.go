package semantic

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// textWriter writes rows as the references do: a line of comma-separated numbers for each caption, here the shortest
// decimals that give back the same float32. The file appears, whole, at Close.
type textWriter struct {
	path      string
	f         *os.File
	out       *bufio.Writer
	rows, dim int
	written   int
	buf       []byte
	done      bool
}

func createText(path string, rows, dim int) (*textWriter, error) {
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return nil, err
	}
	return &textWriter{path: path, f: f, out: bufio.NewWriterSize(f, 1<<20), rows: rows, dim: dim}, nil
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
			return fmt.Errorf("%s: %w", w.path, err)
		}
	}
	return nil
}

// Close syncs and renames the file.
func (w *textWriter) Close() error {
	if w.written != w.rows*w.dim {
		w.Abort()
		return fmt.Errorf("%s: %d values written, expected %d rows of %d", w.path, w.written, w.rows, w.dim)
	}
	err := errors.Join(w.out.Flush(), w.f.Sync(), w.f.Close())
	if err == nil {
		err = os.Rename(w.f.Name(), w.path)
	}
	if err != nil {
		w.Abort()
		return fmt.Errorf("%s: %w", w.path, err)
	}
	w.done = true
	return nil
}

// Abort removes what has been written. It does nothing after Close.
func (w *textWriter) Abort() {
	if !w.done {
		w.done = true
		w.f.Close()
		os.Remove(w.f.Name())
	}
}
