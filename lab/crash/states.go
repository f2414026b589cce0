package crash

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/maphash"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// State is a state that a power failure may leave.
type State struct {
	After   int    // number of operations before the failure
	how     string // the names that are on disk
	fate    string // the fate of data that is not durable
	odd     *inode // a file whose data has another fate; nil if there is none
	odds    string // the fate of its data
	names   names
	visible []string // files whose folders exist
	files   map[*inode]content
}

// String describes the failure.
func (s State) String() string {
	text := fmt.Sprintf("after %d calls: %s, data %s", s.After, s.how, s.fate)
	if s.odd != nil {
		text += fmt.Sprintf(", of %s %s", s.odd.first, s.odds)
	}
	return text
}

// left returns the content of a file after the failure.
func (s State) left(n *inode) []byte {
	if n == s.odd {
		return s.files[n].left(s.odds)
	}
	return s.files[n].left(s.fate)
}

// content is the content of a file: the durable part, and everything written. The bytes are never modified.
type content struct {
	lasting, all []byte
	version      int // of all, which lasting may be
	kept         int // version of the durable part
}

// Fates of data that is not durable.
var fates = []string{"whole", "lost", "zeros", "half", "hole"}

// left returns what a fate leaves of a file.
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

// states yields each state once.
type states struct {
	seed  maphash.Seed
	seen  map[uint64]bool
	sums  map[data]uint64
	last  int // operation
	yield func(State) bool
}

// data identifies what is left of a file.
type data struct {
	node          *inode
	version, kept int
	fate          string
}

// States yields the states after each operation in order, each state once, ending with those after the last operation.
func (r *Recorder) States(yield func(State) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := &states{maphash.MakeSeed(), map[uint64]bool{}, map[data]uint64{}, len(r.ops), yield}
	contents, lasting := maps.Clone(r.was), r.begin.clone()
	var pending []operation
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
		if !all.at(i+1, lasting, pending, maps.Clone(contents)) {
			return
		}
	}
}

// at yields the states at one moment.
func (a *states) at(after int, lasting names, pending []operation, contents map[*inode]content) bool {
	for n := range len(pending) + 1 {
		how := fmt.Sprintf("%d of %d names", n, len(pending))
		if !a.named(State{After: after, how: how, names: lasting, files: contents}, pending[:n]) {
			return false
		}
	}
	if len(pending) < 2 {
		return true
	}
	for n, o := range pending {
		but := State{After: after, how: "all names but " + o.name(), names: lasting, files: contents}
		alone := State{After: after, how: "the name " + o.name() + " alone", names: lasting, files: contents}
		if !a.named(but, slices.Delete(slices.Clone(pending), n, n+1)) || !a.named(alone, pending[n:n+1]) {
			return false
		}
	}
	return true
}

// named yields the states in which some of the changes of names are on disk.
func (a *states) named(s State, changes []operation) bool {
	s.names = s.names.clone()
	for _, o := range changes {
		s.names.apply(o)
	}
	s.visible = s.names.visible()
	var unsynced []*inode
	for _, name := range s.visible {
		if n := s.names.files[name]; s.files[n].version != s.files[n].kept && !slices.Contains(unsynced, n) {
			unsynced = append(unsynced, n)
		}
	}
	for _, s.fate = range fates {
		if !a.once(s) {
			return false
		}
	}
	if len(unsynced) < 2 {
		return true
	}
	for _, s.fate = range fates[:2] {
		for _, s.odd = range unsynced {
			for _, s.odds = range fates {
				if !a.once(s) {
					return false
				}
			}
		}
	}
	return true
}

// once yields a state unless it was yielded before. After the last operation more is promised, so states are yielded
// again.
func (a *states) once(s State) bool {
	var id uint64
	if s.After == a.last {
		id = 1
	}
	for _, name := range s.visible {
		id += maphash.Comparable(a.seed, struct {
			name string
			data uint64
		}{name, a.sum(s, s.names.files[name])})
	}
	for dir := range s.names.dirs {
		if s.names.reached(dir) {
			id += maphash.Comparable(a.seed, dir)
		}
	}
	if a.seen[id] {
		return true
	}
	a.seen[id] = true
	return a.yield(s)
}

// sum is a digest of what is left of a file.
func (a *states) sum(s State, n *inode) uint64 {
	d := data{n, s.files[n].version, s.files[n].kept, s.fate}
	if n == s.odd {
		d.fate = s.odds
	}
	sum, ok := a.sums[d]
	if !ok {
		sum = maphash.Bytes(a.seed, s.left(n))
		a.sums[d] = sum
	}
	return sum
}

func (o operation) name() string { return cmp.Or(o.to, o.path) }

// names are the names of files and folders.
type names struct {
	files map[string]*inode
	dirs  map[string]bool
}

func (n names) clone() names { return names{maps.Clone(n.files), maps.Clone(n.dirs)} }

// visible returns the files whose folders exist, sorted.
func (n names) visible() (list []string) {
	for name := range n.files {
		if n.reached(filepath.Dir(name)) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// reached reports whether a folder and all folders above it exist.
func (n names) reached(dir string) bool {
	return dir == "." || n.dirs[dir] && n.reached(filepath.Dir(dir))
}

// apply executes an operation on names; other operations change nothing.
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

// move renames a file, or a folder with all that is below it.
func move[T any](names map[string]T, from, to string) {
	for _, name := range slices.Collect(maps.Keys(names)) {
		if rest, ok := strings.CutPrefix(name, from); ok && (rest == "" || rest[0] == filepath.Separator) {
			names[to+rest] = names[name]
			delete(names, name)
		}
	}
}

// Write writes the files of a state into a folder. It empties the folder first but does not replace it, because a
// process may be working in it.
func (s State) Write(dir string) error {
	entries, err := os.ReadDir(dir)
	for i := 0; err == nil && i < len(entries); i++ {
		err = os.RemoveAll(filepath.Join(dir, entries[i].Name()))
	}
	if err != nil {
		return err
	}
	for d := range s.names.dirs {
		if s.names.reached(d) {
			if err := os.MkdirAll(filepath.Join(dir, d), 0o777); err != nil {
				return err
			}
		}
	}
	for _, name := range s.visible {
		if err := os.WriteFile(filepath.Join(dir, name), s.left(s.names.files[name]), 0o666); err != nil {
			return err
		}
	}
	return nil
}
