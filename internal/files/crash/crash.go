// Package crash makes the states in which a power failure may leave files. A Recorder keeps what a program does to the
// files below a folder; States tells what a file system may have of that on disk at each moment.
//
// The model is that of ALICE (Pillai et al., All File Systems Are Not Created Equal, OSDI 2014). What is written to a
// file is lasting after its Sync. Before, a failure may leave all of it, nothing, zeros in its place, its first half,
// or all but a block of zeros. A name that is made, changed or removed is lasting after SyncDir of its folder. Before,
// a failure may leave the changes up to a point, as ext4 and XFS do, or, as POSIX allows, all but one or one alone.
package crash

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"vsetrain/internal/files/disk"
)

// inode is a file, whatever its name is.
type inode struct{ number int }

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

// Recorder is a disk.System that passes everything on to the operating system. It keeps the order of all calls.
type Recorder struct {
	disk.Host
	root  string
	mu    sync.Mutex
	begin names              // what was there, and folders that others made meanwhile
	was   map[*inode]content // at the begin
	now   names
	count int // of inodes
	ops   []operation
}

// Record begins to record what happens below a folder that exists. It ends with disk.Use.
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
		r.begin.files[name] = r.inode()
		r.was[r.begin.files[name]] = content{lasting: b, all: b}
		return err
	})
	r.now = r.begin.clone()
	return r, err
}

func (r *Recorder) inode() *inode {
	r.count++
	return &inode{r.count}
}

// below returns a path as seen from the folder.
func (r *Recorder) below(path string) (string, bool) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", false
	}
	name, err := filepath.Rel(r.root, abs)
	return name, err == nil && name != ".." && !strings.HasPrefix(name, ".."+string(filepath.Separator))
}

// add keeps an operation on names. A folder that was made by others is lasting.
func (r *Recorder) add(o operation) {
	for dir := filepath.Dir(o.path); !r.now.dirs[dir]; dir = filepath.Dir(dir) {
		r.begin.dirs[dir], r.now.dirs[dir] = true, true
	}
	r.ops = append(r.ops, o)
	r.now.apply(o)
}

// Ops returns how many operations have been recorded.
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
		n = r.inode()
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

// named does and keeps an operation on names.
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

