package pickle

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// input reads a pickle, counts its bytes and never allocates more than has arrived.
type input struct {
	r        *bufio.Reader
	n, limit int64
}

var errTruncated = fmt.Errorf("truncated: the input ends before the pickle does")

func (in *input) count(n uint64) error {
	if n > uint64(in.limit-in.n) {
		return fmt.Errorf("more than %d bytes long, or a length in it is corrupt", in.limit)
	}
	in.n += int64(n)
	return nil
}

func (in *input) byte() (byte, error) {
	if err := in.count(1); err != nil {
		return 0, err
	}
	b, err := in.r.ReadByte()
	if err != nil {
		return 0, truncated(err)
	}
	return b, nil
}

// bytes reads n bytes.
func (in *input) bytes(n uint64) ([]byte, error) {
	if err := in.count(n); err != nil {
		return nil, err
	}
	const chunk = 1 << 16
	if n <= chunk {
		b := make([]byte, n)
		_, err := io.ReadFull(in.r, b)
		return b, truncated(err)
	}
	var buf bytes.Buffer // grows with what arrives, whatever n claims
	_, err := io.CopyN(&buf, in.r, int64(n))
	return buf.Bytes(), truncated(err)
}

// uint reads a little-endian unsigned integer of size bytes.
func (in *input) uint(size int) (uint64, error) {
	var b [8]byte
	if err := in.count(uint64(size)); err != nil {
		return 0, err
	}
	_, err := io.ReadFull(in.r, b[:size])
	return binary.LittleEndian.Uint64(b[:]), truncated(err)
}

// sized reads a length of lenSize bytes and that many bytes.
func (in *input) sized(lenSize int) ([]byte, error) {
	n, err := in.uint(lenSize)
	if err != nil {
		return nil, err
	}
	return in.bytes(n)
}

// line reads up to the next newline, which it drops.
func (in *input) line() (string, error) {
	var line []byte
	for {
		b, err := in.byte()
		if err != nil {
			return "", err
		}
		if b == '\n' {
			return string(line), nil
		}
		line = append(line, b)
	}
}

func truncated(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errTruncated
	}
	return err
}
