package tfevents

import (
	"bufio"
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

// Writer appends events to a file. Its methods may be called from several goroutines. Events are buffered: call Flush
// after what a reader should see. A write error stays and is returned by every later call.
type Writer struct {
	mu   sync.Mutex
	f    disk.File
	path string
	buf  *bufio.Writer
	rec  []byte
	err  error
}

// Create starts an event file in dir, which must exist. TensorBoard finds it by its name,
// events.out.tfevents.<seconds of started>.<hostname>; a number is appended when that file exists already.
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
		if err := w.add(Event{Wall: started, FileVersion: fileVersion}); err != nil {
			f.Close()
			return nil, err
		}
		if err := w.Flush(); err != nil {
			f.Close()
			return nil, err
		}
		if err := disk.Now().SyncDir(dir); err != nil {
			f.Close()
			return nil, explain(path, err)
		}
		return w, nil
	}
	return nil, fmt.Errorf("tfevents: %s and 999 numbered files exist already", name)
}

// cleanName keeps the characters of a host name that are safe in a file name.
func cleanName(host string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._", r) {
			return r
		}
		return '_'
	}, host)
	if clean == "" {
		return "localhost"
	}
	return clean
}

// Scalar appends a value of the curve tag at step.
func (w *Writer) Scalar(tag string, step int64, wall time.Time, v float32) error {
	return w.add(Event{Tag: tag, Step: step, Wall: wall, Value: v})
}

// HParams writes the settings of a run, bool, float64 or string by name, for the HPARAMS page of TensorBoard.
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

// Start says that a session begins whose first step is the given one: a TensorBoard that has read more of an earlier
// session forgets what it knows of that step and the later ones
// (tensorboard/backend/event_processing/event_accumulator.py).
func (w *Writer) Start(step int64, wall time.Time) error {
	return w.add(Event{Step: step, Wall: wall, Start: true})
}

func (w *Writer) add(e Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.rec = appendRecord(w.rec[:0], e.encode())
		_, err := w.buf.Write(w.rec)
		w.setError(err)
	}
	return w.err
}

// explain says what a failed write needs: events belong to a run, which can be resumed.
func explain(path string, err error) error {
	err = atomicfile.Explain("write", path, err)
	if e, ok := errors.AsType[*atomicfile.Error](err); ok && e.Kind == atomicfile.ErrDiskFull {
		e.Remedy = "free space and resume"
	}
	return fmt.Errorf("tfevents: %w", err)
}

// setError remembers the first error.
func (w *Writer) setError(err error) {
	if w.err == nil && err != nil {
		w.err = explain(w.path, err)
	}
}

// Flush hands all events to the operating system.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.setError(w.buf.Flush())
	}
	return w.err
}

// Sync makes everything appended durable.
func (w *Writer) Sync() error {
	err := w.Flush()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.setError(w.f.Sync())
		err = w.err
	}
	return err
}

// Close flushes and closes the file. Calls after it fail.
func (w *Writer) Close() error {
	err := w.Flush()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.f == nil {
		return err
	}
	closeErr := w.f.Close()
	w.f = nil
	w.setError(errors.New("the writer is closed"))
	if err == nil && closeErr != nil {
		err = explain(w.path, closeErr)
	}
	return err
}
