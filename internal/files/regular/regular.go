// Package regular opens regular files only, and says what is in files that a reader refuses (Content). Names of files
// come from folders that others can write, and opening a pipe blocks, while a device such as /dev/zero never ends.
package regular

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrNot is the error for a path that is not a regular file.
var ErrNot = errors.New("expected a regular file")

// ErrLarge is the error for a file that is larger than its limit.
var ErrLarge = errors.New("too large")

// Open opens a file for reading and returns its size. It follows links. It is an error (ErrPointer) if the file is a
// pointer of Git LFS or git-annex.
func Open(path string) (*os.File, int64, error) {
	info, err := os.Stat(path) // first, because opening a pipe waits for its other end
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

// Check returns an error if there is something at path that is not a regular file.
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

// ReadFile reads a file of at most limit bytes; what names the kind of file in the error for a larger one.
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
	b := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err = b.ReadFrom(io.LimitReader(f, limit+1)) // to its end: it may be growing
	switch {
	case err != nil:
		return nil, err
	case int64(b.Len()) > limit:
		return nil, tooLarge(int64(b.Len()))
	}
	return b.Bytes(), nil
}
