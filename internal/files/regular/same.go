package regular

import (
	"bufio"
	"errors"
	"io"
	"os"
)

// Same reports whether two files have the same bytes.
func Same(a, b string) (bool, error) {
	f, n, err := Open(a)
	if err != nil {
		return false, err
	}
	defer f.Close()
	g, m, err := Open(b)
	if err != nil {
		return false, err
	}
	defer g.Close()
	one, err := f.Stat()
	other, e := g.Stat()
	if err = errors.Join(err, e); err != nil || os.SameFile(one, other) || n != m {
		return err == nil && n == m, err
	}
	const size = 1 << 16
	x, y := bufio.NewReaderSize(f, size), bufio.NewReaderSize(g, size)
	for {
		p, errA := x.Peek(size)
		q, errB := y.Peek(size)
		if string(p) != string(q) {
			return false, nil
		}
		switch {
		case errA == io.EOF && errB == io.EOF:
			return true, nil
		case errA != nil && errA != io.EOF || errB != nil && errB != io.EOF:
			return false, errors.Join(errA, errB)
		}
		x.Discard(len(p))
		y.Discard(len(q))
	}
}
