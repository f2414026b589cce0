package convert

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
)

// source is one file; at is nil for a stream.
type source struct {
	name  string
	r     io.Reader
	at    io.ReaderAt
	size  int64
	begin []byte // of a stream

	columns   columns
	valueSize int // bytes of a value of the features; 0 where no record could be read
	dim       int // values of a region; 0 the same
	boxSize   int // bytes of a value of the boxes; 0 the same
}

// surveyed is how many bytes of a source are looked at to find out what holds for all of its records.
const surveyed = 8 << 20

// survey calls visit for the records at the beginning of a source, cut into fields, until it returns false. Those that
// cannot be read are passed over; scan will say so.
func (s *source) survey(visit func(n int, r *recordReader, rec []byte, fields [][]byte) bool) error {
	in := io.Reader(bytes.NewReader(s.begin))
	switch {
	case s.at != nil:
		in = io.NewSectionReader(s.at, 0, s.size)
	case s.begin == nil:
		var b bytes.Buffer
		if _, err := io.CopyN(&b, s.r, surveyed); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		s.begin = b.Bytes()
		s.r, in = io.MultiReader(bytes.NewReader(s.begin), s.r), bytes.NewReader(s.begin)
	}
	r := newRecordReader(in)
	var fields [][]byte
	for n := 0; r.end < surveyed; n++ {
		rec, err := r.read()
		if err != nil {
			return nil
		}
		rec = bytes.TrimPrefix(rec, byteOrderMark)
		if fields, err = splitFields(append([]byte(nil), rec...), fields); err == nil && !visit(n, r, rec, fields) {
			return nil
		}
	}
	return nil
}

// findColumns finds the columns: those that a header names, or the columns of the known set that fits a record. Where
// there are none, unknown says so.
func (s *source) findColumns() (unknown, err error) {
	failed := s.survey(func(n int, r *recordReader, rec []byte, fields [][]byte) bool {
		if n == 0 {
			var is bool
			if s.columns, is, err = header(fields); err != nil {
				err = fmt.Errorf("%s:%d: %w", s.name, r.line, err)
				return false
			}
			if is {
				s.columns.header = string(rec)
				return false
			}
		}
		c, problem := columnsOf(fields)
		if n == 0 || c.fits {
			s.columns, unknown = c, problem
		}
		if n == 0 && problem != nil {
			unknown = fmt.Errorf("%s:%d: %w", s.name, r.line, problem)
		}
		return !c.fits
	})
	return unknown, cmp.Or(err, failed)
}

// findType finds the type and number of the values of a region, and the type of boxes: where records differ, the type
// of most records.
func (s *source) findType(o *TSVOptions) error {
	type form struct{ width, boxSize int } // bytes of the features of a region, and of a value of the boxes
	type group struct {
		records int
		words   wordStats
	}
	forms, most, p := map[form]*group{}, form{}, parser{columns: s.columns}
	err := s.survey(func(_ int, _ *recordReader, rec []byte, fields [][]byte) bool {
		p.fields, p.boxSize = fields, 0
		if len(fields) != p.columns.fields || string(rec) == p.columns.header || p.decode() != nil {
			return true
		}
		f := form{len(p.raw) / p.it.regions, p.boxSize}
		if o.Dim > 0 && (f.width%o.Dim != 0 || floatTypes[f.width/o.Dim] == "") {
			return true // an error where it is read
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
		return true
	})
	if s.dim, s.valueSize = o.Dim, valueSizes[o.Source]; err != nil || most.width == 0 {
		return err
	}
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
