package extract

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"

	"vsetrain/internal/files/disk"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/runfs"
)

// work is the work in progress, in two hidden files next to the features: the array, whose header gets its number of
// rows at the end, and a journal with a record for every batch:
//
//	magic [8], key [32], then records: CRC-32 of the rest of the record, CRC-32 of the rows of the batch, number of
//	its pictures, and the width and height of each, 0 and 0 if it was skipped (uint32 each, little endian)
//
// The key is a digest of everything that the rows depend on. The next session keeps the records whose rows have the
// right checksum, and truncates both files after them.
type work struct {
	rows, journal disk.File
	lock          io.Closer
	rowSize       int64
	head          int64 // bytes in front of the rows
	sizes         [][2]uint32
	batches       int // done
}

const workMagic = "VSEPICT1"

func workFiles(features string) (rows, journal string) {
	dir, base := filepath.Split(features)
	return filepath.Join(dir, "."+base+".part"), filepath.Join(dir, "."+base+".journal")
}

// openWork opens or starts the work on a features file of rows [regions, dim].
func openWork(features string, key [sha256.Size]byte, dtype npy.DType, regions, dim int) (*work, error) {
	rows, journal := workFiles(features)
	head, err := npy.Header(dtype, []int{0, regions, dim})
	if err != nil {
		return nil, err
	}
	w := &work{head: int64(len(head)), rowSize: int64(regions * dim * dtype.Size())}
	if w.lock, err = runfs.Lock(journal, "name another output with --out"); err != nil {
		return nil, fmt.Errorf("work in progress: %w", err)
	}
	if w.rows, err = disk.Now().Open(rows); err == nil {
		w.journal, err = disk.Now().Open(journal)
	}
	if err == nil {
		err = w.read(key, head)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("work in progress: %w", err), w.close())
	}
	return w, nil
}

func (w *work) close() error {
	var errs []error
	for _, f := range []disk.File{w.rows, w.journal} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(append(errs, w.lock.Close())...)
}

// read keeps the valid records of the key, and leaves both files at their end.
func (w *work) read(key [sha256.Size]byte, head []byte) error {
	start := append([]byte(workMagic), key[:]...)
	got := make([]byte, len(start))
	if _, err := io.ReadFull(w.journal, got); err != nil || !bytes.Equal(got, start) {
		if err := errors.Join(w.journal.Truncate(0), w.rows.Truncate(0)); err != nil {
			return err
		}
		if _, err := w.journal.WriteAt(start, 0); err != nil {
			return err
		}
	}
	if _, err := w.rows.WriteAt(head, 0); err != nil {
		return err
	}
	at, journal := w.head, int64(len(start))
	if _, err := w.rows.Seek(at, io.SeekStart); err != nil {
		return err
	}
	if _, err := w.journal.Seek(journal, io.SeekStart); err != nil {
		return err
	}
	for {
		sizes, bytes, ok := w.record()
		if !ok {
			break
		}
		w.sizes = append(w.sizes, sizes...)
		w.batches++
		at, journal = at+bytes, journal+int64(12+8*len(sizes))
	}
	if err := errors.Join(w.rows.Truncate(at), w.journal.Truncate(journal)); err != nil {
		return err
	}
	if _, err := w.rows.Seek(at, io.SeekStart); err != nil {
		return err
	}
	_, err := w.journal.Seek(journal, io.SeekStart)
	return err
}

// forget removes the hidden files when the work is done.
func (w *work) forget() error {
	disk.Now().Remove(w.rows.Name()) // exists only if pictures were added
	disk.Now().Remove(w.journal.Name() + ".lock")
	return disk.Now().Remove(w.journal.Name())
}

// MaxBatch bounds the pictures of a batch.
const MaxBatch = 1 << 16

// record reads the next record and its rows; ok is false if they are truncated or corrupted.
func (w *work) record() (sizes [][2]uint32, n int64, ok bool) {
	var head [12]byte
	if _, err := io.ReadFull(w.journal, head[:]); err != nil {
		return nil, 0, false
	}
	count := binary.LittleEndian.Uint32(head[8:])
	if count > MaxBatch {
		return nil, 0, false
	}
	b := make([]byte, 8*count)
	if _, err := io.ReadFull(w.journal, b); err != nil {
		return nil, 0, false
	}
	if crc32.ChecksumIEEE(append(head[4:12:12], b...)) != binary.LittleEndian.Uint32(head[:]) {
		return nil, 0, false
	}
	for i := range count {
		s := [2]uint32{binary.LittleEndian.Uint32(b[8*i:]), binary.LittleEndian.Uint32(b[8*i+4:])}
		sizes = append(sizes, s)
		if s[0] > 0 {
			n += w.rowSize
		}
	}
	sum := crc32.NewIEEE()
	if _, err := io.CopyN(sum, w.rows, n); err != nil || sum.Sum32() != binary.LittleEndian.Uint32(head[4:]) {
		return nil, 0, false
	}
	return sizes, n, true
}

// add appends the rows of a batch, encoded, and then its record.
func (w *work) add(rows []byte, sizes [][2]uint32) error {
	if _, err := w.rows.Write(rows); err != nil {
		return err
	}
	b := binary.LittleEndian.AppendUint32(make([]byte, 4), crc32.ChecksumIEEE(rows))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(sizes)))
	for _, s := range sizes {
		b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, s[0]), s[1])
	}
	binary.LittleEndian.PutUint32(b, crc32.ChecksumIEEE(b[4:]))
	if _, err := w.journal.Write(b); err != nil {
		return err
	}
	w.sizes, w.batches = append(w.sizes, sizes...), w.batches+1
	return nil
}

// finish writes the number of rows; the array is then complete under its hidden name.
func (w *work) finish(dtype npy.DType, shape []int) error {
	head, err := npy.Header(dtype, shape)
	if err == nil {
		_, err = w.rows.WriteAt(head, 0)
	}
	if err == nil {
		err = w.rows.Sync()
	}
	return err
}
