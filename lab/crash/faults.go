package crash

import (
	"sync"
	"syscall"

	"vsetrain/internal/files/disk"
)

// Kinds of faults of a call. ShortWrite writes half of the data and then finds the disk full; other calls find it full
// at once. Kill ends the process at the call: that call and all later ones fail without any effect.
const (
	ShortWrite = "short write"
	Kill       = "kill"
)

// faultKinds are the ways in which a call can fail.
var faultKinds = []string{"EIO", "ENOSPC", "EINTR", "ESTALE", ShortWrite, Kill}

var errnos = map[string]error{"EIO": syscall.EIO, "ENOSPC": syscall.ENOSPC, "EINTR": syscall.EINTR,
	"ESTALE": syscall.ESTALE, ShortWrite: syscall.ENOSPC, Kill: syscall.EIO}

// Faults is a disk.System that makes given calls fail, counted from 0.
type Faults struct {
	disk.Host
	At     map[int]string // kind of fault by number of the call
	mu     sync.Mutex
	calls  int
	killed bool
}

// next counts a call and returns its fault, "" for none.
func (s *Faults) next() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := s.At[s.calls]
	s.calls++
	if s.killed = s.killed || kind == Kill; s.killed {
		return Kill
	}
	return kind
}

// do makes a call unless it is to fail.
func (s *Faults) do(call func() error) error {
	if kind := s.next(); kind != "" {
		return errnos[kind]
	}
	return call()
}

// Create, Open, Renew, Rename, Link, Remove, Mkdir and SyncDir implement disk.System.
func (s *Faults) Create(path string) (f disk.File, err error) {
	err = s.do(func() error { f, err = s.Host.Create(path); return err })
	return s.wrap(f, err)
}

func (s *Faults) Open(path string) (f disk.File, err error) {
	err = s.do(func() error { f, err = s.Host.Open(path); return err })
	return s.wrap(f, err)
}

func (s *Faults) wrap(f disk.File, err error) (disk.File, error) {
	if err != nil {
		return nil, err
	}
	return &faultyFile{f, s}, nil
}

func (s *Faults) Renew(path string, b []byte) error {
	return s.do(func() error { return s.Host.Renew(path, b) })
}

func (s *Faults) Rename(from, to string) error {
	return s.do(func() error { return s.Host.Rename(from, to) })
}

func (s *Faults) Link(from, to string) error {
	return s.do(func() error { return s.Host.Link(from, to) })
}

func (s *Faults) Remove(path string) error { return s.do(func() error { return s.Host.Remove(path) }) }

func (s *Faults) Mkdir(path string) error { return s.do(func() error { return s.Host.Mkdir(path) }) }

func (s *Faults) SyncDir(dir string) error { return s.do(func() error { return s.Host.SyncDir(dir) }) }

// faultyFile is an open file of Faults.
type faultyFile struct {
	disk.File
	s *Faults
}

// Write, WriteAt, Truncate and Sync implement disk.File.
func (f *faultyFile) Write(b []byte) (int, error) { return f.write(b, f.File.Write) }

func (f *faultyFile) WriteAt(b []byte, at int64) (int, error) {
	return f.write(b, func(b []byte) (int, error) { return f.File.WriteAt(b, at) })
}

func (f *faultyFile) write(b []byte, write func([]byte) (int, error)) (int, error) {
	kind := f.s.next()
	switch kind {
	case "":
		return write(b)
	case ShortWrite:
		if n, err := write(b[:len(b)/2]); err != nil {
			return n, err
		}
		return len(b) / 2, errnos[kind]
	}
	return 0, errnos[kind]
}

func (f *faultyFile) Truncate(size int64) error {
	return f.s.do(func() error { return f.File.Truncate(size) })
}

func (f *faultyFile) Sync() error { return f.s.do(f.File.Sync) }
