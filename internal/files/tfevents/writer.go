package tfevents

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/disk"
)

// Writer appends events to a file. Several goroutines may call its methods. Events are buffered: call Flush to show
// them to readers. After an error, every call returns that error.
type Writer struct {
	mu   sync.Mutex
	f    disk.File
	path string
	buf  *bufio.Writer
	rec  []byte
	err  error

	closed bool
}

// Create starts an event file in dir, which must exist. TensorBoard finds it by its name,
// events.out.tfevents.<seconds of started>.<hostname>, with a number at the end if that file exists.
func Create(dir string, started time.Time, hostname string) (*Writer, error) {
	name := filepath.Join(dir, fmt.Sprintf(Prefix+"%010d.%s", started.Unix(), cleanName(hostname)))
	for i := range 1000 {
		path := name
		if i > 0 {
			path = fmt.Sprintf("%s.%d", name, i)
		}
		f, err := disk.Now().Create(path)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, explain(path, err)
		}
		w := &Writer{f: f, path: path, buf: bufio.NewWriter(f)}
		w.add(Event{Wall: started, FileVersion: fileVersion})
		w.Flush()
		if err := w.do(func() error { return disk.Now().SyncDir(dir) }); err != nil {
			f.Close()
			return nil, err
		}
		return w, nil
	}
	return nil, fmt.Errorf("tfevents: %s and 999 numbered files exist already", name)
}

// cleanName keeps the characters of a host name that are safe in a file name.
func cleanName(host string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._", r) {
			return r
		}
		return '_'
	}, cmp.Or(host, "localhost"))
}

// Scalar appends a value of the curve tag at step.
func (w *Writer) Scalar(tag string, step int64, wall time.Time, v float32) error {
	return w.add(Event{Tag: tag, Step: step, Wall: wall, Value: v})
}

// HParams writes the settings of a run for the HPARAMS page of TensorBoard: bool, float64 or string, by name.
func (w *Writer) HParams(wall time.Time, settings map[string]any) error {
	for name, v := range settings {
		switch v.(type) {
		case bool, float64, string:
		default:
			return fmt.Errorf("tfevents: setting %s is a %T; expected a bool, float64 or string", name, v)
		}
	}
	return w.add(Event{Wall: wall, Tag: hparamsTag, HParams: settings})
}

// Start begins a session at a step: TensorBoard discards what it has read of that step and later ones
// (tensorboard/backend/event_processing/event_accumulator.py).
func (w *Writer) Start(step int64, wall time.Time) error {
	return w.add(Event{Step: step, Wall: wall, Start: true})
}

func (w *Writer) add(e Event) error {
	return w.do(func() error {
		w.rec = appendRecord(w.rec[:0], e.encode())
		_, err := w.buf.Write(w.rec)
		return err
	})
}

// do calls f, unless there was an error before, and keeps its error.
func (w *Writer) do(f func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = explain(w.path, f())
	}
	return w.err
}

// explain adds the remedy to the error of a write: events belong to a run, which can be resumed.
func explain(path string, err error) error {
	if err == nil {
		return nil
	}
	err = atomicfile.Explain("write", path, err)
	if e, ok := errors.AsType[*atomicfile.Error](err); ok && e.Kind == atomicfile.ErrDiskFull {
		e.Remedy = "free space and resume"
	}
	return fmt.Errorf("tfevents: %w", err)
}

// Flush hands all events to the operating system.
func (w *Writer) Flush() error { return w.do(w.buf.Flush) }

// Sync makes all events durable.
func (w *Writer) Sync() error {
	w.Flush()
	return w.do(w.f.Sync)
}

// Close flushes and closes the file. Later calls return an error.
func (w *Writer) Close() error {
	err := w.Flush()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		err = cmp.Or(err, explain(w.path, w.f.Close()))
		w.closed, w.err = true, cmp.Or(w.err, explain(w.path, errors.New("the writer is closed")))
	}
	return err
}
