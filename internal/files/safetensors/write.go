package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"
)

// Write writes tensors in the given order, and metadata sorted by key, to w. data writes the elements of tensor i,
// exactly as many bytes as its type and shape need; if it is nil, they are the Data of the tensors, which are not
// copied. The data start at a multiple of 8 bytes: put tensors of wide types first to keep all of them aligned.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string, data func(i int, w io.Writer) error) error {
	if data == nil {
		data = inMemory(tensors)
	}
	head, err := encodeHeader(tensors, metadata)
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	if _, err := w.Write(head); err != nil {
		return fmt.Errorf("safetensors: write header: %w", err)
	}
	for i := range tensors {
		t := &tensors[i]
		size, _ := byteSize(t.DType, t.Shape) // checked by encodeHeader
		c := &counter{w: w}
		if err := data(i, c); err != nil {
			return fmt.Errorf("safetensors: write tensor %q: %w", t.Name, err)
		}
		if c.n != size {
			return fmt.Errorf("safetensors: tensor %q was given %d bytes: shape %v of %s needs %d", t.Name, c.n,
				t.Shape, t.DType, size)
		}
	}
	return nil
}

// inMemory writes the Data of tensors.
func inMemory(tensors []Tensor) func(i int, w io.Writer) error {
	return func(i int, w io.Writer) error {
		_, err := w.Write(tensors[i].Data)
		return err
	}
}

// counter counts the bytes that it passes on.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// encodeHeader returns the length field and the JSON, padded to a multiple of 8 bytes.
func encodeHeader(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 8, 1024))
	b.WriteByte('{')
	sep := ""
	if len(metadata) > 0 {
		for k, v := range metadata {
			if !utf8.ValidString(k) || !utf8.ValidString(v) {
				return nil, fmt.Errorf("metadata %q is not valid UTF-8", k)
			}
		}
		fmt.Fprintf(b, "%q:%s", metadataKey, quote(metadata))
		sep = ","
	}
	seen := map[string]bool{metadataKey: true}
	at := int64(0)
	for i := range tensors {
		t := &tensors[i]
		if seen[t.Name] || !utf8.ValidString(t.Name) {
			return nil, fmt.Errorf("tensor name %q appears twice, is reserved or not valid UTF-8", t.Name)
		}
		seen[t.Name] = true
		size, err := byteSize(t.DType, t.Shape)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		fmt.Fprintf(b, `%s%s:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, sep, quote(t.Name), t.DType,
			quote(append([]int{}, t.Shape...)), at, at+size)
		sep, at = ",", at+size
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	if b.Len()-8 > maxHeader {
		return nil, fmt.Errorf("header of %d bytes is too long: at most %d", b.Len()-8, maxHeader)
	}
	binary.LittleEndian.PutUint64(b.Bytes(), uint64(b.Len()-8))
	return b.Bytes(), nil
}

// quote returns a string, shape or map of strings as JSON, sorted by key.
func quote(v any) []byte {
	b, _ := json.Marshal(v) // cannot fail for these
	return b
}
