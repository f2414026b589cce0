package atomicfile

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"vsetrain/internal/files/disk"
	"vsetrain/internal/system/process"
)

// mark separates the name of the target from the owner in a hidden name.
const mark = ".tmp-"

// foreignAge is how long a hidden file of another machine must be unchanged to count as left behind: this machine
// cannot ask whether its process lives.
const foreignAge = 24 * time.Hour

// unknownMachine is the machine in hidden names if process.Machine does not know it.
const unknownMachine = "0"

// thisMachine names the machine in hidden names.
var thisMachine = sync.OnceValue(func() string {
	m := process.Machine()
	if m == "" {
		return unknownMachine
	}
	h := fnv.New32a()
	h.Write([]byte(m))
	return fmt.Sprintf("%08x", h.Sum32())
})

var (
	count  atomic.Uint64 // of hidden names made by this process
	inUse  = map[string]bool{}
	inUseM sync.Mutex
)

// hidden calls make with hidden names for path until one is free, and returns it.
func hidden(path string, make func(name string) error) (string, error) {
	dir, base := filepath.Split(path)
	for {
		name := fmt.Sprintf(".%s%s%s-%d-%d", base, mark, thisMachine(), os.Getpid(), count.Add(1))
		inUseM.Lock()
		inUse[name] = true
		inUseM.Unlock()
		err := make(dir + name)
		if err == nil {
			return dir + name, nil
		}
		forget(name)
		if !errors.Is(err, fs.ErrExist) { // left by an ended process with the same number
			return "", err
		}
	}
}

// forget records that this process does not use a hidden name any more.
func forget(name string) {
	inUseM.Lock()
	delete(inUse, filepath.Base(name))
	inUseM.Unlock()
}

// RemoveLeft removes the hidden files and folders in dir that ended processes left behind. It ignores errors: the next
// writer tries again.
func RemoveLeft(dir string) { removeLeft(dir, "") }

// removeLeft removes what was left behind for one target, or "" for all.
func removeLeft(dir, target string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		base, owner, ok := parse(e.Name())
		if ok && (target == "" || base == target) && left(e, owner) {
			RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}

// parse splits a hidden name into the name of the target and the owner: machine, process and count.
func parse(name string) (target, owner string, ok bool) {
	i := strings.LastIndex(name, mark)
	if i < 1 || name[0] != '.' {
		return "", "", false
	}
	return name[1:i], name[i+len(mark):], true
}

// left reports whether a hidden file was left behind.
func left(e fs.DirEntry, owner string) bool {
	parts := strings.Split(owner, "-")
	if len(parts) != 3 {
		return false
	}
	pid, err := strconv.Atoi(parts[1])
	if _, countErr := strconv.ParseUint(parts[2], 10, 64); err != nil || countErr != nil {
		return false
	}
	if parts[0] == thisMachine() && parts[0] != unknownMachine {
		if pid != os.Getpid() {
			return !process.Alive(pid)
		}
		inUseM.Lock()
		defer inUseM.Unlock()
		return !inUse[e.Name()] // left by an earlier process with the same number
	}
	info, err := e.Info()
	return err == nil && time.Since(info.ModTime()) > foreignAge
}

// RemoveAll removes a file, or a folder and its contents. It is not an error if there is nothing at path.
func RemoveAll(path string) error {
	if info, err := os.Lstat(path); err == nil && info.IsDir() { // a link is removed and not followed
		entries, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := RemoveAll(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := disk.Now().Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Clean removes all hidden files in dir, also those of living processes: this process must have locked dir. It is not
// an error if there is no such folder.
func Clean(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return Explain("read", dir, err)
	}
	for _, e := range entries {
		if _, _, ok := parse(e.Name()); !ok {
			continue
		}
		if err := RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return Explain("remove", filepath.Join(dir, e.Name()), err)
		}
	}
	return nil
}

// MkdirTemp makes a hidden folder that will become the folder path, and removes hidden folders for path that ended
// processes left behind. The caller calls CommitDir or RemoveAll. The error is an *Error.
func MkdirTemp(path string) (string, error) {
	removeLeft(filepath.Dir(path), filepath.Base(path))
	name, err := hidden(path, func(name string) error { return disk.Now().Mkdir(name) })
	return name, Explain("make", path, err)
}

// MkdirAll makes a folder and all missing folders above it, and makes their names durable.
func MkdirAll(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := MkdirAll(parent); err != nil {
			return err
		}
	}
	err := disk.Now().Mkdir(path)
	if info, statErr := os.Stat(path); statErr == nil && !info.IsDir() {
		return &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
	} else if err != nil && statErr != nil { // another process may have made it meanwhile
		return err
	}
	return disk.Now().SyncDir(parent)
}

// CommitDir renames a hidden folder, whose files have been synced, to path, which must not exist, and syncs the folder
// that path is in. The error is an *Error.
func CommitDir(temp, path string) error {
	err := filepath.WalkDir(temp, func(dir string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		return disk.Now().SyncDir(dir)
	})
	if err == nil {
		err = disk.Now().Rename(temp, path)
	}
	if err == nil {
		forget(temp)
		err = disk.Now().SyncDir(filepath.Dir(path))
	}
	return Explain("make", path, err)
}
