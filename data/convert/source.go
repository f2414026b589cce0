package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// source is one file; at is nil for a stream.
type source struct {
	name string
	r    io.Reader
	at   io.ReaderAt
	size int64

	// What survey found.
	columns   columns
	valueSize int // bytes of a value of the features; 0 where no record could be read
	dim       int // values of a region; 0 the same
	boxSize   int // bytes of a value of the boxes; 0 the same
}

// surveyed is how many bytes of a source are looked at to find out what holds for all of its records.
const surveyed = 8 << 20

// survey finds the columns of a source, and the type and number of the values of a region, from its beginning. Records
// that cannot be read do not count, and where regions differ in size those of most records do.
func (s *source) survey(o *TSVOptions) error {
	var seen bytes.Buffer
	in := io.TeeReader(s.r, &seen)
	if s.at != nil {
		in = io.NewSectionReader(s.at, 0, s.size)
	}
	type form struct{ width, boxSize int } // bytes of the features of a region, and of a value of the boxes
	type group struct {
		records int
		words   wordStats
	}
	forms, most, unknown := map[form]*group{}, form{}, error(nil)
	r, p := newRecordReader(in), parser{}
	for n := 0; r.end < surveyed; n++ {
		rec, err := r.read()
		if err != nil {
			break // scan will say so
		}
		rec = bytes.TrimPrefix(rec, byteOrderMark)
		if p.fields, err = splitFields(append([]byte(nil), rec...), p.fields); err != nil {
			continue
		}
		if n == 0 {
			c, is, err := header(p.fields)
			if err != nil {
				return fmt.Errorf("%s:%d: %w", s.name, r.line, err)
			}
			if is {
				s.columns, s.columns.header = c, string(rec)
				continue
			}
		}
		if s.columns.header == "" && !s.columns.fits {
			if c, err := columnsOf(p.fields); n == 0 || c.fits {
				s.columns, unknown = c, err
			}
			if unknown != nil {
				unknown = fmt.Errorf("%s:%d: %w", s.name, r.line, unknown)
			}
		}
		p.columns, p.boxSize = s.columns, 0
		if p.columns.fields != len(p.fields) || p.decode() != nil {
			continue
		}
		f := form{len(p.raw) / p.it.regions, p.boxSize}
		if o.Dim > 0 && (f.width%o.Dim != 0 || floatTypes[f.width/o.Dim] == "") {
			continue // an error where it is read
		}
		if forms[f] == nil {
			forms[f] = &group{}
		}
		if forms[f].records++; most.width == 0 || forms[f].records > forms[most].records {
			most = f
		}
		for i := 0; i < len(p.raw); i += f.width {
			forms[f].words.add(p.raw[i : i+f.width])
		}
	}
	if s.at == nil {
		s.r = io.MultiReader(&seen, s.r)
	}
	if s.dim = o.Dim; unknown != nil || most.width == 0 {
		s.valueSize = sizes[o.Source]
		return unknown
	}
	var err error
	if s.valueSize, err = o.choose(most.width, &forms[most].words); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	s.dim, s.boxSize = most.width/s.valueSize, most.boxSize
	return nil
}

var byteOrderMark = []byte("\ufeff")

// read returns the image of a record of a source.
func (p *parser) read(s *source, rec []byte) (*item, error) {
	p.of(s)
	id, err := p.begin(rec)
	if err != nil {
		return nil, err
	}
	return p.item(id)
}

// of makes a parser ready for the records of a source.
func (p *parser) of(s *source) {
	p.columns, p.size, p.dim, p.boxSize = s.columns, s.valueSize, s.dim, s.boxSize
}

// scan calls visit for every record of a source that is not a header, which parts that were put together may repeat.
func (s *source) scan(p *parser, done, total int64, progress Progress,
	visit func(r *recordReader, rec []byte) error) error {
	r := newRecordReader(s.r)
	p.of(s)
	for n := 0; ; n++ {
		rec, err := r.read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && (s.columns.header == "" || string(bytes.TrimPrefix(rec, byteOrderMark)) != s.columns.header) {
			err = visit(r, rec)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", s.name, r.line, err)
		}
		if n%64 == 0 {
			progress.report("index", done+r.end, total)
		}
	}
	progress.report("index", done+r.end, total)
	return nil
}
