// Package journal keeps files of records that only grow. A record is there as a whole or not at all: if a kill, a power
// failure or a full disk left a part of the last one, Open does not read that part, and the next Append cuts it off. If
// a whole record follows an incomplete one, the file is damaged, and is neither read nor changed.
//
//	magic [8], length of the head, CRC-32 of the head (uint32 each, little endian), head
//	then records: length of the note (uint32), of the data (uint64), CRC-32 of the data, CRC-32 of these 16 bytes and
//	the note (uint32 each), note, data
//
// A note is a JSON object or empty.
//
// Open compares the data of the last record only with their checksum: earlier data were on the disk before another
// record began.
package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/disk"
	"vsetrain/internal/files/regular"
)

const magic = "VSEJRNL1"

const (
	headSize   = len(magic) + 8 // bytes before the head
	recordSize = 20             // bytes before a note
	maxNote    = 64 << 20       // bytes of a note or head
	maxSearch  = 256 << 20      // bytes of possible notes after an incomplete record
)

// File is an open journal, as it was when it was opened. Several goroutines may call its methods, except Close.
type File struct {
	Head    []byte
	Records []Record
	f       *os.File
	end     int64 // of the last whole record
}

// Record is data with a note that describes them.
type Record struct {
	Note []byte
	Size int64  // of the data
	at   int64  // of the data, in the file
	sum  uint32 // of the data
}

// Ending is the ending of the names of journals.
const Ending = "_changes.bin"

// Open reads the head and the notes of a journal.
func Open(path string) (*File, error) {
	f, size, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	j := &File{f: f}
	if err := j.read(size); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return j, nil
}

// Close closes the file.
func (j *File) Close() error { return j.f.Close() }

// ReadAt reads data of a record from an offset.
func (j *File) ReadAt(b []byte, record int, from int64) error {
	r := j.Records[record]
	if from < 0 || from+int64(len(b)) > r.Size {
		return fmt.Errorf("%s: record %d has %d bytes, expected %d from %d on", j.f.Name(), record, r.Size,
			len(b), from)
	}
	_, err := j.f.ReadAt(b, r.at+from)
	return err
}

// read reads the head and all whole records of a file of size bytes.
func (j *File) read(size int64) error {
	start := make([]byte, headSize)
	if _, err := j.f.ReadAt(start, 0); err != nil || string(start[:len(magic)]) != magic {
		return errors.New("not a journal of vsetrain: it begins like another file")
	}
	n := int64(binary.LittleEndian.Uint32(start[len(magic):]))
	if n > maxNote || n > size-int64(headSize) {
		return fmt.Errorf("a head of %d bytes in a file of %d: the file is damaged", n, size)
	}
	j.Head = make([]byte, n)
	if _, err := j.f.ReadAt(j.Head, int64(headSize)); err != nil {
		return err
	}
	if crc32.ChecksumIEEE(j.Head) != binary.LittleEndian.Uint32(start[len(magic)+4:]) {
		return errors.New("the head does not have its checksum: the file is damaged")
	}
	j.end = int64(headSize) + n
	for {
		r, ok := j.record(j.end, size)
		if !ok {
			break
		}
		j.Records, j.end = append(j.Records, r), r.at+r.Size
	}
	switch at, err := j.next(j.end, size); {
	case err != nil:
		return err
	case at > 0:
		return fmt.Errorf("record %d, at byte %d, is damaged, and a whole one follows at byte %d; bring back a copy "+
			"of the file: it is neither read nor added to, so that nothing is lost", len(j.Records), j.end, at)
	case len(j.Records) == 0:
		return nil
	}
	last := j.Records[len(j.Records)-1]
	whole, err := j.whole(last)
	if err == nil && !whole {
		j.Records = j.Records[:len(j.Records)-1]
		j.end = last.at - int64(len(last.Note)) - recordSize
	}
	return err
}

// next returns where a whole record is after a byte, 0 if there is none: only the end of a file may be the rest of an
// interrupted Append.
func (j *File) next(from, size int64) (int64, error) {
	buf, read := make([]byte, 1<<20), int64(0)
	for from++; from+recordSize <= size; from += int64(len(buf) - recordSize + 1) {
		n, err := j.f.ReadAt(buf[:min(int64(len(buf)), size-from)], from)
		if err != nil && err != io.EOF {
			return 0, err
		}
		for i := 0; i+recordSize <= n; i++ {
			at := from + int64(i)
			room, note := uint64(size-at-recordSize), uint64(binary.LittleEndian.Uint32(buf[i:]))
			if note > min(room, maxNote) || binary.LittleEndian.Uint64(buf[i+4:]) > room-note || note == 0 &&
				crc32.ChecksumIEEE(buf[i:i+16]) != binary.LittleEndian.Uint32(buf[i+16:]) || // zeros are common
				note > 0 && !j.braces(at+recordSize, int64(note)) {
				continue
			}
			if read += int64(note); read > maxSearch {
				return 0, fmt.Errorf("after byte %d there is no record but much that may be the beginning of one: "+
					"the file is damaged; bring back a copy", from)
			}
			if _, ok := j.record(at, size); ok {
				return at, nil
			}
		}
	}
	return 0, nil
}

