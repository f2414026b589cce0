// Package disk changes files and names: everything that this program writes goes through System. Tests replace it with
// a system that records (package crash) or fails. Reading uses package os.
package disk

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
)

// System is the part of an operating system that changes files.
type System interface {
	Create(path string) (File, error)  // for reading and writing; the file must not exist
	Open(path string) (File, error)    // for reading and writing; a missing file is made
	Renew(path string, b []byte) error // writes b over itself, which sets the time of the file; ErrChanged
	Rename(from, to string) error
	Link(from, to string) error
	Remove(path string) error // a file, or an empty folder
	Mkdir(path string) error
	SyncDir(dir string) error // makes the names in a folder durable
}

// File is an open file. Writes are durable after Sync.
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
	if err != nil { // f is a File that is not nil
		return nil, err
	}
	return f, nil
}

// Full reports whether err means that the disk is full.
func Full(err error) bool { return isOne(err, fullErrors) }

// InUse reports whether err means that another process has the file open or mapped, which only Windows reports.
func InUse(err error) bool { return isOne(err, inUseErrors) }

func isOne(err error, all []error) bool {
	return slices.ContainsFunc(all, func(e error) bool { return errors.Is(err, e) })
}

// ErrChanged is the error for a file that does not hold what was expected.
var ErrChanged = errors.New("another has written the file")

// Renew reads and writes through one open file: if another process replaces the file meanwhile, the write goes to the
// replaced one.
func (Host) Renew(path string, b []byte) error {
	return Renewed(path, b, func(f *os.File) error {
		_, err := f.WriteAt(b, 0)
		return err
	})
}

// Renewed opens the file at path, and calls write if it holds b.
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

// Use replaces the system for tests, until restore is called. No file may be open for writing while it is replaced.
func Use(s System) (restore func()) {
	before := now
	now = s
	return func() { now = before }
}

// Now returns the system in use.
func Now() System { return now }
