package runfs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"vsetrain/internal/regular"
)

// Log is a file of JSON objects, one a line, that is only appended to.
type Log struct {
	path  string
	f     *os.File
	end   int64 // length up to which every line is whole
	lines int   // up to end
	buf   bytes.Buffer
}

// OpenLog opens or creates a log. A last line that a kill or power failure left unfinished is cut off; a broken line
// before the last one is an error that names it.
func OpenLog(path string) (*Log, error) {
	if err := regular.Check(path); err != nil {
		return nil, wrap("open", path, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, wrap("open", path, err)
	}
	l := &Log{path: path, f: f}
	err = l.truncate(func([]byte, int) (bool, error) { return true, nil })
	if err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

// scan calls accept with every whole line of a log and its number until it returns false, and returns length and number
// of the lines that were accepted.
func scan(path string, f io.Reader, accept func(line []byte, number int) (bool, error)) (n int64, lines int,
	err error) {
	r := bufio.NewReaderSize(f, 1<<16)
	broken := 0
	for number := 1; ; number++ {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return n, lines, nil // what follows the last newline is a torn line
		}
		if err != nil {
			return 0, 0, wrap("read", path, err)
		}
		if broken > 0 {
			return 0, 0, fmt.Errorf("%s:%d: expected a JSON object, found a broken line before the last one; "+
				"repair or remove the line", path, broken)
		}
		if !json.Valid(line) {
			broken = number // forgiven if it is the last: a power failure may leave blocks of zeros
			continue
		}
		if ok, err := accept(line, number); err != nil || !ok {
			return n, lines, err
		}
		n += int64(len(line))
		lines++
	}
}

// ReadLog calls visit with every whole line of a log until it returns false, and returns how many lines it accepted.
// The file is not changed; if there is none the error is fs.ErrNotExist.
func ReadLog(path string, visit func(line []byte, number int) (bool, error)) (lines int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, wrap("open", path, err)
	}
	defer f.Close()
	_, lines, err = scan(path, f, visit)
	return lines, err
}

// truncate removes everything from the first line on that accept rejects.
func (l *Log) truncate(accept func(line []byte, number int) (bool, error)) error {
	if _, err := l.f.Seek(0, io.SeekStart); err != nil {
		return wrap("read", l.path, err)
	}
	accepted, lines, err := scan(l.path, l.f, accept)
	if err == nil {
		err = l.cut(accepted)
	}
	if err == nil {
		l.lines = lines
	}
	return err
}

// Lines returns the number of lines.
func (l *Log) Lines() int { return l.lines }

// cut shortens the file to n bytes and continues there.
func (l *Log) cut(n int64) error {
	info, err := l.f.Stat()
	if err == nil && info.Size() > n {
		if err = l.f.Truncate(n); err == nil {
			err = l.f.Sync()
		}
	}
	if err != nil {
		return wrap("repair", l.path, err)
	}
	l.end = n
	return nil
}

// Append writes v as one line. NaN and infinities have no JSON and are an error, so the caller names them otherwise.
// After a failed write the log ends with the line before.
func (l *Log) Append(v any) error {
	l.buf.Reset()
	if err := json.NewEncoder(&l.buf).Encode(v); err != nil {
		return wrap("append to", l.path, err)
	}
	n, err := l.f.WriteAt(l.buf.Bytes(), l.end)
	if err != nil {
		return errors.Join(wrap("append to", l.path, err), l.cut(l.end))
	}
	l.end += int64(n)
	l.lines++
	return nil
}

// TruncateAfter removes everything from the first line on whose "step" is larger than step, so that a run resumed at
// that step writes each line once. Lines at step itself go too when their "kind" is one of undone: what the resumed run
// will do at that step. Lines without a step stay.
func (l *Log) TruncateAfter(step int64, undone ...string) error {
	return l.truncate(UpTo(l.path, step, undone...))
}

// UpTo returns a function for ReadLog that accepts the lines that TruncateAfter leaves.
func UpTo(path string, step int64, undone ...string) func(line []byte, number int) (bool, error) {
	return func(line []byte, number int) (bool, error) {
		var at struct {
			Step *int64 `json:"step"`
			Kind string `json:"kind"`
		}
		if err := json.Unmarshal(line, &at); err != nil {
			return false, fmt.Errorf("%s:%d: expected an object with a whole number as step: %w", path, number, err)
		}
		return at.Step == nil || *at.Step < step || *at.Step == step && !slices.Contains(undone, at.Kind), nil
	}
}

// Sync makes everything appended durable.
func (l *Log) Sync() error { return wrap("sync", l.path, l.f.Sync()) }

// Close syncs and closes the log.
func (l *Log) Close() error {
	err := l.f.Sync()
	if closeErr := l.f.Close(); err == nil {
		err = closeErr
	}
	return wrap("close", l.path, err)
}
