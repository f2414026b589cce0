package semantic

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unsafe"

	"vsetrain/internal/compute/par"
	"vsetrain/internal/files/regular"
)

// The references write semantic vectors as text: a line of comma-separated decimal numbers for each caption. The file
// for COCO has several gigabytes, so it is parsed while it is read, with blocks of lines in parallel.

// textBlock is the number of bytes that one task parses; a line may be longer.
const textBlock = 1 << 20

// maxLine is the largest length of a line in bytes.
const maxLine = 1 << 24

func readText(path string, threads int) (values []float32, dim int, err error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("semantic vectors: %w", err)
	}
	defer f.Close()
	pool := par.New(threads)
	defer pool.Close()
	values, dim, err = parseText(f, pool)
	if err != nil {
		err = fmt.Errorf("semantic vectors %s%w", path, err)
		return nil, 0, regular.Explain(err, path, regular.Table, regular.Text)
	}
	return values, dim, nil
}

// parseText returns the rows of a text, rounded from float64, and their length. Errors begin with ":" and, where known,
// the number of the line, to follow the name of the file.
func parseText(r io.Reader, pool *par.Pool) ([]float32, int, error) {
	in := bufio.NewReaderSize(regular.TextReader(r), 1<<18)
	p := &textParser{blocks: make([]parsed, 4*pool.Threads())}
	var out []float32
	for line, done := 1, false; !done; {
		n := 0
		for n < len(p.blocks) && !done {
			b := &p.blocks[n]
			b.text, b.values, b.lines, b.err = b.text[:0], b.values[:0], 0, nil
			var err error
			if b.text, err = readBlock(in, b.text); err != nil && err != io.EOF {
				return nil, 0, fmt.Errorf(": %w", err)
			}
			done = err == io.EOF
			if len(b.text) > 0 {
				n++
			}
		}
		if n > 0 && p.dim == 0 {
			first, _, _ := bytes.Cut(p.blocks[0].text, []byte{'\n'})
			p.dim = 1 + bytes.Count(first, []byte{','})
		}
		pool.For(n, p)
		for i := range n {
			b := &p.blocks[i]
			if b.err != nil {
				return nil, 0, fmt.Errorf(":%d: %w", line+b.lines, b.err)
			}
			line += b.lines
			out = append(out, b.values...)
		}
	}
	if len(out) == 0 {
		return nil, 0, errors.New(": the file is empty; expected a line of comma-separated numbers for each caption")
	}
	return out, p.dim, nil
}

// readBlock reads about textBlock bytes, up to the end of a line, into the memory of b.
func readBlock(in *bufio.Reader, b []byte) ([]byte, error) {
	if cap(b) < textBlock {
		b = make([]byte, 0, 2*textBlock)
	}
	n, err := io.ReadFull(in, b[:textBlock])
	b = b[:n]
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	for err == nil && b[len(b)-1] != '\n' {
		var rest []byte
		rest, err = in.ReadSlice('\n')
		b = append(b, rest...)
		if err == bufio.ErrBufferFull {
			err = nil
		}
		if len(b) > textBlock+maxLine {
			return b, fmt.Errorf("a line is longer than %d bytes; expected comma-separated numbers", maxLine)
		}
	}
	return b, err
}

type parsed struct {
	text   []byte
	values []float32
	lines  int // whole lines parsed
	err    error
}

type textParser struct {
	blocks []parsed
	dim    int
}

// Do parses one block.
func (p *textParser) Do(_, i int) {
	b := &p.blocks[i]
	for text := b.text; len(text) > 0; b.lines++ {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte{'\n'})
		if b.err = p.line(b, bytes.TrimSuffix(line, []byte{'\r'})); b.err != nil {
			return
		}
	}
}

func (p *textParser) line(b *parsed, line []byte) error {
	if n := 1 + bytes.Count(line, []byte{','}); n != p.dim {
		return fmt.Errorf("expected %d comma-separated numbers as in the first line, found %d", p.dim, n)
	}
	for i := range p.dim {
		var field []byte
		field, line, _ = bytes.Cut(line, []byte{','})
		field = bytes.TrimSpace(field)
		v, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(field), len(field)), 64)
		if err != nil || math.IsNaN(v) || math.Abs(v) > math.MaxFloat32 {
			return fmt.Errorf("column %d: expected a finite number, found %q", i+1, field[:min(len(field), 40)])
		}
		b.values = append(b.values, float32(v))
	}
	return nil
}
