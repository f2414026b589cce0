//go:build !unix

package runfs

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
)

// fileLock is a file that exists while the lock is held. After a kill it has to be deleted by hand.
type fileLock struct {
	*os.File
	path string
}

// Close gives up the lock.
func (l fileLock) Close() error { return errors.Join(l.File.Close(), os.Remove(l.path)) }

// acquire takes the lock by creating the file at path, for what is at dir; instead says what to do where it is held.
func acquire(dir, path, instead string, owner Owner) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		held, err := os.Open(path)
		if err != nil {
			return nil, wrap("lock", dir, err)
		}
		defer held.Close()
		locked := lockedError(dir, instead, readOwner(held))
		locked.Remedy += "; if it was killed, delete " + path
		return nil, locked
	}
	if err != nil {
		return nil, wrap("write to", dir, err)
	}
	if err := json.NewEncoder(f).Encode(owner); err != nil {
		return nil, errors.Join(wrap("write to", dir, err), fileLock{f, path}.Close())
	}
	return fileLock{f, path}, nil
}

// isHeld reports that the lock is held: its file exists no longer than that.
func isHeld(*os.File) (bool, error) { return true, nil }
