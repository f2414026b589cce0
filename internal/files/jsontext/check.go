package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"vsetrain/internal/files/regular"
)

// checker looks in the bytes of a UTF-8 text, as they come, for what package json changes or overlooks. That package
// checks the grammar.
type checker struct {
	line   int // of the last byte, from 1
	open   []object
	depth  int // objects and lists that are open
	inside bool
	escape int    // 0 none, 1 after \, 2 to 5 within the digits after \u
	unit   rune   // of these digits
	high   bool   // half of a surrogate pair has been read
	isKey  bool   // the string is a key
	key    []byte // as it is written
}

// object is an open object with its keys so far, or an open list.
type object struct {
	is, wantsKey bool
	keys         map[string]bool
}

// deepest is how deep package json reads nested objects and lists.
const deepest = 10_000

var errHalf = errors.New("half of a surrogate pair (\\ud800 to \\udfff), which is not a character; write both, or " +
	"leave it out")

// add looks at the bytes that follow.
func (c *checker) add(b []byte) error {
	for _, x := range b {
		var err error
		switch {
		case c.inside:
			err = c.text(x)
		case x == '\n':
			c.line++
		case x == '"':
			c.inside, c.key = true, c.key[:0]
			c.isKey = c.depth > 0 && c.open[c.depth-1].is && c.open[c.depth-1].wantsKey
		case x == '{' || x == '[':
			err = c.begin(x == '{')
		case (x == '}' || x == ']') && c.depth > 0:
			c.depth--
		case x == ',' && c.depth > 0:
			c.open[c.depth-1].wantsKey = true
		case x == ':' && c.depth > 0:
			c.open[c.depth-1].wantsKey = false
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", c.line, err)
		}
	}
	return nil
}

func (c *checker) begin(isObject bool) error {
	if c.depth == deepest {
		return errors.New("nested too deep")
	}
	if c.depth == len(c.open) {
		c.open = append(c.open, object{})
	}
	o := &c.open[c.depth]
	*o = object{is: isObject, wantsKey: true, keys: o.keys}
	const few = 16 // a map that held more takes long to clear
	if o.keys == nil || len(o.keys) > few {
		o.keys = map[string]bool{}
	}
	clear(o.keys)
	c.depth++
	return nil
}

// text looks at a byte of a string.
func (c *checker) text(x byte) error {
	if c.isKey {
		c.key = append(c.key, x)
	}
	if c.high && c.escape == 0 && x != '\\' || c.high && c.escape == 1 && x != 'u' {
		return errHalf
	}
	switch {
	case c.escape == 1:
		c.escape = 0
		if x == 'u' {
			c.escape, c.unit = 2, 0
		}
	case c.escape > 1:
		c.unit = c.unit<<4 | hexDigit(x)
		if c.escape++; c.escape < 6 {
			return nil
		}
		c.escape = 0
		low := c.unit >= 0xdc00 && c.unit < 0xe000
		if low != c.high {
			return errHalf
		}
		c.high = c.unit >= 0xd800 && c.unit < 0xdc00
	case x == '\\':
		c.escape = 1
	case x == '"':
		c.inside = false
		if c.isKey {
			return c.open[c.depth-1].add(c.key[:len(c.key)-1])
		}
	}
	return nil
}

func hexDigit(x byte) rune {
	switch {
	case x >= '0' && x <= '9':
		return rune(x - '0')
	case x|0x20 >= 'a' && x|0x20 <= 'f':
		return rune(x|0x20-'a') + 10
	}
	return 0 // which package json refuses
}

// add adds a key that the object must not have.
func (o *object) add(key []byte) error {
	if bytes.IndexByte(key, '\\') >= 0 {
		var s string
		if json.Unmarshal([]byte(`"`+string(key)+`"`), &s) != nil {
			return nil // which package json refuses
		}
		key = []byte(s)
	}
	if o.keys[string(key)] {
		return fmt.Errorf("the key %.100q stands twice in an object", key)
	}
	o.keys[string(key)] = true
	return nil
}

// Reader returns the text of r without a byte order mark. Invalid UTF-8, half of a surrogate pair and a key that occurs
// twice in an object are errors that name the line.
func Reader(r io.Reader) io.Reader {
	return &reader{in: regular.TextReader(r), checker: checker{line: 1}}
}

type reader struct {
	checker
	in  io.Reader
	err error // of the text
}

func (r *reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.in.Read(p)
	if r.err = r.add(p[:n]); r.err != nil {
		return 0, r.err
	}
	return n, err
}
