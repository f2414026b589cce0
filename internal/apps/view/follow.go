package view

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"vsetrain/internal/apps/report"
	"vsetrain/internal/files/regular"
)

// Limits of a metrics file: the length of one line, and of what is read of the file.
const (
	maxLine    = 1 << 20
	maxMetrics = 1 << 30
	markBytes  = 64
)

// follower reads a metrics.jsonl while it is written: each call of read takes the new lines. A resumed run truncates
// the file. Then the last bytes that were read are missing, and read starts again at the beginning.
type follower struct {
	path string
	report.Log
	offset int64  // of the first byte not yet read as a whole line
	lines  int    // read so far
	mark   []byte // the last bytes before offset
}

// read updates the records. A missing file counts as empty; an incomplete last line is left for the next call.
func (f *follower) read() error {
	file, size, err := regular.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		*f = follower{path: f.path}
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if size > maxMetrics {
		return fmt.Errorf("%s: %d bytes; expected at most %d", f.path, size, maxMetrics)
	}
	if !f.continues(file, size) {
		*f = follower{path: f.path}
	}
	if size == f.offset {
		return nil
	}
	return f.take(io.NewSectionReader(file, f.offset, size-f.offset))
}

// continues reports whether the file still begins with what was read of it.
func (f *follower) continues(file *os.File, size int64) bool {
	if size < f.offset {
		return false
	}
	now := make([]byte, len(f.mark))
	_, err := file.ReadAt(now, f.offset-int64(len(now)))
	return err == nil && bytes.Equal(now, f.mark)
}

func (f *follower) take(r io.Reader) error {
	lines := bufio.NewReaderSize(r, 1<<16)
	var long []byte // the beginning of a line that is longer than the buffer
	for {
		part, err := lines.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			if long = append(long, part...); len(long) > maxLine {
				return fmt.Errorf("%s:%d: a line of more than %d bytes", f.path, f.lines+1, maxLine)
			}
			continue
		}
		if err == io.EOF {
			return nil // an incomplete line is read when it is complete
		}
		if err != nil {
			return err
		}
		line := part
		if len(long) > 0 {
			line = append(long, part...)
			long = nil
		}
		if err := f.Add(line); err != nil {
			return fmt.Errorf("%s:%d: %w", f.path, f.lines+1, err)
		}
		f.lines++
		f.offset += int64(len(line))
		f.mark = append(f.mark[:0], line[max(0, len(line)-markBytes):]...)
	}
}
