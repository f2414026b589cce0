package crash

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"vsetrain/internal/files/disk"
)

// inode is a file, whatever its current name.
type inode struct{ first string } // name

// Kinds of operations.
const (
	made = iota // a name of a new file or folder
	linked
	renamed
	removed
	wrote
	truncated
	synced
	syncedDir
)

// operation is one call.
type operation struct {
	kind     int
	path, to string // below the folder; to of renamed and linked
	node     *inode // nil for a folder
	at       int64  // of wrote; the length of truncated
	data     []byte
}

// Recorder is a disk.System that passes all calls on to the operating system and records their order.
type Recorder struct {
	disk.Host
	root  string
	mu    sync.Mutex
	start names
	begin names              // root, and folders that other programs made meanwhile
	was   map[*inode]content // at the begin
	now   names
	ops   []operation
}

// Record starts recording what happens below an existing folder. disk.Use ends it.
func Record(root string) (*Recorder, error) {
	r := &Recorder{root: filepath.Clean(root), was: map[*inode]content{},
		begin: names{map[string]*inode{}, map[string]bool{".": true}}}
	err := filepath.WalkDir(r.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := r.below(path)
		if e.IsDir() {
			r.begin.dirs[name] = true
			return nil
		}
		b, err := os.ReadFile(path)
		n := &inode{name}
		r.begin.files[name], r.was[n] = n, content{lasting: b, all: b}
		return err
	})
	r.start, r.now = r.begin.clone(), r.begin.clone()
	return r, err
}

// Start returns the state at the start of the recording.
func (r *Recorder) Start() State {
	names := r.start.clone()
	return State{how: "the beginning", fate: fates[0], names: names, visible: names.visible(), files: r.was}
}

// below returns a path relative to the folder.
func (r *Recorder) below(path string) (string, bool) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", false
	}
	name, err := filepath.Rel(r.root, abs)
	return name, err == nil && name != ".." && !strings.HasPrefix(name, ".."+string(filepath.Separator))
}

// add records an operation on names. A folder that another program made counts as durable.
func (r *Recorder) add(o operation) {
	for dir := filepath.Dir(o.path); !r.now.dirs[dir]; dir = filepath.Dir(dir) {
		r.begin.dirs[dir], r.now.dirs[dir] = true, true
	}
	r.ops = append(r.ops, o)
	r.now.apply(o)
}

// Ops returns the number of operations recorded so far.
func (r *Recorder) Ops() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ops)
}

// Create, Open, Rename, Link, Remove, Mkdir and SyncDir implement disk.System.
func (r *Recorder) Create(path string) (disk.File, error) { return r.open(path, r.Host.Create) }

func (r *Recorder) Open(path string) (disk.File, error) { return r.open(path, r.Host.Open) }

func (r *Recorder) open(path string, how func(string) (disk.File, error)) (disk.File, error) {
	name, ok := r.below(path)
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := how(path)
	if err != nil || !ok {
		return f, err
	}
	n := r.now.files[name]
	if n == nil {
		n = &inode{name}
		r.add(operation{kind: made, path: name, node: n})
	}
	return &file{File: f, r: r, node: n}, nil
}

func (r *Recorder) Rename(from, to string) error {
	return r.named(operation{kind: renamed, path: from, to: to}, func() error { return r.Host.Rename(from, to) })
}

func (r *Recorder) Link(from, to string) error {
	return r.named(operation{kind: linked, path: from, to: to}, func() error { return r.Host.Link(from, to) })
}

func (r *Recorder) Remove(path string) error {
	return r.named(operation{kind: removed, path: path}, func() error { return r.Host.Remove(path) })
}

func (r *Recorder) Mkdir(path string) error {
	return r.named(operation{kind: made, path: path}, func() error { return r.Host.Mkdir(path) })
}

func (r *Recorder) SyncDir(dir string) error {
	return r.named(operation{kind: syncedDir, path: dir}, func() error { return r.Host.SyncDir(dir) })
}

// named executes and records an operation on names.
func (r *Recorder) named(o operation, do func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := do(); err != nil {
		return err
	}
	var ok bool
	if o.path, ok = r.below(o.path); !ok {
		return nil
	}
	if o.to != "" {
		if o.to, ok = r.below(o.to); !ok {
			return nil
		}
	}
	o.node = r.now.files[o.path]
	r.add(o)
	return nil
}

// file is an open file.
type file struct {
	disk.File
	r    *Recorder
	node *inode
}

func (f *file) keep(o operation) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	o.node = f.node
	f.r.ops = append(f.r.ops, o)
}

// Write, WriteAt, Truncate and Sync implement disk.File.
func (f *file) Write(b []byte) (int, error) {
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	n, err := f.File.Write(b)
	f.keep(operation{kind: wrote, at: at, data: bytes.Clone(b[:n])})
	return n, err
}

func (f *file) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b, at)
	f.keep(operation{kind: wrote, at: at, data: bytes.Clone(b[:n])})
	return n, err
}

func (f *file) Truncate(size int64) error {
	err := f.File.Truncate(size)
	if err == nil {
		f.keep(operation{kind: truncated, at: size})
	}
	return err
}

func (f *file) Sync() error {
	err := f.File.Sync()
	if err == nil {
		f.keep(operation{kind: synced})
	}
	return err
}
