package runfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
)

const tempMark = ".tmp-"

// system is the part of the operating system that WriteFile uses; tests put failures in its place.
type system struct {
	create  func(path string) (file, error)
	rename  func(from, to string) error
	syncDir func(dir string) error
}

type file interface {
	io.WriteCloser
	Sync() error
}

var hostSystem = system{
	create: func(path string) (file, error) {
		return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	},
	rename:  os.Rename,
	syncDir: syncDir,
}

// WriteFile replaces the file at path by what write produces, all or nothing: a temporary file in the same directory
// is written, synced and renamed over path, and the directory is synced. After an error, also one from write, the
// earlier file is as it was and the temporary file is gone.
func WriteFile(path string, write func(io.Writer) error) error {
	return hostSystem.writeFile(path, write)
}

var tempCount atomic.Uint64

func (sys system) writeFile(path string, write func(io.Writer) error) error {
	dir, base := filepath.Split(path)
	var f file
	var temp string
	for {
		temp = fmt.Sprintf("%s.%s%s%d-%d", dir, base, tempMark, os.Getpid(), tempCount.Add(1))
		var err error
		if f, err = sys.create(temp); err == nil {
			break
		} else if !errors.Is(err, fs.ErrExist) { // one left by a killed process with the same number
			return wrap("write", path, err)
		}
	}
	if err := fill(f, write); err != nil {
		os.Remove(temp)
		return wrap("write", path, err)
	}
	if err := sys.rename(temp, path); err != nil {
		os.Remove(temp)
		return wrap("write", path, err)
	}
	return wrap("write", path, sys.syncDir(filepath.Dir(path)))
}

// fill writes, syncs and closes f and returns the first error.
func fill(f file, write func(io.Writer) error) error {
	w := bufio.NewWriterSize(f, 1<<20)
	err := write(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// removeTemps deletes what killed processes left half-written in dir.
func removeTemps(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return wrap("read", dir, err)
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, ".") && strings.Contains(name, tempMark) {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return wrap("remove", filepath.Join(dir, name), err)
			}
		}
	}
	return nil
}
