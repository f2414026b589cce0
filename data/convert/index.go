package convert

import (
	"errors"
	"fmt"
	"hash/maphash"
)

// index notes where every image lies in the source, about a hundred bytes each.
type index struct {
	seed      maphash.Seed
	entries   map[string]entry
	others    map[string][]entry // records of images that have an entry, with other content
	order     []string           // of others, by their first one
	keepFirst bool
}

// entry is the place of one record; file is -1 while it has not been found.
type entry struct {
	file, line, length int32
	offset             int64
	hash               uint64
}

func newIndex(keepFirst bool) *index {
	return &index{seed: maphash.MakeSeed(), entries: map[string]entry{}, others: map[string][]entry{},
		keepFirst: keepFirst}
}

func (x *index) have(id string) bool {
	e, ok := x.entries[id]
	return ok && e.file >= 0
}

// repeated notes that a record of an image that has one is left out: it is the same, or broken.
func (x *index) repeated(rep *Report, id string, e entry, sources []source, broken error) {
	old, why := x.entries[id], "the same byte by byte"
	if broken != nil {
		why = broken.Error()
	}
	rep.Duplicates = append(rep.Duplicates, Duplicate{id, old.where(sources), e.where(sources), why})
}

// conflict is what happens to a whole record of an image that has another one: it is left out where the first is to be
// kept, and an error otherwise.
func (x *index) conflict(rep *Report, id string, e entry, sources []source) error {
	old := x.entries[id]
	if !x.keepFirst {
		return fmt.Errorf("image %s was at %s already, with other content; remove one of them or keep the first with "+
			"--keep-first", id, old.where(sources))
	}
	x.repeated(rep, id, e, sources, errors.New("with other content"))
	return nil
}

// build scans the sources for the images that have an entry and returns the lines that are no records.
func (x *index) build(sources []source, rep *Report, progress Progress) (broken []Broken, err error) {
	var total, done int64
	for _, s := range sources {
		total += s.size
	}
	var p parser
	for i := range sources {
		err := sources[i].scan(&p, done, total, progress, func(r *recordReader, rec []byte) error {
			rep.Records++
			e := entry{file: int32(i), line: int32(r.line), length: int32(len(rec)), offset: r.offset}
			e.hash = maphash.Bytes(x.seed, rec)
			id, err := p.begin(rec)
			old, wanted := x.entries[id]
			switch {
			case err != nil:
				broken = append(broken, Broken{id, e.where(sources), err})
			case !wanted:
				rep.Unused++
			case !x.have(id):
				x.entries[id] = e
			case old.hash == e.hash:
				x.repeated(rep, id, e, sources, nil)
			default:
				if x.others[id] == nil {
					x.order = append(x.order, id)
				}
				x.others[id] = append(x.others[id], e)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		done += sources[i].size
	}
	return broken, nil
}

// resolve chooses among several records of an image the first that can be read. Another one that can, with other
// content, is a conflict.
func (x *index) resolve(sources []source, rep *Report) error {
	var p parser
	var rec []byte
	for _, id := range x.order {
		all := append([]entry{x.entries[id]}, x.others[id]...)
		faults, kept := make([]error, len(all)), -1
		for i, e := range all {
			var err error
			if rec, err = e.load(sources, rec); err != nil {
				return fmt.Errorf("%s: %w", e.where(sources), err)
			}
			if _, faults[i] = p.read(&sources[e.file], rec); faults[i] == nil && kept < 0 {
				kept, x.entries[id] = i, e
			}
		}
		for i, e := range all {
			switch {
			case kept < 0 || i == kept:
			case faults[i] != nil:
				x.repeated(rep, id, e, sources, faults[i])
			default:
				if err := x.conflict(rep, id, e, sources); err != nil {
					return fmt.Errorf("%s: %w", e.where(sources), err)
				}
			}
		}
	}
	return nil
}

// where names the record: file:line.
func (e *entry) where(sources []source) string {
	return fmt.Sprintf("%s:%d", sources[e.file].name, e.line)
}

// load reads the record into buf, grown when needed.
func (e *entry) load(sources []source, buf []byte) ([]byte, error) {
	if cap(buf) < int(e.length) {
		buf = make([]byte, e.length)
	}
	buf = buf[:e.length]
	if n, err := sources[e.file].at.ReadAt(buf, e.offset); n < len(buf) {
		return buf, fmt.Errorf("read %d bytes at %d: found %d: %w; the file changed while it was read", len(buf),
			e.offset, n, err)
	}
	return buf, nil
}
