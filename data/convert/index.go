package convert

import (
	"fmt"
	"hash/maphash"
	"slices"
)

// index notes where every image is in the sources, about a hundred bytes each.
type index struct {
	*conversion
	sources []source
	seed    maphash.Seed
	entries map[string]entry
	others  map[string][]entry // records of images that have an entry, with other content
	order   []string           // of others, by their first one
}

// entry is the place of one record; file is -1 until it is found.
type entry struct {
	file, line, length int32
	offset             int64
	hash               uint64
}

func (c *conversion) newIndex(sources []source) *index {
	return &index{conversion: c, sources: sources, seed: maphash.MakeSeed(), entries: map[string]entry{},
		others: map[string][]entry{}}
}

func (x *index) have(id string) bool {
	e, ok := x.entries[id]
	return ok && e.file >= 0
}

// where names a record: file:line.
func (x *index) where(e entry) string { return fmt.Sprintf("%s:%d", x.sources[e.file].name, e.line) }

// repeated notes that a record was left out because the image has another one, and why.
func (x *index) repeated(id, left, why string) {
	x.Duplicates = append(x.Duplicates, Duplicate{id, x.where(x.entries[id]), left, why})
}

const sameRecord = "the same byte by byte"

// conflict is what happens to a whole record of an image that has another one: it is left out if the first is to be
// kept, and an error otherwise.
func (x *index) conflict(id string, e entry) error {
	if !x.KeepFirst {
		return fmt.Errorf("image %s was at %s already, with other content; remove one of them or keep the first with "+
			"--keep-first", id, x.where(x.entries[id]))
	}
	x.repeated(id, x.where(e), "with other content")
	return nil
}

// build scans the sources for the images that have an entry, and returns the lines that are not records.
func (x *index) build() (broken []Broken, err error) {
	var total, done int64
	for _, s := range x.sources {
		total += s.bytes
	}
	var p parser
	for i := range x.sources {
		s := &x.sources[i]
		report := func(read int64) { x.progress.report("index", done+read, total) }
		err := s.scan(&p, report, func(r *recordReader, rec []byte) error {
			x.Records++
			e := entry{file: int32(i), line: int32(r.line), length: int32(len(rec)), offset: r.offset}
			e.hash = maphash.Bytes(x.seed, rec)
			id, err := p.begin(rec)
			old, wanted := x.entries[id]
			switch {
			case err != nil:
				broken = append(broken, Broken{id, x.where(e), err})
			case !wanted:
				x.Unused++
			case !x.have(id):
				x.entries[id] = e
			case old.hash == e.hash:
				x.repeated(id, x.where(e), sameRecord)
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
		done += s.bytes
	}
	return broken, nil
}

// resolve chooses among several records of an image the first that can be read. Another one that can, with other
// content, is a conflict.
func (x *index) resolve() error {
	var p parser
	for _, id := range x.order {
		all := append([]entry{x.entries[id]}, x.others[id]...)
		faults, kept := make([]error, len(all)), -1
		for i, e := range all {
			rec, err := x.load(&p, e)
			if err != nil {
				return fmt.Errorf("%s: %w", x.where(e), err)
			}
			if _, faults[i] = p.read(&x.sources[e.file], rec); faults[i] == nil && kept < 0 {
				kept, x.entries[id] = i, e
			}
		}
		for i, e := range all {
			switch {
			case kept < 0 || i == kept:
			case faults[i] != nil:
				x.repeated(id, x.where(e), faults[i].Error())
			default:
				if err := x.conflict(id, e); err != nil {
					return fmt.Errorf("%s: %w", x.where(e), err)
				}
			}
		}
	}
	return nil
}

// load reads a record into the buffer of a parser.
func (x *index) load(p *parser, e entry) ([]byte, error) {
	p.record = slices.Grow(p.record[:0], int(e.length))[:e.length]
	if n, err := x.sources[e.file].at.ReadAt(p.record, e.offset); n < len(p.record) {
		return nil, fmt.Errorf("read %d bytes at %d: found %d: %w; the file changed while it was read", e.length,
			e.offset, n, err)
	}
	return p.record, nil
}
