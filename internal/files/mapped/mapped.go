// Package mapped maps files into memory for reading. Reading such memory fails with a fault instead of an error when
// the file became shorter or its disk or network file system fails; Watch and Recover make an error of it that names
// the file.
package mapped

import (
	"fmt"
	"os"
	"runtime/debug"
	"unsafe"
)

// File is a file in memory. A nil *File is an empty one.
type File struct {
	path string
	data []byte
}

// Map maps the first size bytes of an open file read-only; the file may be closed then. On Windows
// nobody can replace, remove or shorten it until it is unmapped.
func Map(f *os.File, size int64) (*File, error) {
	if size <= 0 || int64(int(size)) != size {
		return nil, fmt.Errorf("cannot map %d bytes of %s", size, f.Name())
	}
	b, err := mapFile(f, int(size))
	if err != nil {
		return nil, os.NewSyscallError("mmap "+f.Name(), err)
	}
	return &File{path: f.Name(), data: b}, nil
}

// Bytes returns the memory. It is read-only, dies with Close, and may be read between Watch and Recover alone.
func (f *File) Bytes() []byte {
	if f == nil {
		return nil
	}
	return f.data
}

// Close unmaps the file. A second Close does nothing.
func (f *File) Close() error {
	if f == nil || f.data == nil {
		return nil
	}
	b := f.data
	f.data = nil
	return unmapFile(b)
}

// Watch makes faults of this goroutine panics, and returns what Recover needs to end that:
//
//	defer f.Recover(mapped.Watch(), &err)
func Watch() (before bool) { return debug.SetPanicOnFault(true) }

// Recover must be deferred itself. It sets err where reading the memory of f panicked; other panics continue.
func (f *File) Recover(before bool, err *error) {
	debug.SetPanicOnFault(before)
	r := recover()
	if r == nil {
		return
	}
	fault, ok := r.(interface{ Addr() uintptr }) // of package runtime
	if !ok || f == nil || len(f.data) == 0 {
		panic(r)
	}
	at := fault.Addr() - uintptr(unsafe.Pointer(&f.data[0]))
	if at >= uintptr(len(f.data)) {
		panic(r)
	}
	*err = f.explain(int64(at))
}

// explain describes a failed read at a byte.
func (f *File) explain(at int64) error {
	if st, err := os.Stat(f.path); err == nil && st.Size() < int64(len(f.data)) {
		return fmt.Errorf("%s became shorter while it was in use: it had %d bytes when it was opened, now it has %d; "+
			"bring the whole file back and start again", f.path, len(f.data), st.Size())
	}
	return fmt.Errorf("%s: byte %d cannot be read: its disk or network file system failed, or the file was shortened "+
		"while it was in use; check both and start again", f.path, at)
}
