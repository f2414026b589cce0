// Package disk is how this program changes files and names: everything that it writes goes through System. Tests put
// one in its place that records (package crash) or fails. Reading is left to package os.
package disk

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
)

// System is the part of an operating system by which files are changed.
type System interface {
	Create(path string) (File, error)  // for reading and writing; it must not exist
	Open(path string) (File, error)    // for reading and writing; it is made where it is missing
	Renew(path string, b []byte) error // writes b over itself, which sets the time of the file; ErrChanged
	Rename(from, to string) error
	Link(from, to string) error
	Remove(path string) error // a file, or an empty folder
	Mkdir(path string) error
	SyncDir(dir string) error // makes the names in a folder lasting
}

// File is an open file. What is written is lasting after Sync.
type File interface {
	io.Reader
	io.Writer
	io.Seeker
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
	Stat() (fs.FileInfo, error)
	Name() string
}

// Host is the operating system.
type Host struct{}

// Create, Open, Link and Mkdir are the functions of package os.
func (Host) Create(path string) (File, error) { return open(path, os.O_EXCL) }

func (Host) Open(path string) (File, error) { return open(path, 0) }

func open(path string, how int) (File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|how, 0o666)
	if err != nil { // no File that is not nil
		return nil, err
	}
	return f, nil
}

// Full reports whether err is the error of a full disk.
func Full(err error) bool { return isOne(err, fullErrors) }

// InUse reports whether err is the error of a file which another process has open or mapped: on Windows alone.
func InUse(err error) bool { return isOne(err, inUseErrors) }

func isOne(err error, all []error) bool {
	return slices.ContainsFunc(all, func(e error) bool { return errors.Is(err, e) })
}

// ErrChanged says that a file does not hold what was expected.
var ErrChanged = errors.New("another has written the file")

// Renew looks and writes through one open file: where another has put its own file in the place meanwhile, the write
// goes to the one that is gone.
func (Host) Renew(path string, b []byte) error {
	return Renewed(path, b, func(f *os.File) error {
		_, err := f.WriteAt(b, 0)
		return err
	})
}

// Renewed opens the file at path, and calls write where it holds b.
func Renewed(path string, b []byte, write func(*os.File) error) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	there, err := io.ReadAll(io.LimitReader(f, int64(len(b))+1))
	if err == nil && !bytes.Equal(there, b) {
		err = ErrChanged
	}
	if err != nil {
		return err
	}
	return write(f)
}

func (Host) Link(from, to string) error { return os.Link(from, to) }

func (Host) Mkdir(path string) error { return os.Mkdir(path, 0o777) }

var now System = Host{}

// Use puts another system in the place of the present one, for tests, until restore is called. No file may be written
// meanwhile.
func Use(s System) (restore func()) {
	before := now
	now = s
	return func() { now = before }
}

// Now returns the system in use.
func Now() System { return now }
