package safetensors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// item is one tensor of the header.
type item struct {
	name       string
	dtype      string
	shape      []int
	begin, end int64
}

// parseHeader reads the JSON. encoding/json keeps the last of two equal keys, so the tokens are read one by one.
func parseHeader(text []byte) (items []item, metadata map[string]string, err error) {
	if len(text) == 0 || text[0] != '{' {
		return nil, nil, fmt.Errorf("expected a JSON object")
	}
	p := parser{json.NewDecoder(bytes.NewReader(text))}
	p.d.UseNumber()
	seen := map[string]bool{}
	err = p.object(func(name string) error {
		if seen[name] {
			return fmt.Errorf("%q appears twice", clip(name))
		}
		seen[name] = true
		if name == metadataKey {
			metadata = map[string]string{}
			return p.metadata(metadata)
		}
		it, err := p.tensor(name)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", clip(name), err)
		}
		items = append(items, it)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if _, err := p.d.Token(); err != io.EOF {
		return nil, nil, fmt.Errorf("text after the JSON object")
	}
	return items, metadata, nil
}

// checkLayout sorts items by position and checks that they cover the data exactly.
func checkLayout(items []item, data int64) error {
	slices.SortStableFunc(items, func(a, b item) int {
		if a.begin != b.begin {
			return int(min(1, max(-1, a.begin-b.begin)))
		}
		return int(min(1, max(-1, a.end-b.end)))
	})
	at := int64(0)
	for _, it := range items {
		want, err := byteSize(it.dtype, it.shape)
		switch {
		case err != nil:
			return fmt.Errorf("tensor %q: %w", clip(it.name), err)
		case it.begin != at:
			return fmt.Errorf("tensor %q starts at byte %d of the data: expected %d (hole or overlap)", clip(it.name),
				it.begin, at)
		case it.end-it.begin != want:
			return fmt.Errorf("tensor %q has %d bytes: shape %v of %s needs %d", clip(it.name), it.end-it.begin,
				it.shape, it.dtype, want)
		}
		at = it.end
	}
	if at > data {
		return fmt.Errorf("truncated file: the tensors need %d bytes of data, found %d", at, data)
	}
	if at < data {
		return fmt.Errorf("wrong size: the tensors need %d bytes of data, found %d", at, data)
	}
	return nil
}

// parser reads JSON tokens.
type parser struct{ d *json.Decoder }

// token reads a token; the end of the header is an error.
func (p parser) token() (json.Token, error) {
	t, err := p.d.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("not JSON, at byte %d: %w", p.d.InputOffset(), err)
	}
	return t, nil
}

func (p parser) expect(want json.Delim) error {
	t, err := p.token()
	if err == nil && t != want {
		err = fmt.Errorf("expected %q at byte %d, found %v", want, p.d.InputOffset(), clip(fmt.Sprint(t)))
	}
	return err
}

// object reads an object; value is called after each key and must read its value.
func (p parser) object(value func(key string) error) error {
	if err := p.expect('{'); err != nil {
		return err
	}
	for p.d.More() {
		t, err := p.token()
		if err != nil {
			return err
		}
		key, ok := t.(string)
		if !ok {
			return fmt.Errorf("expected a key at byte %d", p.d.InputOffset())
		}
		if err := value(key); err != nil {
			return err
		}
	}
	return p.expect('}')
}

func (p parser) str() (string, error) {
	t, err := p.token()
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", fmt.Errorf("expected a string at byte %d", p.d.InputOffset())
	}
	return s, nil
}

func (p parser) metadata(m map[string]string) error {
	return p.object(func(key string) error {
		if _, twice := m[key]; twice {
			return fmt.Errorf("metadata %q appears twice", clip(key))
		}
		v, err := p.str()
		if err != nil {
			return fmt.Errorf("metadata %q: %w", clip(key), err)
		}
		m[key] = v
		return nil
	})
}

func (p parser) tensor(name string) (item, error) {
	it := item{name: name}
	seen := map[string]bool{}
	err := p.object(func(key string) (err error) {
		if seen[key] {
			return fmt.Errorf("%q appears twice", clip(key))
		}
		seen[key] = true
		switch key {
		case "dtype":
			it.dtype, err = p.str()
		case "shape":
			var dims []int64
			dims, err = p.numbers()
			it.shape = make([]int, len(dims))
			for i, d := range dims {
				if it.shape[i] = int(d); int64(it.shape[i]) != d {
					return fmt.Errorf("dimension %d is too large for this machine", d)
				}
			}
		case "data_offsets":
			var at []int64
			at, err = p.numbers()
			if err == nil && (len(at) != 2 || at[0] > at[1]) {
				err = fmt.Errorf("data_offsets are %v: expected [begin, end]", at)
			}
			if err == nil {
				it.begin, it.end = at[0], at[1]
			}
		default:
			err = fmt.Errorf("unknown key %q", clip(key))
		}
		return err
	})
	for _, key := range []string{"dtype", "shape", "data_offsets"} {
		if err == nil && !seen[key] {
			err = fmt.Errorf("%q is missing", key)
		}
	}
	return it, err
}

// maxNumbers bounds a list of dimensions or offsets.
const maxNumbers = 64

// numbers reads an array of integers that are not negative.
func (p parser) numbers() ([]int64, error) {
	if err := p.expect('['); err != nil {
		return nil, err
	}
	v := []int64{}
	for p.d.More() {
		t, err := p.token()
		if err != nil {
			return nil, err
		}
		n, _ := t.(json.Number)
		u, err := strconv.ParseUint(string(n), 10, 63)
		if err != nil || len(v) == maxNumbers {
			return nil, fmt.Errorf("expected at most %d integers from 0 to 2^63-1, found %v", maxNumbers,
				clip(fmt.Sprint(t)))
		}
		v = append(v, int64(u))
	}
	return v, p.expect(']')
}

// clip shortens text from the file for a message.
func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "..."
	}
	return s
}
