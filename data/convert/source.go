package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// source is one file; at is nil for a stream.
type source struct {
	name  string
	r     io.Reader
	at    io.ReaderAt
	bytes int64
	begin []byte // first bytes of a stream, at most surveyed
	form
}

// form is what holds for all records of a source.
type form struct {
	columns columns
	size    int // bytes of a value of the features; 0 where no record could be read
	dim     int // values of a region; 0 where no record could be read
	boxSize int // bytes of a value of the boxes; 0 where no record could be read
}

// surveyed is the number of bytes from which the form of a source is determined.
const surveyed = 8 << 20

// survey calls visit for the records at the beginning of a source, cut into fields, until it returns false. It skips
// records that cannot be read; scan reports them.
func (s *source) survey(visit func(n int, r *recordReader, rec []byte, fields [][]byte) bool) {
	in := io.Reader(bytes.NewReader(s.begin))
	if s.at != nil {
		in = io.NewSectionReader(s.at, 0, s.bytes)
	}
	r := newRecordReader(in)
	var fields [][]byte
	for n := 0; r.end < surveyed; n++ {
		rec, err := r.read()
		if err != nil {
			return
		}
		rec = bytes.TrimPrefix(rec, byteOrderMark)
		if fields, err = splitFields(bytes.Clone(rec), fields); err == nil && !visit(n, r, rec, fields) {
			return
		}
	}
}

// findColumns finds the columns: the columns that a header names, or the columns of the known set that fits a record.
// If there are none, unknown is the error.
func (s *source) findColumns() (unknown, err error) {
	s.survey(func(n int, r *recordReader, rec []byte, fields [][]byte) bool {
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
	return unknown, err
}

// findType finds the type and number of the values of a region, and the type of boxes. If records differ, most records
// decide.
func (s *source) findType(o *Options) error {
	type widths struct{ width, boxSize int } // bytes of the features of a region, and of a value of the boxes
	type group struct {
		records int
		words   wordStats
	}
	forms, most, p := map[widths]*group{}, widths{}, parser{form: s.form}
	s.survey(func(_ int, _ *recordReader, rec []byte, fields [][]byte) bool {
		p.fields, p.boxSize = fields, 0
		if len(fields) != p.columns.fields || string(rec) == p.columns.header || p.decode() != nil {
			return true
		}
		f := widths{len(p.raw) / p.it.regions, p.boxSize}
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
	if s.dim, s.size = o.Dim, valueSizes[o.SourceType]; most.width == 0 {
		return nil
	}
	var err error
	if s.size, err = o.choose(most.width, &forms[most].words); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	s.dim, s.boxSize = most.width/s.size, most.boxSize
	return nil
}

var byteOrderMark = []byte("\ufeff")

// read returns the image of a record of a source.
func (p *parser) read(s *source, rec []byte) (*item, error) {
	p.form = s.form
	if _, err := p.begin(rec); err != nil {
		return nil, err
	}
	return p.item()
}

// scan calls visit for every record of a source except headers, which concatenated parts repeat. It reports the bytes
// read from time to time.
func (s *source) scan(p *parser, report func(read int64), visit func(r *recordReader, rec []byte) error) error {
	r := newRecordReader(s.r)
	p.form = s.form
	for n := 0; ; n++ {
		rec, err := r.read()
		if errors.Is(err, io.EOF) {
			report(r.end)
			return nil
		}
		if err == nil && (s.columns.header == "" || string(bytes.TrimPrefix(rec, byteOrderMark)) != s.columns.header) {
			err = visit(r, rec)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", s.name, r.line, err)
		}
		if n%64 == 0 {
			report(r.end)
		}
	}
}
