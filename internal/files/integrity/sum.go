package integrity

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"time"

	"vsetrain/internal/files/regular"
)

// BlockSize is the size of a block in bytes; the last block of a file may be shorter.
const BlockSize = 1 << 20

// Sum identifies the content of a file.
type Sum struct {
	Size   int64     `json:"size"`
	Time   time.Time `json:"time"` // of the last change, UTC
	SHA256 string    `json:"sha256"`
	Blocks string    `json:"blocks"` // the CRC-32 (IEEE) of each block, eight hexadecimal digits
}

// Summer computes the Sum of what is written to it.
type Summer struct {
	all   hash.Hash
	block uint32 // CRC of the block so far
	in    int    // bytes of that block
	sum   Sum
	crcs  []byte
}

// NewSummer returns a Summer of an empty file.
func NewSummer() *Summer { return &Summer{all: sha256.New()} }

// Write adds bytes. It never returns an error.
func (s *Summer) Write(b []byte) (int, error) {
	n := len(b)
	s.all.Write(b)
	s.sum.Size += int64(n)
	for len(b) > 0 {
		part := b[:min(len(b), BlockSize-s.in)]
		s.block = crc32.Update(s.block, crc32.IEEETable, part)
		b, s.in = b[len(part):], s.in+len(part)
		if s.in == BlockSize {
			s.endBlock()
		}
	}
	return n, nil
}

func (s *Summer) endBlock() {
	s.crcs = fmt.Appendf(s.crcs, "%08x", s.block)
	s.block, s.in = 0, 0
}

// Sum returns the sum of a file that was last changed at the given time. Nothing may be written afterwards.
func (s *Summer) Sum(changed time.Time) Sum {
	if s.in > 0 {
		s.endBlock()
	}
	s.sum.SHA256, s.sum.Blocks, s.sum.Time = hex.EncodeToString(s.all.Sum(nil)), string(s.crcs), changed.UTC()
	return s.sum
}

// SumOf returns the sum of a file.
func SumOf(path string) (Sum, error) {
	f, size, err := regular.Open(path)
	if err != nil {
		return Sum{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Sum{}, err
	}
	s := NewSummer()
	if _, err := io.CopyBuffer(s, struct{ io.Reader }{f}, make([]byte, min(BlockSize, size+1))); err != nil {
		return Sum{}, err
	}
	return s.Sum(info.ModTime()), nil
}

// Differs says where a file differs from the sum that it should have, or returns "".
func (s Sum) Differs(should Sum) string {
	if s.Size == should.Size && s.SHA256 == should.SHA256 {
		return ""
	}
	text := ""
	if s.Size != should.Size {
		text = fmt.Sprintf("has %d bytes and had %d; ", s.Size, should.Size)
	}
	const digits = 8 // of a CRC
	first, last, n := -1, -1, 0
	for at := 0; at < max(len(s.Blocks), len(should.Blocks)); at += digits {
		end := at + digits
		if end > min(len(s.Blocks), len(should.Blocks)) || s.Blocks[at:end] != should.Blocks[at:end] {
			if n++; first < 0 {
				first = at / digits
			}
			last = at / digits
		}
	}
	switch n {
	case 0:
		return text + "its SHA-256 differs, although the checksum of no block does"
	case 1:
		return text + fmt.Sprintf("block %d (bytes %d to %d) differs", first, first*BlockSize,
			min(int64(first+1)*BlockSize, max(s.Size, should.Size))-1)
	}
	return text + fmt.Sprintf("%d blocks of 1 MiB differ, the first is block %d (from byte %d), the last block %d", n,
		first, first*BlockSize, last)
}

// quickly compares the size and the first and last block of a file with the sum that it should have.
func quickly(path string, should Sum) (same bool, err error) {
	f, size, err := regular.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if size != should.Size {
		return false, fmt.Errorf("it has %d bytes and had %d", size, should.Size)
	}
	buf := make([]byte, min(BlockSize, size))
	for _, block := range []int64{0, (size - 1) / BlockSize} {
		n, err := f.ReadAt(buf[:min(BlockSize, size-block*BlockSize)], block*BlockSize)
		if err != nil {
			return false, err
		}
		if at := 8 * block; fmt.Sprintf("%08x", crc32.ChecksumIEEE(buf[:n])) != should.Blocks[at:at+8] {
			return false, fmt.Errorf("it differs in block %d (from byte %d)", block, block*BlockSize)
		}
		if size <= BlockSize {
			break
		}
	}
	info, err := f.Stat()
	return err == nil && sameTime(info, should), err
}

func sameTime(info os.FileInfo, should Sum) bool {
	return info.ModTime().UTC().Truncate(time.Microsecond).Equal(should.Time.Truncate(time.Microsecond))
}

// FileSHA256 returns the SHA-256 of a file, in hexadecimal digits.
func FileSHA256(path string) (string, error) {
	s, err := SumOf(path)
	return s.SHA256, err
}
