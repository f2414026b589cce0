// Package pickle reads Python pickles, protocols 0 to 5, without executing anything, and writes protocol 2.
//
// A pickle is a program for a small stack machine; Python's own loader lets it import and call any function. This
// reader builds only data: it looks up every name that a pickle mentions (opcode GLOBAL) in a table that the caller
// supplies, whose entries are Go functions that build plain values. Any other name is an error or, with
// Options.Instances, a class whose instances have attributes and no methods. This is enough for PyTorch checkpoints,
// the vocabulary pickles of VSE++ and NumPy object arrays.
//
// Python values become these Go values: None nil, bool bool, int int64 (or *big.Int), float float64, str string, bytes
// Bytes, tuple Tuple, list *List, dict *Dict, set *Set, instances of plain classes *Object, NumPy arrays *Array, NumPy
// scalars int64, float64, bool or string. Byte strings of Python 2 become string if they are valid UTF-8, otherwise
// Bytes: see Text.
//
// Source: pickletools.py of CPython describes every opcode.
//
// Why not nlpodyssey/gopickle: it allocates the sizes that a file claims without a check, converts arrays element by
// element, and does not write.
package pickle

import (
	"bufio"
	"fmt"
	"io"
	"maps"
)

// Limits of what a hostile or corrupt pickle can cost.
const (
	maxBytes  = 256 << 20 // of input
	maxValues = 4 << 20   // objects created, memo entries
	maxDepth  = 200       // of nesting
)

// Options say what a pickle may mention. The zero value allows plain data only.
type Options struct {
	Globals    Globals                   // allowed names
	Instances  bool                      // also instances of any other class, as *Object; see anyClass
	Persistent func(id any) (any, error) // resolves persistent ids (PyTorch's storages); nil: none allowed
}

// Class is the meaning of an allowed name.
type Class struct {
	Name string                        // "module.name", filled in by the reader
	Call func(args Tuple) (any, error) // the name called with args; nil: it may only be mentioned
	New  func(args Tuple) (any, error) // a new instance; nil: there are none
}

// Globals is an allow-list: the key is "module.name".
type Globals map[string]Class

// Merge returns a table with the entries of all tables; later ones win.
func Merge(tables ...Globals) Globals {
	m := Globals{}
	for _, t := range tables {
		maps.Copy(m, t)
	}
	return m
}

// builder is implemented by values that accept a state (opcode BUILD), like __setstate__ in Python.
type builder interface{ buildState(state any) error }

// Decode reads one pickle from r and returns its value and size in bytes; it may read r further. The value has no
// cycles and is nested at most 200 deep.
func Decode(r io.Reader, o Options) (value any, size int64, err error) {
	m := &machine{in: input{r: bufio.NewReader(r)}, o: o, memo: map[uint64]any{}, classes: map[string]*Class{}}
	if err = catch(func() { value = m.run() }); err != nil {
		return nil, m.in.n, fmt.Errorf("pickle, byte %d: %w", m.at, err)
	}
	if err := checkTree(value); err != nil {
		return nil, m.in.n, fmt.Errorf("pickle: %w", err)
	}
	return value, m.in.n, nil
}
