// Package jsontext reads JSON from people and other programs exactly, or refuses it. The text must be UTF-8, perhaps
// with a byte order mark, without half of a surrogate pair; an object must have each key once and in its own case. As
// in JSON Schema, a number without a fraction is a whole number, also 1.0 and 1e0. Package json replaces invalid text
// by U+FFFD, takes the last of two equal keys, and takes keys in any case.
package jsontext

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"vsetrain/internal/files/regular"
)

// UnknownKeyError is the error for a key that a struct does not have.
type UnknownKeyError struct{ Path, Key string }

func (e *UnknownKeyError) Error() string { return at(e.Path, fmt.Sprintf("unknown key %.100q", e.Key)) }

// Unmarshal reads a value like json.Unmarshal. It ignores keys that a struct does not have.
func Unmarshal(b []byte, v any) error { return unmarshal(b, v, false) }

// UnmarshalKnown is Unmarshal, except that a key that a struct does not have is an *UnknownKeyError.
func UnmarshalKnown(b []byte, v any) error { return unmarshal(b, v, true) }

func unmarshal(b []byte, v any, known bool) error {
	b, err := regular.UTF8(b)
	c := checker{line: 1}
	if err == nil {
		err = c.add(b)
	}
	if err != nil {
		return err
	}
	if !json.Valid(b) {
		return Explain(json.Unmarshal(b, new(any)), b)
	}
	w := walk{text: b, known: known}
	if err := w.value(reflect.TypeOf(v), ""); err != nil {
		return err
	}
	if w.out != nil {
		b = append(w.out, b[w.kept:]...)
	}
	return Explain(json.Unmarshal(b, v), b)
}

// ErrCut is the error for a text that ends within its value.
var ErrCut = errors.New("the JSON ends within its value")

// zeroNumber matches a number with a leading zero at the end of a text.
var zeroNumber = regexp.MustCompile(`-?0+[0-9]+$`)

// Explain rewrites an error of package json without names of Go; text is the text that was read.
func Explain(err error, text []byte) error {
	if bad, ok := errors.AsType[*json.SyntaxError](err); ok {
		end := min(int(bad.Offset), len(text))
		for end < len(text) && text[end] >= '0' && text[end] <= '9' {
			end++
		}
		if m := zeroNumber.Find(text[:end]); m != nil {
			sign, digits := "", strings.TrimLeft(string(m), "-0")
			if m[0] == '-' {
				sign = "-"
			}
			return fmt.Errorf("line %d: %s has a leading zero, which JSON does not allow; write %s%s",
				1+bytes.Count(text[:end], []byte("\n")), m, sign, cmp.Or(digits, "0"))
		}
		if strings.HasSuffix(bad.Error(), "after top-level value") {
			return errors.New("there is more after its end")
		}
		if strings.HasSuffix(bad.Error(), "end of JSON input") {
			return ErrCut
		}
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return errors.New(at(kind.Field, "a "+kind.Value+" does not fit"))
	}
	if err == nil {
		return nil
	}
	return plainError{err}
}

// plainError is an error of package json without its prefix.
type plainError struct{ error }

func (e plainError) Error() string { return strings.TrimPrefix(e.error.Error(), "json: ") }

func (e plainError) Unwrap() error { return e.error }

func at(path, text string) string {
	if path == "" {
		return text
	}
	return path + ": " + text
}

// walk compares valid JSON with the type that it is read into. If package json would read a value wrongly, out is a
// text that it reads correctly, up to byte kept of the original.
type walk struct {
	text  []byte
	i     int
	known bool
	out   []byte
	kept  int
}

// put replaces the text from a byte to the position of the walk.
func (w *walk) put(from int, text string) {
	w.out = append(append(w.out, w.text[w.kept:from]...), text...)
	w.kept = w.i
}

func (w *walk) space() {
	for w.i < len(w.text) && strings.IndexByte(" \t\r\n", w.text[w.i]) >= 0 {
		w.i++
	}
}

// scalar passes over a value and returns it, without the space before it.
func (w *walk) scalar() string {
	w.space()
	from := w.i
	w.pass()
	return string(w.text[from:w.i])
}

// pass passes over a value.
func (w *walk) pass() {
	for depth := 0; ; {
		w.space()
		switch x := w.text[w.i]; {
		case x == '{' || x == '[':
			depth++
			w.i++
		case x == '}' || x == ']':
			depth--
			w.i++
		case x == ',' || x == ':':
			w.i++
			continue
		case x == '"':
			for w.i++; w.text[w.i] != '"'; w.i++ {
				if w.text[w.i] == '\\' {
					w.i++
				}
			}
			w.i++
		default:
			for w.i < len(w.text) && strings.IndexByte(" \t\r\n,]}", w.text[w.i]) < 0 {
				w.i++
			}
		}
		if depth == 0 {
			return
		}
	}
}