// braces reports whether n bytes at an offset begin and end like a JSON object.
func (j *File) braces(at, n int64) bool {
	var ends [2]byte
	_, err := j.f.ReadAt(ends[:1], at)
	_, err2 := j.f.ReadAt(ends[1:], at+n-1)
	return err == nil && err2 == nil && ends == [2]byte{'{', '}'}
}

// whole compares the data of a record with their checksum.
func (j *File) whole(r Record) (bool, error) {
	got := crc32.NewIEEE()
	_, err := io.Copy(got, io.NewSectionReader(j.f, r.at, r.Size))
	return got.Sum32() == r.sum, err
}

// Verify reads a journal completely. The error names the first record that differs from what was written, or bytes
// after the last whole record, which an interrupted Append or damage left.
func Verify(path string) error {
	j, err := Open(path)
	if err != nil {
		return err
	}
	defer j.Close()
	for i, r := range j.Records {
		if whole, err := j.whole(r); err != nil || !whole {
			return fmt.Errorf("%s: the data of record %d (from byte %d) do not have their checksum", path, i, r.at)
		}
	}
	if info, err := j.f.Stat(); err != nil || info.Size() > j.end {
		return fmt.Errorf("%s: byte %d is after record %d, the last whole one, and begins no other: an addition was "+
			"interrupted there, or the file is damaged", path, j.end, len(j.Records)-1)
	}
	return nil
}

// record reads the record at an offset up to its data; ok is false if it is not whole.
func (j *File) record(at, size int64) (r Record, ok bool) {
	var head [recordSize]byte
	if size-at < recordSize {
		return r, false
	}
	if _, err := j.f.ReadAt(head[:], at); err != nil {
		return r, false
	}
	note, data := int64(binary.LittleEndian.Uint32(head[:])), binary.LittleEndian.Uint64(head[4:])
	room := size - at - recordSize
	if note > maxNote || note > room || data > uint64(room-note) {
		return r, false
	}
	r = Record{Note: make([]byte, note), Size: int64(data), at: at + recordSize + note,
		sum: binary.LittleEndian.Uint32(head[12:])}
	if _, err := j.f.ReadAt(r.Note, at+recordSize); err != nil {
		return r, false
	}
	sum := crc32.Update(crc32.ChecksumIEEE(head[:16]), crc32.IEEETable, r.Note)
	return r, sum == binary.LittleEndian.Uint32(head[16:])
}

// Append adds a record with the data that write writes to the journal at path, and returns when it is on the disk. If
// there is no journal, Append begins one with head. After an error the journal is unchanged. One process at a time may
// append. If the file cannot be written, the error is an *atomicfile.Error.
func Append(path string, head, note []byte, write func(io.Writer) error) error {
	if len(head) > maxNote || len(note) > maxNote {
		return fmt.Errorf("%s: a note of %d bytes; at most %d are kept", path, max(len(head), len(note)), maxNote)
	}
	if n := len(note); n > 0 && (note[0] != '{' || note[n-1] != '}') {
		return fmt.Errorf("%s: the note %.100q is not a JSON object", path, note)
	}
	j, err := Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = atomicfile.WriteNew(path, func(w io.Writer) error {
			b := binary.LittleEndian.AppendUint32([]byte(magic), uint32(len(head)))
			_, err := w.Write(append(binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(head)), head...))
			return err
		})
		if err == nil {
			j, err = Open(path)
		}
	}
	if err != nil {
		return err
	}
	defer j.Close()
	f, err := disk.Now().Open(path)
	if err != nil {
		return atomicfile.Explain("write", path, err)
	}
	if err = j.add(f, note, write); err != nil {
		err = errors.Join(err, f.Truncate(j.end))
	}
	return errors.Join(atomicfile.Explain("write", path, err), f.Close())
}

// add writes a record after the last whole one. It writes the bytes before the note last, so that a kill leaves no
// record.
func (j *File) add(f disk.File, note []byte, write func(io.Writer) error) error {
	if err := f.Truncate(j.end); err != nil {
		return err
	}
	at := j.end + recordSize
	if _, err := f.WriteAt(note, at); err != nil {
		return err
	}
	w := &summed{w: io.NewOffsetWriter(f, at+int64(len(note)))}
	if err := write(w); err != nil {
		return err
	}
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(note)))
	b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(b, uint64(w.n)), w.sum)
	b = binary.LittleEndian.AppendUint32(b, crc32.Update(crc32.ChecksumIEEE(b), crc32.IEEETable, note))
	if _, err := f.WriteAt(b, j.end); err != nil {
		return err
	}
	return f.Sync()
}

// summed counts and sums the bytes that it passes on.
type summed struct {
	w   io.Writer
	n   int64
	sum uint32
}

func (s *summed) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	s.n, s.sum = s.n+int64(n), crc32.Update(s.sum, crc32.IEEETable, b[:n])
	return n, err
}
