package tfevents

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"vsetrain/internal/files/regular"
)

// maxRecord bounds a record.
const maxRecord = 64 << 20

// Read returns the events of a file. It ignores an incomplete record at the end, which a killed writer leaves; a wrong
// checksum is an error.
func Read(path string) ([]Event, error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("tfevents: %w", err)
	}
	defer f.Close()
	events, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("tfevents: %s: %w", path, err)
	}
	return events, nil
}

func read(r io.Reader) (events []Event, err error) {
	in := bufio.NewReader(r)
	for at := int64(0); ; {
		data, err := readRecord(in)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return events, nil
		}
		var e []Event
		if err == nil {
			e, err = decode(data)
		}
		if err != nil {
			return nil, fmt.Errorf("record at byte %d: %w", at, err)
		}
		events = append(events, e...)
		at += int64(len(data)) + 16
	}
}

// errBroken is the error for a record that differs from what was written.
var errBroken = errors.New("broken record")

// readRecord returns the data of the next record. The error is io.EOF or io.ErrUnexpectedEOF at the end, errBroken, or
// an error of in.
func readRecord(in io.Reader) ([]byte, error) {
	var head [12]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	if got, want := maskedCRC(head[:8]), binary.LittleEndian.Uint32(head[8:]); got != want {
		return nil, fmt.Errorf("%w: checksum of the length is %#08x: expected %#08x", errBroken, got, want)
	}
	n := binary.LittleEndian.Uint64(head[:])
	if n > maxRecord {
		return nil, fmt.Errorf("%w: %d bytes long: at most %d expected", errBroken, n, maxRecord)
	}
	data, err := io.ReadAll(io.LimitReader(in, int64(n)+4)) // grows with what is there, whatever n claims
	if err != nil {
		return nil, err
	}
	if uint64(len(data)) < n+4 {
		return nil, io.ErrUnexpectedEOF
	}
	data, tail := data[:n], data[n:]
	if got, want := maskedCRC(data), binary.LittleEndian.Uint32(tail); got != want {
		return nil, fmt.Errorf("%w: checksum of the data is %#08x: expected %#08x", errBroken, got, want)
	}
	return data, nil
}
