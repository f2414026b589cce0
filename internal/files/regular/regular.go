// Package regular opens regular files only, and says what is in those that a reader does not take (Content). A pipe
// blocks whoever opens it, and a device such as /dev/zero never ends; names of files come from folders that others can
// write.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrNot says that there is something else than a regular file.
var ErrNot = errors.New("expected a regular file")

// ErrLarge says that a file is larger than its kind.
var ErrLarge = errors.New("too large")

// Open opens a file for reading and returns its size. A link is followed. A pointer that Git LFS or git-annex left in
// place of the file is an error (ErrPointer).
func Open(path string) (*os.File, int64, error) {
	info, err := os.Stat(path) // before it is opened: that would wait for the other end of a pipe
	if err != nil {
		return nil, 0, err
	}
	if err := check(path, info); err != nil {
		return nil, 0, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	if info, err = f.Stat(); err == nil {
		err = check(path, info)
	}
	if err == nil {
		err = checkPointer(f, info.Size())
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// Check returns an error when there is something else than a regular file at path; nothing is good: the file may be
// made.
func Check(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return check(path, info)
}

func check(path string, info fs.FileInfo) error {
	m := info.Mode()
	if m.IsRegular() {
		return nil
	}
	found := "a special file"
	switch {
	case m.IsDir():
		found = "a folder"
	case m&fs.ModeNamedPipe != 0:
		found = "a pipe"
	case m&fs.ModeSocket != 0:
		found = "a socket"
	case m&fs.ModeDevice != 0:
		found = "a device"
	}
	return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w, found %s", ErrNot, found)}
}

// ReadFile reads a file of at most limit bytes; what says which kind of file is that small, for the error of a larger
// one.
func ReadFile(path string, limit int64, what string) ([]byte, error) {
	f, size, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tooLarge := func(n int64) error {
		return &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w: %d bytes; expected %s of at most %d",
			ErrLarge, n, what, limit)}
	}
	if size > limit {
		return nil, tooLarge(size)
	}
	b := make([]byte, 0, size+512)
	for { // to its end: it may be growing
		n, err := f.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if int64(len(b)) > limit {
			return nil, tooLarge(int64(len(b)))
		}
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
	}
}