var (
	readsJSON = reflect.TypeFor[json.Unmarshaler]()
	readsText = reflect.TypeFor[encoding.TextUnmarshaler]()
	isNumber  = reflect.TypeFor[json.Number]()
	isBytes   = reflect.TypeFor[[]byte]()
)

// value compares the next value with a type.
func (w *walk) value(t reflect.Type, path string) error {
	for t.Kind() == reflect.Pointer && !t.Implements(readsJSON) {
		t = t.Elem()
	}
	w.space()
	own := t.Implements(readsJSON) || reflect.PointerTo(t).Implements(readsJSON) ||
		reflect.PointerTo(t).Implements(readsText)
	if own || t.Kind() == reflect.Interface || w.text[w.i] == 'n' {
		w.pass()
		return nil
	}
	switch x := w.text[w.i]; {
	case x == '{' && t.Kind() == reflect.Struct:
		fields := fieldsOf(t)
		return w.items('}', func(int) error { return w.member(fields, path) })
	case x == '{' && t.Kind() == reflect.Map:
		return w.items('}', func(int) error {
			name := under(path, text(w.scalar()))
			w.colon()
			return w.value(t.Elem(), name)
		})
	case x == '[' && t != isBytes && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array):
		return w.items(']', func(i int) error { return w.value(t.Elem(), fmt.Sprintf("%s[%d]", path, i)) })
	case x == '"' && (t.Kind() == reflect.String || t == isBytes),
		(x == 't' || x == 'f') && t.Kind() == reflect.Bool,
		(x == '-' || x >= '0' && x <= '9') && (t == isNumber || t.Kind() == reflect.Float32 ||
			t.Kind() == reflect.Float64):
		w.pass()
		return nil
	case x == '-' || x >= '0' && x <= '9':
		switch t.Kind() {
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
			reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			return w.whole(path)
		}
	}
	found := w.scalar()
	switch {
	case found[0] == '{':
		found = "an object"
	case found[0] == '[':
		found = "a list"
	case len(found) > 60:
		found = strings.ToValidUTF8(found[:60], "") + "..."
	}
	return errors.New(at(path, fmt.Sprintf("expected %s, found %s", nameOf(t), found)))
}

// nameOf describes the JSON that is read into a type.
func nameOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		if t == isBytes {
			return "bytes in base64"
		}
		return "a list"
	case reflect.String:
		if t == isNumber {
			return "a number"
		}
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

// items calls read for each item of an object or a list, at its beginning.
func (w *walk) items(end byte, read func(i int) error) error {
	w.i++
	for i := 0; ; i++ {
		w.space()
		switch w.text[w.i] {
		case end:
			w.i++
			return nil
		case ',':
			w.i++
			w.space()
		}
		if err := read(i); err != nil {
			return err
		}
	}
}

func (w *walk) colon() {
	w.space()
	w.i++
}

// member compares a key and a value with the fields of a struct.
func (w *walk) member(fields map[string]reflect.Type, path string) error {
	from := w.i
	key := text(w.scalar())
	t, ok := fields[key]
	if !ok {
		if w.known {
			return &UnknownKeyError{path, key}
		}
		for name := range fields {
			if strings.EqualFold(name, key) { // which package json would take
				w.put(from, `""`)
				break
			}
		}
		w.colon()
		w.pass()
		return nil
	}
	w.colon()
	return w.value(t, under(path, key))
}

func under(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// text decodes a string.
func text(quoted string) string {
	var s string
	if json.Unmarshal([]byte(quoted), &s) != nil {
		return quoted
	}
	return s
}

// fieldsOf returns the types of the fields of a struct by their keys.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "-" && (name != "" || !f.Anonymous) {
			if name == "" {
				name = f.Name
			}
			fields[name] = f.Type
		}
	}
	return fields
}

// whole checks that a number is whole, and rewrites one such as 1.0 without a point.
func (w *walk) whole(path string) error {
	from := w.i
	number := w.scalar()
	if !strings.ContainsAny(number, ".eE") {
		return nil
	}
	_, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	if e, err := strconv.Atoi(exponent); len(number) <= 64 && (exponent == "" || err == nil && e >= -64 && e <= 64) {
		if r, ok := new(big.Rat).SetString(number); ok && r.IsInt() {
			w.put(from, r.Num().String())
			return nil
		}
	}
	return errors.New(at(path, fmt.Sprintf("expected a whole number, found %.60s", number)))
}
