package convert

import (
	"fmt"
	"hash/maphash"
)

// index notes where every image lies in the source, about a hundred bytes each.
type index struct {
	seed      maphash.Seed
	entries   map[string]entry
	keepFirst bool
}

// entry is the place of one record; file is -1 while it has not been found.
type entry struct {
	file, line, length int32
	offset             int64
	hash               uint64
}

func newIndex(keepFirst bool) *index {
	return &index{seed: maphash.MakeSeed(), entries: map[string]entry{}, keepFirst: keepFirst}
}

func (x *index) have(id string) bool {
	e, ok := x.entries[id]
	return ok && e.file >= 0
}

// put notes a record, or reports it as a duplicate, which must be skipped. Two different records of one image are an
// error unless the first is to be kept.
func (x *index) put(id string, e entry, sources []source, rep *Report) (duplicate bool, err error) {
	if !x.have(id) {
		x.entries[id] = e
		return false, nil
	}
	old := x.entries[id]
	d := Duplicate{id, old.where(sources), e.where(sources), old.hash == e.hash}
	if !d.Same && !x.keepFirst {
		return true, fmt.Errorf("image %s was at %s already, with other content; remove one of them or keep the "+
			"first with --keep-first", id, d.First)
	}
	rep.Duplicates = append(rep.Duplicates, d)
	return true, nil
}

// build scans the sources for the images that have an entry and returns the columns of each source.
func (x *index) build(sources []source, rep *Report, progress Progress) ([]columns, error) {
	var total, done int64
	for _, s := range sources {
		total += s.size
	}
	cols := make([]columns, len(sources))
	var p parser
	for i := range sources {
		err := sources[i].scan(&p, done, total, progress, func(r *recordReader, rec []byte) error {
			rep.Records++
			e := entry{file: int32(i), line: int32(r.line), length: int32(len(rec)), offset: r.offset}
			e.hash = maphash.Bytes(x.seed, rec)
			var err error
			if p.fields, err = splitFields(rec, p.fields); err != nil {
				return err
			}
			id, err := p.id(p.fields)
			if err != nil {
				return err
			}
			if _, wanted := x.entries[id]; !wanted {
				rep.Unused++
				return nil
			}
			_, err = x.put(id, e, sources, rep)
			return err
		})
		if err != nil {
			return nil, err
		}
		cols[i] = p.columns
		done += sources[i].size
	}
	return cols, nil
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
