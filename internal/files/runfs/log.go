package runfs

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"path/filepath"
	"slices"
	"sync"

	"vsetrain/internal/files/disk"
	"vsetrain/internal/files/regular"
)

// Log is a file of JSON objects, one per line, that only grows.
type Log struct {
	path  string
	f     disk.File
	end   int64     // length up to which every line is whole
	lines int       // up to end
	sum   hash.Hash // SHA-256 up to end
	buf   bytes.Buffer
}

// Counted is what a checkpoint knows of a log: the lines that it had when the checkpoint was written.
type Counted struct {
	Lines  int    `json:"log_lines,omitempty"`  // 0 is unknown
	SHA256 string `json:"log_sha256,omitempty"` // of these lines; "" is unknown
}

// All as a number of lines means every line of a log.
const All = math.MaxInt

// maxLine bounds a line in bytes; a step takes about one kilobyte.
const maxLine = 1 << 20

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, maxLine) }} // of scan

// OpenLog opens or creates a log whose first lines, counted of them, are known to be on disk. After those it cuts off
// everything from the first broken line on, because after a power failure any block may be missing. Of the counted
// lines only the last may be broken; for another one the error names the line.
func OpenLog(path string, counted int) (*Log, error) {
	if err := regular.Check(path); err != nil {
		return nil, wrap("open", path, err)
	}
	f, err := disk.Now().Open(path)
	if err != nil {
		return nil, wrap("open", path, err)
	}
	l := &Log{path: path, f: f}
	err = l.truncate(counted, func([]byte, int) (bool, error) { return true, nil })
	if err == nil {
		err = wrap("create", path, disk.Now().SyncDir(filepath.Dir(path)))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

// scan calls accept with every whole line of a log and its number until it returns false. It returns length and number
// of the accepted lines. A line is valid during the call.
func scan(path string, f io.Reader, counted int, accept func(line []byte, number int) (bool, error)) (n int64,
	lines int, err error) {
	r := readers.Get().(*bufio.Reader)
	defer readers.Put(r)
	r.Reset(f)
	broken := 0
	for number := 1; ; number++ {
		line, err := r.ReadSlice('\n')
		whole := err == nil && json.Valid(line)
		for err == bufio.ErrBufferFull { // to see whether there is a line after it
			_, err = r.ReadSlice('\n')
		}
		if err == io.EOF {
			return n, lines, nil // what follows the last newline is a torn line
		}
		if err != nil {
			return 0, 0, wrap("read", path, err)
		}
		if broken > 0 {
			return 0, 0, fmt.Errorf("%s:%d: expected a JSON object of at most %d bytes, found a broken line before "+
				"the last one; repair or remove the line", path, broken, maxLine)
		}
		if !whole {
			if number > counted {
				return n, lines, nil
			}
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

// ReadLog calls visit with every whole line of a log until it returns false, and returns how many lines visit accepted.
// A line is valid during the call. See OpenLog for counted. If there is no file the error is fs.ErrNotExist.
func ReadLog(path string, counted int, visit func(line []byte, number int) (bool, error)) (lines int, err error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return 0, wrap("open", path, err)
	}
	defer f.Close()
	_, lines, err = scan(path, f, counted, visit)
	return lines, err
}

// truncate removes everything from the first line on that accept rejects.
func (l *Log) truncate(counted int, accept func(line []byte, number int) (bool, error)) error {
	if _, err := l.f.Seek(0, io.SeekStart); err != nil {
		return wrap("read", l.path, err)
	}
	sum := sha256.New()
	accepted, lines, err := scan(l.path, l.f, counted, func(line []byte, number int) (bool, error) {
		ok, err := accept(line, number)
		if ok {
			sum.Write(line)
		}
		return ok, err
	})
	if err == nil {
		err = l.cut(accepted)
	}
	if err == nil {
		l.lines, l.sum = lines, sum
	}
	return err
}

// Counted returns the number and checksum of the lines.
func (l *Log) Counted() Counted {
	return Counted{l.lines, hex.EncodeToString(l.sum.Sum(nil))}
}

// Check compares the first lines of a log with c, as far as c is known. It returns how many lines accept accepts.
func (c Counted) Check(path string, accept func(line []byte, number int) (bool, error)) (lines int, err error) {
	counted := cmp.Or(c.Lines, All)
	sum := sha256.New()
	lines, err = ReadLog(path, counted, func(line []byte, number int) (bool, error) {
		if number <= c.Lines {
			sum.Write(line)
		}
		return accept(line, number)
	})
	if err == nil && c.SHA256 != "" && lines >= c.Lines && hex.EncodeToString(sum.Sum(nil)) != c.SHA256 {
		err = fmt.Errorf("%s: the first %d lines differ from the log at the last checkpoint: the file is damaged or "+
			"was changed; bring back the whole file, or remove it to go on without the curves so far",
			path, c.Lines)
	}
	return lines, err
}

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

// Append writes v as one line. NaN and infinities are errors, because JSON has none. After a failed write the log ends
// with the line before.
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
	l.sum.Write(l.buf.Bytes())
	return nil
}

// TruncateAfter removes everything from the first line on whose "step" is larger than step, so that a run that resumes
// at that step writes each line once. A line at step itself is removed too if its "kind" is one of undone, which the
// resumed run will write again. Lines without a step stay.
func (l *Log) TruncateAfter(step int64, undone ...string) error {
	return l.truncate(All, UpTo(l.path, step, undone...))
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

// Sync makes all lines durable.
func (l *Log) Sync() error { return wrap("sync", l.path, l.f.Sync()) }

// Close syncs and closes the log.
func (l *Log) Close() error {
	return wrap("close", l.path, cmp.Or(l.f.Sync(), l.f.Close()))
}
