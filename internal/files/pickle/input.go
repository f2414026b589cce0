package pickle

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// input reads a pickle and counts its bytes. It never allocates much more than it has read.
type input struct {
	r *bufio.Reader
	n int64
}

func (in *input) count(n uint64) {
	if n > uint64(maxBytes-in.n) {
		failf("more than %d bytes long, or a length in it is corrupt", maxBytes)
	}
	in.n += int64(n)
}

func (in *input) byte() byte {
	in.count(1)
	b, err := in.r.ReadByte()
	in.check(err)
	return b
}

// bytes reads n bytes.
func (in *input) bytes(n uint64) []byte {
	in.count(n)
	const chunk = 1 << 16
	if n <= chunk {
		b := make([]byte, n)
		_, err := io.ReadFull(in.r, b)
		in.check(err)
		return b
	}
	var buf bytes.Buffer // grows with what arrives, whatever n claims
	_, err := io.CopyN(&buf, in.r, int64(n))
	in.check(err)
	return buf.Bytes()
}

// uint reads a little-endian unsigned integer of size bytes.
func (in *input) uint(size int) uint64 {
	var b [8]byte
	in.count(uint64(size))
	_, err := io.ReadFull(in.r, b[:size])
	in.check(err)
	return binary.LittleEndian.Uint64(b[:])
}

// sized reads a length of lenSize bytes and that many bytes.
func (in *input) sized(lenSize int) []byte { return in.bytes(in.uint(lenSize)) }

// line reads up to the next newline, which it drops.
func (in *input) line() string {
	var line []byte
	for {
		b := in.byte()
		if b == '\n' {
			return string(line)
		}
		line = append(line, b)
	}
}

// check ends the reading after an error of the input.
func (in *input) check(err error) {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = fmt.Errorf("truncated: the input ends before the pickle does")
	}
	if err != nil {
		panic(failure{err})
	}
}
