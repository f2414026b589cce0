package safetensors

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"vsetrain/internal/files/jsontext"
)

// item is one tensor of the header.
type item struct {
	name, dtype string
	shape       []int
	begin, end  int64
}

// parseHeader reads the JSON: the tensors in its order, and the metadata into f.
func (f *File) parseHeader(text []byte) (items []item, err error) {
	if len(text) == 0 || text[0] != '{' {
		return nil, fmt.Errorf("expected a JSON object")
	}
	d := json.NewDecoder(jsontext.Reader(bytes.NewReader(text)))
	next := func() (any, error) {
		t, err := d.Token()
		if err != nil {
			err = fmt.Errorf("unreadable at byte %d: %w", d.InputOffset(), err)
		}
		return t, err
	}
	if _, err := next(); err != nil {
		return nil, err
	}
	for d.More() {
		key, err := next()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, fmt.Errorf("unreadable at byte %d: %w", d.InputOffset(), err)
		}
		if name == metadataKey {
			if err := jsontext.Unmarshal(raw, &f.metadata); err != nil {
				return nil, fmt.Errorf("metadata %w", err)
			}
			continue
		}
		it, err := parseTensor(name, raw)
		if err != nil {
			return nil, fmt.Errorf("tensor %.100q: %w", name, err)
		}
		items = append(items, it)
	}
	if _, err := next(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("text after the JSON object")
	}
	return items, nil
}

// maxDims bounds the dimensions of a tensor.
const maxDims = 64

func parseTensor(name string, raw []byte) (item, error) {
	var t struct {
		DType   *string `json:"dtype"`
		Shape   []int   `json:"shape"`
		Offsets []int64 `json:"data_offsets"`
	}
	if err := jsontext.UnmarshalKnown(raw, &t); err != nil {
		return item{}, err
	}
	at := t.Offsets
	switch {
	case t.DType == nil || t.Shape == nil || at == nil:
		return item{}, fmt.Errorf("dtype, shape or data_offsets is missing")
	case len(t.Shape) > maxDims || len(t.Shape) > 0 && slices.Min(t.Shape) < 0:
		return item{}, fmt.Errorf("shape is %.100s: expected at most %d integers from 0 on", fmt.Sprint(t.Shape),
			maxDims)
	case len(at) != 2 || at[0] < 0 || at[0] > at[1]:
		return item{}, fmt.Errorf("data_offsets are %.100s: expected [begin, end]", fmt.Sprint(at))
	}
	return item{name, *t.DType, t.Shape, at[0], at[1]}, nil
}

// checkLayout sorts items by position and checks that they cover the data exactly.
func checkLayout(items []item, data int64) error {
	slices.SortStableFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	at := int64(0)
	for _, it := range items {
		want, err := byteSize(it.dtype, it.shape)
		switch {
		case err != nil:
			return fmt.Errorf("tensor %.100q: %w", it.name, err)
		case it.begin != at:
			return fmt.Errorf("tensor %.100q starts at byte %d of the data: expected %d (hole or overlap)", it.name,
				it.begin, at)
		case it.end-it.begin != want:
			return fmt.Errorf("tensor %.100q has %d bytes: shape %v of %s needs %d", it.name, it.end-it.begin,
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
