package runfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Kinds of failure, for errors.Is.
var (
	ErrLocked   = errors.New("in use")
	ErrReadOnly = errors.New("not writable")
	ErrDiskFull = errors.New("disk full")
)

// Error is a failure to write in a run directory.
type Error struct {
	Op     string // "write", "lock", "create", ...
	Path   string
	Kind   error // one of the kinds above, or nil
	Err    error // what the system said
	Remedy string
}

// Error implements error.
func (e *Error) Error() string {
	s := e.Op + " " + e.Path + ": "
	switch {
	case e.Err != nil:
		s += cause(e.Path, e.Err).Error()
	case e.Kind != nil:
		s += e.Kind.Error()
	}
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

// Unwrap returns kind and cause.
func (e *Error) Unwrap() []error {
	var all []error
	for _, err := range []error{e.Kind, e.Err} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// wrap gives err the operation, the path and, where the cause is known, a remedy.
func wrap(op, path string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Op: op, Path: path, Err: err}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Kind = ErrDiskFull
		e.Remedy = "the earlier file is intact; free space and resume"
		if op == "append to" {
			e.Remedy = "free space and resume"
		}
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		e.Kind = ErrReadOnly
		e.Remedy = "choose another run directory with --run DIR or make this one writable"
	}
	return e
}

// cause leaves out the path that an error of package os about a file beside path repeats.
func cause(path string, err error) error {
	var at string
	var inner error
	switch e := err.(type) {
	case *fs.PathError:
		at, inner = e.Path, e.Err
	case *os.LinkError:
		at, inner = e.New, e.Err
	default:
		return err
	}
	if at == path || strings.HasPrefix(at, path+string(filepath.Separator)) || filepath.Dir(at) == filepath.Dir(path) {
		return inner
	}
	return err
}

// lockedError names the process that holds the lock.
func lockedError(path, instead string, holder Owner) error {
	who := "another process"
	if holder.PID > 0 {
		who = fmt.Sprintf("process %d on %s, since %s", holder.PID, holder.Host, holder.Since.Format("2006-01-02 15:04:05"))
	}
	return &Error{Op: "lock", Path: path, Kind: ErrLocked,
		Remedy: fmt.Sprintf("it is held by %s: end that process or %s", who, instead)}
}