// move renames a file, or a folder with all that is below it.
func move[T any](names map[string]T, from, to string) {
	for _, name := range slices.Collect(maps.Keys(names)) {
		if rest, ok := strings.CutPrefix(name, from); ok && (rest == "" || rest[0] == filepath.Separator) {
			names[to+rest] = names[name]
			delete(names, name)
		}
	}
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

// State is what a power failure may leave.
type State struct {
	After int    // operations
	How   string // what of them is on disk
	fate  string // of data that is not lasting
	names names
	files map[*inode]content
}

// content is what is in a file: lasting, and with all that was written. The bytes stay as they are.
type content struct {
	lasting, all []byte
	version      int // of all, which lasting may be
	kept         int // version of lasting
}

// Fates of data that is not lasting.
var fates = []string{"whole", "lost", "zeros", "half", "hole"}

// left returns what one of the fates leaves of a file.
func (c content) left(fate string) []byte {
	grown := len(c.all) - len(c.lasting)
	switch {
	case fate == "lost":
		return c.lasting
	case fate == "whole" || grown <= 0:
		return c.all
	}
	half := len(c.lasting) + grown/2
	switch fate {
	case "zeros":
		return append(bytes.Clone(c.lasting), make([]byte, grown)...)
	case "half":
		return c.all[:half]
	}
	b := bytes.Clone(c.all) // a hole: one block is not written
	const block = 4096
	from := max(len(c.lasting), half/block*block)
	clear(b[from:min(len(b), from+block)])
	return b
}

// wrote returns the content after a write or a change of the length.
func (c content) wrote(o operation) content {
	end := int(o.at) + len(o.data)
	b := append(bytes.Clone(c.all), make([]byte, max(0, end-len(c.all)))...)
	copy(b[o.at:], o.data)
	if o.kind == truncated {
		b = b[:o.at]
	}
	return content{c.lasting, b, c.version + 1, c.kept}
}

// States returns the states after each of the operations, each once, in their order.
func (r *Recorder) States(yield func(State) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	contents, lasting := maps.Clone(r.was), r.begin.clone()
	var pending []operation
	seen := map[[sha256.Size]byte]bool{}
	for i, o := range r.ops {
		switch o.kind {
		case wrote, truncated:
			contents[o.node] = contents[o.node].wrote(o)
		case synced:
			c := contents[o.node]
			contents[o.node] = content{c.all, c.all, c.version, c.version}
		case syncedDir:
			pending = slices.DeleteFunc(pending, func(p operation) bool {
				within := filepath.Dir(p.path) == o.path || p.to != "" && filepath.Dir(p.to) == o.path
				if within {
					lasting.apply(p)
				}
				return within
			})
		default:
			pending = append(pending, o)
		}
		if !snapshots(i+1, lasting, pending, contents, seen, yield) {
			return
		}
	}
}

// snapshots yields the states at one moment that have not been seen.
func snapshots(after int, lasting names, pending []operation, contents map[*inode]content,
	seen map[[sha256.Size]byte]bool, yield func(State) bool) bool {
	contents = maps.Clone(contents)
	try := func(how string, ops []operation) bool {
		s := State{After: after, names: lasting.clone(), files: contents}
		for _, o := range ops {
			s.names.apply(o)
		}
		for _, s.fate = range fates {
			s.How = how + ", data " + s.fate
			if id := s.identity(); !seen[id] {
				seen[id] = true
				if !yield(s) {
					return false
				}
			}
		}
		return true
	}
	for n := range len(pending) + 1 {
		if !try(fmt.Sprintf("%d of %d names", n, len(pending)), pending[:n]) {
			return false
		}
	}
	if len(pending) < 2 {
		return true
	}
	for n, o := range pending {
		if !try("all names but "+o.name(), slices.Delete(slices.Clone(pending), n, n+1)) ||
			!try("the name "+o.name()+" alone", pending[n:n+1]) {
			return false
		}
	}
	return true
}

func (o operation) name() string { return cmp.Or(o.to, o.path) }

// visible returns the files whose folders are there.
func (s State) visible() (list []string) {
	for name := range s.names.files {
		if s.names.reached(filepath.Dir(name)) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// identity tells states apart.
func (s State) identity() (id [sha256.Size]byte) {
	h := sha256.New()
	for _, name := range s.visible() {
		n := s.names.files[name]
		c := s.files[n]
		fate := s.fate
		if c.version == c.kept || len(c.all) <= len(c.lasting) && fate != "lost" {
			fate = ""
		}
		kept := c.kept
		if fate == "" {
			kept = c.version
		}
		fmt.Fprintf(h, "%q %d %d %d %s\n", name, n.number, c.version, kept, fate)
	}
	for _, dir := range slices.Sorted(maps.Keys(s.names.dirs)) {
		fmt.Fprintf(h, "%q\n", dir)
	}
	h.Sum(id[:0])
	return id
}

// names are those of files and folders.
type names struct {
	files map[string]*inode
	dirs  map[string]bool
}

func (n names) clone() names { return names{maps.Clone(n.files), maps.Clone(n.dirs)} }

// reached reports whether a folder and those above it are there.
func (n names) reached(dir string) bool {
	return dir == "." || n.dirs[dir] && n.reached(filepath.Dir(dir))
}

// apply does an operation on names; others change none.
func (n names) apply(o operation) {
	switch o.kind {
	case made, linked:
		to := o.path
		if o.kind == linked {
			to = o.to
		}
		if o.node == nil {
			n.dirs[to] = true
		} else {
			n.files[to] = o.node
		}
	case removed:
		delete(n.files, o.path)
		delete(n.dirs, o.path)
	case renamed:
		if o.node != nil {
			delete(n.files, o.path)
			n.files[o.to] = o.node
			return
		}
		if n.dirs[o.path] {
			move(n.dirs, o.path, o.to)
		}
		move(n.files, o.path, o.to)
	}
}

// Write makes the files of a state in a folder, which is emptied first.
func (s State) Write(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for d := range s.names.dirs {
		if s.names.reached(d) {
			if err := os.MkdirAll(filepath.Join(dir, d), 0o777); err != nil {
				return err
			}
		}
	}
	for _, name := range s.visible() {
		if err := os.WriteFile(filepath.Join(dir, name), s.files[s.names.files[name]].left(s.fate), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// String says what happened.
func (s State) String() string { return fmt.Sprintf("after %d calls: %s", s.After, s.How) }

// Outcome is what was tried.
type Outcome struct {
	Found, Tried, Failed int
	Errors               []error // of those that are not as promised, the first few
}

// Add adds the numbers of another outcome.
func (o *Outcome) Add(p Outcome) {
	o.Found, o.Tried, o.Failed = o.Found+p.Found, o.Tried+p.Tried, o.Failed+p.Failed
}

// maxErrors bounds the errors that are kept.
const maxErrors = 5

// Try draws states by a seed, writes them to a folder and calls check, which returns an error where one is not as
// promised, until all were tried or the time is over.
func (r *Recorder) Try(dir string, seed uint64, until time.Time, check func() error) (o Outcome, err error) {
	all := slices.Collect(r.States)
	o.Found = len(all)
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, i := range rng.Perm(len(all)) {
		if o.Tried > 0 && time.Now().After(until) {
			break
		}
		if err := all[i].Write(dir); err != nil {
			return o, err
		}
		o.Tried++
		if err := check(); err != nil {
			if o.Failed++; o.Failed <= maxErrors {
				o.Errors = append(o.Errors, fmt.Errorf("%s: %w", all[i], err))
			}
		}
	}
	return o, nil
}
