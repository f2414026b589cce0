package atomicfile

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"vsetrain/internal/files/disk"
)

// File is a new file under a hidden name. Commit gives it the name of its target, Abort removes it.
type File struct {
	path     string
	temp     string
	f        disk.File
	tee      io.Writer
	err      error // of the first write that failed
	prepared bool  // synced and closed
	done     bool  // renamed or removed
}

// Create starts a file that will replace the file at path, and removes hidden files for path that ended processes left
// behind. The error is an *Error.
func Create(path string) (*File, error) {
	if err := replaceable(path); err != nil {
		return nil, Explain("write", path, err)
	}
	removeLeft(filepath.Dir(path), filepath.Base(path))
	var f disk.File
	temp, err := hidden(path, func(name string) (err error) {
		f, err = disk.Now().Create(name)
		return err
	})
	if err != nil {
		return nil, Explain("write", path, err)
	}
	return &File{path: path, temp: temp, f: f}, nil
}

// Adopt returns, for a Set, a file that was written and synced under another name, temp, on the same file system.
func Adopt(temp, path string) *File {
	return &File{path: path, temp: temp, prepared: true}
}

// replaceable returns an error if a file must not replace what is at path, such as a folder or /dev/null.
func replaceable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // also a link that leads nowhere
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return errFolder
	case !info.Mode().IsRegular():
		return errSpecial
	}
	return nil
}

// Path returns the name that the file will have.
func (f *File) Path() string { return f.path }

// Hidden returns the name that the file has until then.
func (f *File) Hidden() string { return f.temp }

// Tee copies every later write to w and ignores its errors. Call it before the first write.
func (f *File) Tee(w io.Writer) { f.tee = w }

// Teed returns the writer of Tee if it got the whole content of the file, nil otherwise.
func (f *File) Teed() io.Writer { return f.tee }

// Write implements io.Writer. The error is an *Error.
func (f *File) Write(b []byte) (int, error) {
	n, err := f.f.Write(b)
	if f.tee != nil {
		f.tee.Write(b[:n])
	}
	return n, f.fail(err)
}

// WriteAt implements io.WriterAt. The error is an *Error.
func (f *File) WriteAt(b []byte, off int64) (int, error) {
	f.tee = nil // it cannot go back
	n, err := f.f.WriteAt(b, off)
	return n, f.fail(err)
}

// fail keeps the first error of a write, after which the file is never committed: callers may forget to check.
func (f *File) fail(err error) error {
	if err = f.explain(err); err != nil && f.err == nil {
		f.err = err
	}
	return err
}

// Commit syncs the file, renames it to its target and syncs the folder. If it fails, the earlier file is unchanged and
// the new one is gone, except after an error of the last sync: then the new file is there. The error is an *Error.
func (f *File) Commit() error {
	if f.done {
		return Explain("write", f.path, fs.ErrClosed)
	}
	defer f.Abort()
	if err := f.prepare(); err != nil {
		return err
	}
	if err := disk.Now().Rename(f.temp, f.path); err != nil {
		return f.explain(err)
	}
	f.finish()
	return Explain("write", f.path, disk.Now().SyncDir(filepath.Dir(f.path)))
}

// prepare syncs and closes the file. Then only its name is wrong.
func (f *File) prepare() error {
	if f.prepared {
		return nil
	}
	f.prepared = true
	return f.explain(cmp.Or(f.err, f.f.Sync(), f.f.Close()))
}

// Abort removes the file. It does nothing after Commit.
func (f *File) Abort() {
	if f.done {
		return
	}
	if !f.prepared {
		f.f.Close()
	}
	disk.Now().Remove(f.temp)
	f.finish()
}

func (f *File) finish() {
	f.done = true
	forget(f.temp)
}

// explain describes an error that left the earlier file as it was.
func (f *File) explain(err error) error {
	err = Explain("write", f.path, err)
	if e, ok := errors.AsType[*Error](err); ok && e.Path == f.path {
		_, statErr := os.Lstat(f.path)
		e.Intact = statErr == nil
	}
	return err
}

// WriteFile replaces the file at path by what write produces, all or nothing. After an error, also from write, the
// earlier file is unchanged. The error is an *Error.
func WriteFile(path string, write func(io.Writer) error) error {
	f, err := New(path, write)
	if err != nil {
		return err
	}
	return f.Commit()
}

// New starts a file, as Create does, and fills it with what write produces.
func New(path string, write func(io.Writer) error) (*File, error) {
	f, err := Create(path)
	if err == nil {
		err = f.Fill(write)
	}
	return f, err
}

// buffers are reused, because most files are much smaller.
var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 1<<20) }}

// Fill writes through a buffer, and removes the file after an error. The error is an *Error, or from write.
func (f *File) Fill(write func(io.Writer) error) error {
	w := buffers.Get().(*bufio.Writer)
	defer buffers.Put(w)
	defer w.Reset(nil)
	w.Reset(f)
	filled := false
	defer func() {
		if !filled { // or write panicked
			f.Abort()
		}
	}()
	err := write(w)
	if err == nil {
		err = w.Flush()
	}
	filled = err == nil
	return f.explain(err)
}

// WriteNew writes the file at path, all or nothing, and never replaces one: the error is fs.ErrExist if there is a
// file, also if another process writes it at the same moment. The file system must have hard links.
func WriteNew(path string, write func(io.Writer) error) error {
	if _, err := os.Lstat(path); err == nil {
		return Explain("write", path, fs.ErrExist)
	}
	f, err := New(path, write)
	if err != nil {
		return err
	}
	defer f.Abort() // removes the hidden name, also after success
	if err := f.prepare(); err != nil {
		return err
	}
	if err := disk.Now().Link(f.temp, path); err != nil {
		return Explain("write", path, err)
	}
	return Explain("write", path, disk.Now().SyncDir(filepath.Dir(path)))
}

// Bytes returns a function for WriteFile that writes b.
func Bytes(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}
