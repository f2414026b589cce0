// Package pickle reads Python pickles, protocols 0 to 5, without executing anything, and writes protocol 2.
//
// A pickle is a program for a small stack machine; Python's own loader lets it import and call any function. This
// reader knows only data: every name a pickle mentions (opcode GLOBAL) is looked up in a table the caller supplies,
// whose entries are Go functions that build plain values. Any other name is an error, or, where the caller asks for it,
// a class of which nothing but the attributes of its instances is known. It is enough for PyTorch checkpoints, the
// vocabulary pickles of VSE++, and NumPy object arrays.
//
// Go values of Python values: None nil, bool bool, int int64 (*big.Int beyond), float float64, str string, bytes
// Bytes, tuple Tuple, list *List, dict *Dict, set *Set, instances of plain classes *Object, NumPy arrays *Array, NumPy
// scalars int64, float64, bool or string. Byte strings of Python 2 are string where valid UTF-8, otherwise Bytes:
// see Text.
//
// Source: pickletools.py of CPython describes every opcode.
//
// Why not nlpodyssey/gopickle: it allocates what sizes in the file ask for without a check, converts arrays element by
// element, and does not write.
package pickle

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
)

// Limits bound what a hostile or corrupt pickle can cost. A zero field means its default.
type Limits struct {
	Bytes  int64 // of input; default 256 MiB
	Values int   // objects created, memo entries; default 4 million
	Depth  int   // of nesting; default 200
}

func (l Limits) withDefaults() Limits {
	l.Bytes = cmp.Or(l.Bytes, 256<<20)
	l.Values = cmp.Or(l.Values, 4<<20)
	l.Depth = cmp.Or(l.Depth, 200)
	return l
}

// Options say what a pickle may mention. The zero value allows plain data only.
type Options struct {
	Globals    Globals                   // allowed names
	Instances  bool                      // also instances of any other class, as *Object; see anyClass
	Persistent func(id any) (any, error) // resolves persistent ids (PyTorch's storages); nil: none allowed
	Limits     Limits
}

// Class is what an allowed name stands for.
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
		for name, c := range t {
			m[name] = c
		}
	}
	return m
}

// Builder is implemented by values that accept a state (opcode BUILD), as __setstate__ does in Python.
type Builder interface{ BuildState(state any) error }

// Decode reads one pickle from r and returns its value and the number of bytes it took; r may be read further
// than that. The value has no cycles and is nested at most Limits.Depth deep.
func Decode(r io.Reader, o Options) (value any, size int64, err error) {
	m := &machine{
		in:      input{r: bufio.NewReader(r)},
		o:       o,
		limits:  o.Limits.withDefaults(),
		memo:    map[uint64]any{},
		classes: map[string]*Class{},
	}
	m.in.limit = m.limits.Bytes
	if err = catch(func() { value = m.run() }); err != nil {
		return nil, m.in.n, fmt.Errorf("pickle, byte %d: %w", m.at, err)
	}
	if err := checkTree(value, m.limits); err != nil {
		return nil, m.in.n, fmt.Errorf("pickle: %w", err)
	}
	return value, m.in.n, nil
}
