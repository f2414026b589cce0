package ui

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"sync"

	"vsetrain/internal/files/atomicfile"
)

// Output is a writer that keeps its first error, so that a command can report it when it ends.
type Output struct {
	w   io.Writer
	mu  sync.Mutex
	err error
}

// NewOutput returns an Output that writes to w.
func NewOutput(w io.Writer) *Output { return &Output{w: w} }

// Write implements io.Writer.
func (o *Output) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.err = cmp.Or(o.err, err)
	}
	return n, err
}

// Err returns the first error of Write, with the name of the stream.
func (o *Output) Err(name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.err
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	return atomicfile.Explain("write", name, err)
}
