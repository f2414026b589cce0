package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"vsetrain/internal/files/disk"
)

// Kinds of failure, for errors.Is.
var (
	ErrReadOnly = errors.New("not writable")
	ErrDiskFull = errors.New("disk full")
)

var (
	errFolder  = errors.New("expected a file, found a folder")
	errSpecial = errors.New("expected a regular file, found a device, pipe or socket")
)

// Error is a failure to write a file.
type Error struct {
	Op     string // "write", "lock", "create", ...
	Path   string
	Kind   error // one of the kinds above or the caller's, or nil
	Err    error // what the system said
	Intact bool  // there was a file before, and it is unchanged
	Remedy string
}

func (e *Error) Error() string {
	s := e.Op + " " + e.Path + ": "
	switch {
	case e.Err != nil:
		s += cause(e.Path, e.Err).Error()
	case e.Kind != nil:
		s += e.Kind.Error()
	}
	if e.Intact {
		s += "; the earlier file is intact"
	}
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

// Unwrap returns kind and cause, as far as they are known.
func (e *Error) Unwrap() []error {
	return slices.DeleteFunc([]error{e.Kind, e.Err}, func(err error) bool { return err == nil })
}

// Explain returns err as an *Error with its operation, its path and, if the cause is known, kind and remedy. It returns
// an *Error, and nil, as they are.
func Explain(op, path string, err error) error {
	var done *Error
	if err == nil || errors.As(err, &done) {
		return err
	}
	e := &Error{Op: op, Path: path, Err: err}
	if at, _ := pathOf(err); at != "" && !beside(at, path) { // of another file, which is read meanwhile
		return e
	}
	switch {
	case disk.Full(err):
		e.Kind, e.Remedy = ErrDiskFull, "free space and run the command again"
	case disk.InUse(err):
		e.Remedy = "end the program that has it open and run the command again"
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		e.Kind, e.Remedy = ErrReadOnly, "choose another folder or make this one writable"
	case errors.Is(err, errFolder):
		e.Remedy = "name a file in it"
	case errors.Is(err, errSpecial):
		e.Remedy = "name another file"
	case errors.Is(err, fs.ErrNotExist):
		if _, statErr := os.Stat(filepath.Dir(path)); errors.Is(statErr, fs.ErrNotExist) {
			e.Remedy = "make the folder " + filepath.Dir(path) + " first"
		}
	}
	return e
}

// cause returns err without the path of an error of package os about path or a file next to it.
func cause(path string, err error) error {
	if at, inner := pathOf(err); at != "" && beside(at, path) {
		return inner
	}
	return err
}

// pathOf returns the path that an error of package os names, and its cause.
func pathOf(err error) (at string, inner error) {
	switch e := err.(type) {
	case *fs.PathError:
		return e.Path, e.Err
	case *os.LinkError:
		return e.New, e.Err
	}
	return "", err
}

// beside reports whether at is path, below path or in the same folder.
func beside(at, path string) bool {
	return at == path || strings.HasPrefix(at, path+string(filepath.Separator)) ||
		filepath.Dir(at) == filepath.Dir(path)
}
