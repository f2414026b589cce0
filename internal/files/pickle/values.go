package pickle

import (
	"errors"
	"fmt"
	"iter"
	"math/big"
	"unicode/utf8"
)

// Tuple is a Python tuple.
type Tuple []any

// Bytes is a Python bytes object.
type Bytes []byte

// List is a Python list.
type List struct{ Items []any }

// Set is a Python set or frozenset, in the order of the pickle.
type Set struct{ Items []any }

// Object is an instance of a class that is known by its attributes only, such as argparse.Namespace.
type Object struct {
	Class string // "module.name"
	Args  Tuple  // of the constructor, mostly empty
	Attrs Dict
}

// buildState adds attributes: a dict, or a pair (dict or None, dict or None) for classes with slots. Any other state
// becomes the attribute __state__.
func (o *Object) buildState(state any) error {
	parts := Tuple{state}
	if t, ok := state.(Tuple); ok && len(t) == 2 {
		parts = t
	}
	for _, p := range parts {
		switch d := p.(type) {
		case nil:
		case *Dict:
			o.Attrs.add(d)
		default:
			o.Attrs.Set("__state__", p)
		}
	}
	return nil
}

// ObjectClass is the table entry for a class whose instances become *Object.
func ObjectClass(name string) Class {
	return Class{New: func(args Tuple) (any, error) { return &Object{Class: name, Args: args}, nil }}
}

var errNotAllowed = errors.New("which is not on the list of what may be loaded; nothing was executed")

// anyClass is the table entry for an unknown class. An instance is data: its class and attributes. A name that is
// called with arguments may be a function, so the call is an error.
func anyClass(name string) Class {
	c := ObjectClass(name)
	c.Call = func(args Tuple) (any, error) {
		if len(args) > 0 {
			return nil, fmt.Errorf("it calls %.100q, %w", name, errNotAllowed)
		}
		return c.New(args)
	}
	return c
}

// Dict is a Python dict in insertion order. The zero value is an empty dict.
type Dict struct {
	Ordered bool  // a collections.OrderedDict
	Attrs   *Dict // attributes of the dict object (_metadata of PyTorch's state dicts), or nil
	entries []entry
	index   map[any]int // of hashable keys, once there are more than a few
}

type entry struct{ key, value any }

// indexFrom is the number of entries from which a dict keeps an index.
const indexFrom = 8

// hashable returns the key of the index for a key of the dict, or false for keys that cannot be found (tuples).
func hashable(key any) (any, bool) {
	switch k := key.(type) {
	case nil, bool, int64, float64, string, *Class:
		return k, true
	case int:
		return int64(k), true
	case Bytes:
		return [1]string{string(k)}, true
	case *big.Int:
		return [2]string{k.String()}, true
	}
	return nil, false
}

func (d *Dict) find(key any) int {
	h, ok := hashable(key)
	if !ok {
		return -1
	}
	if d.index != nil {
		if i, ok := d.index[h]; ok {
			return i
		}
		return -1
	}
	for i := range d.entries {
		if k, ok := hashable(d.entries[i].key); ok && k == h {
			return i
		}
	}
	return -1
}

// Len returns the number of entries.
func (d *Dict) Len() int { return len(d.entries) }

// Get returns the value of key. Tuples as keys are not found; iterate over All.
func (d *Dict) Get(key any) (any, bool) {
	if i := d.find(key); i >= 0 {
		return d.entries[i].value, true
	}
	return nil, false
}

// Set adds or replaces the value of key.
func (d *Dict) Set(key, value any) {
	if i := d.find(key); i >= 0 {
		d.entries[i].value = value
		return
	}
	d.entries = append(d.entries, entry{key, value})
	switch n := len(d.entries); {
	case d.index != nil:
		if h, ok := hashable(key); ok {
			d.index[h] = n - 1
		}
	case n >= indexFrom:
		d.index = make(map[any]int, 2*n)
		for i, e := range d.entries {
			if h, ok := hashable(e.key); ok {
				d.index[h] = i
			}
		}
	}
}

// add sets the entries of another dict.
func (d *Dict) add(other *Dict) {
	for k, v := range other.All() {
		d.Set(k, v)
	}
}

// All iterates over keys and values in insertion order.
func (d *Dict) All() iter.Seq2[any, any] {
	return func(yield func(any, any) bool) {
		for _, e := range d.entries {
			if !yield(e.key, e.value) {
				return
			}
		}
	}
}

// buildState sets attributes of the dict object.
func (d *Dict) buildState(state any) error {
	attrs, ok := state.(*Dict)
	if !ok {
		return fmt.Errorf("state of a dict is a %s: expected a dict", TypeName(state))
	}
	d.Attrs = attrs
	return nil
}

// Text returns a str, or a byte string of Python 2 decoded as UTF-8 where valid, otherwise as Latin-1.
func Text(v any) (string, bool) {
	switch s := v.(type) {
	case string:
		return s, true
	case Bytes:
		if utf8.Valid(s) {
			return string(s), true
		}
		return latin1(s), true
	}
	return "", false
}

// latin1 decodes Latin-1.
func latin1(b []byte) string {
	r := make([]rune, len(b))
	for i, c := range b {
		r[i] = rune(c)
	}
	return string(r)
}

// raw returns the bytes of a bytes object or a byte string of Python 2.
func raw(v any) ([]byte, bool) {
	switch s := v.(type) {
	case Bytes:
		return s, true
	case string:
		return []byte(s), true
	}
	return nil, false
}

// TypeName returns the Python name of the type of a value, for messages.
func TypeName(v any) string {
	switch o := v.(type) {
	case nil:
		return "None"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case Bytes:
		return "bytes"
	case Tuple:
		return "tuple"
	case *List:
		return "list"
	case *Dict:
		return "dict"
	case *Set:
		return "set"
	case *Object:
		return o.Class
	case *Class:
		return "class " + o.Name
	case interface{ TypeName() string }: // of a reader that makes values of its own
		return o.TypeName()
	}
	return fmt.Sprintf("%T", v)
}
