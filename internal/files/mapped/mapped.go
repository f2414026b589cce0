// Package mapped maps files into memory for reading. If a file becomes shorter, or its disk or network file system
// fails, reading the memory faults; Watch and Recover turn the fault into an error that names the file.
package mapped

import (
	"fmt"
	"os"
	"runtime/debug"
	"unsafe"
)

// File is a mapped file. A nil *File is an empty one.
type File struct {
	path string
	data []byte
}

// Map maps the first size bytes of an open file read-only. The file may be closed afterwards. Windows does not let
// anybody replace, remove or shorten a mapped file.
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

// Bytes returns the memory, which is read-only and valid until Close. Read it only between Watch and Recover.
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

// Watch turns faults of this goroutine into panics. Its result is for Recover, which ends that:
//
//	defer f.Recover(mapped.Watch(), &err)
func Watch() (before bool) { return debug.SetPanicOnFault(true) }

// Recover must be deferred directly. It sets err if reading the memory of f panicked; other panics continue.
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
