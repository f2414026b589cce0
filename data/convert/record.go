package convert

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Records are the records of a tab-separated file of Python's csv module: fields are separated by tabs. A field may be
// in double quotes; inside them tabs and line ends are text, and a quote is doubled. A line ends with \n or \r\n. Lines
// with 36 x 2048 features are 400 kB long, so records are read into one growing buffer with a limit.

// maxRecord is the longest record accepted, in bytes: 36 x 2048 features take 0.4 MB, 100 x 2048 take 1.1 MB.
const maxRecord = 64 << 20

// recordReader reads one record at a time.
type recordReader struct {
	r      *bufio.Reader
	line   int   // number of the first line of the record last read, from 1
	next   int   // number of the line to read next
	offset int64 // of the record last read
	end    int64 // offset after it
	limit  int
	buf    []byte
}

func newRecordReader(r io.Reader) *recordReader {
	return &recordReader{r: bufio.NewReaderSize(r, 1<<20), next: 1, limit: maxRecord}
}

// read returns the next record that is not blank, without its line end, or io.EOF at the end of the file. The bytes are
// valid until the next call. Errors do not name the file; line is their line.
func (r *recordReader) read() ([]byte, error) {
	for {
		rec, err := r.one()
		if err != nil {
			return nil, err
		}
		if len(rec) > 0 {
			return rec, nil
		}
	}
}

func (r *recordReader) one() ([]byte, error) {
	r.line, r.offset = r.next, r.end
	r.buf = r.buf[:0]
	var q quoting
	for {
		part, err := r.r.ReadSlice('\n')
		if len(r.buf)+len(part) > r.limit {
			return nil, fmt.Errorf("record longer than %d bytes: expected one image per line", r.limit)
		}
		r.buf = append(r.buf, part...)
		r.end += int64(len(part))
		q.scan(part)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			if len(r.buf) == 0 {
				return nil, io.EOF
			}
			if q == inQuotes {
				return nil, fmt.Errorf("quoted field without its closing quote: the file is truncated")
			}
			return trimEnd(r.buf), nil
		case err != nil:
			return nil, err
		}
		r.next++
		if q != inQuotes {
			return trimEnd(r.buf), nil
		}
	}
}

// trimEnd removes the line end.
func trimEnd(b []byte) []byte {
	b = bytes.TrimSuffix(b, []byte("\n"))
	return bytes.TrimSuffix(b, []byte("\r"))
}

// quoting follows the quotes of a record, to distinguish line ends inside quotes from the end of the record.
type quoting uint8

const (
	fieldStart quoting = iota
	plain
	inQuotes
	quoteInQuotes // a quote was seen: an escape or the end
)

func (q *quoting) scan(part []byte) {
	if (*q == plain || *q == fieldStart) && bytes.IndexByte(part, '"') < 0 {
		if n := len(part); n > 0 {
			*q = plain
			if part[n-1] == '\t' {
				*q = fieldStart
			}
		}
		return
	}
	for _, c := range part {
		switch {
		case *q == inQuotes:
			if c == '"' {
				*q = quoteInQuotes
			}
		case *q == quoteInQuotes && c == '"', *q == fieldStart && c == '"':
			*q = inQuotes
		case c == '\t':
			*q = fieldStart
		default:
			*q = plain
		}
	}
}

// splitFields splits a record into fields, which alias it; quoted fields are unescaped in place.
func splitFields(rec []byte, fields [][]byte) ([][]byte, error) {
	fields = fields[:0]
	for {
		if len(rec) == 0 || rec[0] != '"' {
			i := bytes.IndexByte(rec, '\t')
			if i < 0 {
				return append(fields, rec), nil
			}
			fields = append(fields, rec[:i])
			rec = rec[i+1:]
			continue
		}
		out, i := 0, 1
		for ; ; i++ {
			if i == len(rec) {
				return nil, fmt.Errorf("field %d: opening quote without a closing one", len(fields)+1)
			}
			if rec[i] == '"' {
				if i+1 == len(rec) || rec[i+1] != '"' {
					break
				}
				i++
			}
			rec[out] = rec[i]
			out++
		}
		fields = append(fields, rec[:out])
		rec = rec[i+1:]
		if len(rec) == 0 {
			return fields, nil
		}
		if rec[0] != '\t' {
			return nil, fmt.Errorf("field %d: text after its closing quote", len(fields))
		}
		rec = rec[1:]
	}
}
