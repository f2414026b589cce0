package eval

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"path/filepath"
	"slices"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/disk"
	"vsetrain/internal/files/runfs"
	"vsetrain/models"
)

// workFile keeps the tiles of a score matrix as they are scored, so that a killed scoring, which may take hours,
// continues where it stopped:
//
//	magic [8], key [32], images, captions, images and captions of a tile (uint32 each), then a record for each tile:
//	CRC-32 of the rest of the record, number of the tile (uint32 each), scores (float32, row-major, captions in the
//	order of the encoding)
//
// all little endian. The key is a digest of everything that the scores depend on: the weights and the encoded images
// and captions, which also depend on the precision. The name of the file ends with the key, so a file is found again if
// and only if its tiles would be the same. The file is truncated at the first record that is incomplete, as after a
// kill, corrupted, or repeats a tile; the tiles from there on are scored again.
type workFile struct {
	f      disk.File
	lock   io.Closer // against a second program, which would overwrite the tiles
	buf    []byte
	done   map[int]bool
	tiling tiling
}

const (
	workMagic      = "VSETILE2"
	workMagicFirst = "VSETILE1" // of files whose checksums do not cover the numbers of the tiles
)

// openWork opens or creates the work file of a key in a folder, and passes its tiles to put. setting is how a user
// names another folder.
func openWork(dir, setting, name string, key [32]byte, t tiling, put func(tile int, scores []float32)) (*workFile,
	error) {
	if err := atomicfile.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("folder for scored tiles: %w", err)
	}
	path := filepath.Join(dir, fmt.Sprintf("%s-%x.tiles", name, key[:8]))
	setting = cmp.Or(setting, "--work")
	lock, err := runfs.Lock(path, "name another folder with "+setting+" DIR")
	if err != nil {
		return nil, fmt.Errorf("scored tiles: %w", err)
	}
	f, err := disk.Now().Open(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("scored tiles: %w", err), lock.Close())
	}
	w := &workFile{f: f, lock: lock, done: map[int]bool{}, tiling: t}
	if err := w.read(header(key, t), put); err != nil {
		w.close()
		return nil, fmt.Errorf("scored tiles: %s: %w", path, err)
	}
	return w, nil
}

func (w *workFile) close() error { return errors.Join(w.f.Close(), w.lock.Close()) }

func header(key [32]byte, t tiling) []byte {
	h := append([]byte(workMagic), key[:]...)
	for _, v := range []int{t.images, t.captions, t.tileI, t.tileC} {
		h = binary.LittleEndian.AppendUint32(h, uint32(v))
	}
	return h
}

// read passes all good records to put, and truncates the file after them.
func (w *workFile) read(head []byte, put func(tile int, scores []float32)) error {
	got := make([]byte, len(head))
	switch whole, err := w.fill(got); {
	case err != nil:
		return err
	case !whole, !bytes.Equal(got, head) && // a power failure may leave zeros from some byte on
		bytes.HasPrefix(head, bytes.TrimRight(got, "\x00")):
		if err := w.f.Truncate(0); err != nil {
			return err
		}
		_, err := w.f.WriteAt(head, 0)
		if err == nil {
			_, err = w.f.Seek(int64(len(head)), io.SeekStart)
		}
		return err
	case bytes.HasPrefix(got, []byte(workMagicFirst)):
		return errors.New("tiles of an earlier version, whose checksums do not cover everything; remove the file to " +
			"score them again")
	case !bytes.Equal(got, head):
		return errors.New("the file has the name of these scores, but holds tiles of others; remove it")
	}
	end := int64(len(head))
	scores := make([]float32, w.tiling.tileI*w.tiling.tileC)
	for {
		n, tile, err := w.record(scores)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		i0, i1, c0, c1 := w.tiling.tile(tile)
		put(tile, scores[:(i1-i0)*(c1-c0)])
		w.done[tile] = true
		end += n
	}
	if err := w.f.Truncate(end); err != nil {
		return err
	}
	_, err := w.f.Seek(end, io.SeekStart)
	return err
}

// record reads a record. n is its size in bytes, or 0 if the record is incomplete, corrupted or repeated.
func (w *workFile) record(scores []float32) (n int64, tile int, err error) {
	var head [8]byte
	if whole, err := w.fill(head[:]); !whole {
		return 0, 0, err
	}
	number := binary.LittleEndian.Uint32(head[4:])
	if int64(number) >= int64(w.tiling.count()) || w.done[int(number)] {
		return 0, 0, nil
	}
	i0, i1, c0, c1 := w.tiling.tile(int(number))
	size := (i1 - i0) * (c1 - c0)
	w.buf = append(w.buf[:0], head[4:]...)
	w.buf = append(w.buf, make([]byte, 4*size)...)
	whole, err := w.fill(w.buf[4:])
	if !whole || crc32.ChecksumIEEE(w.buf) != binary.LittleEndian.Uint32(head[:]) {
		return 0, 0, err
	}
	for i := range size {
		scores[i] = math.Float32frombits(binary.LittleEndian.Uint32(w.buf[4+4*i:]))
	}
	return int64(4 + len(w.buf)), int(number), nil
}

// fill reads len(b) bytes; whole is false if the file ends before.
func (w *workFile) fill(b []byte) (whole bool, err error) {
	if _, err = io.ReadFull(w.f, b); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	}
	return err == nil, err
}

// add appends a tile in one write.
func (w *workFile) add(tile int, scores []float32) error {
	w.buf = binary.LittleEndian.AppendUint32(append(w.buf[:0], 0, 0, 0, 0), uint32(tile))
	for _, s := range scores {
		w.buf = binary.LittleEndian.AppendUint32(w.buf, math.Float32bits(s))
	}
	binary.LittleEndian.PutUint32(w.buf, crc32.ChecksumIEEE(w.buf[4:]))
	if _, err := w.f.Write(w.buf); err != nil {
		return fmt.Errorf("scored tiles: %w", err)
	}
	return nil
}

// scoreKey returns a digest of everything that the scores depend on.
func scoreKey(m *models.Model, images, captions *models.EncodedSet, order []int32) (key [32]byte) {
	h := sha256.New()
	fmt.Fprintf(h, "%+v\n%+v\n", m.Options, m.Dims)
	add := func(x []float32) {
		for part := range slices.Chunk(x, 1<<14) {
			binary.Write(h, binary.LittleEndian, part)
		}
	}
	for _, p := range m.Network.Params() {
		v := m.Instance.Params.Value(p.Name)
		x := make([]float32, v.N)
		m.Instance.Dev.DownloadFloats(x, v)
		add(x)
	}
	for _, s := range []*models.EncodedSet{images, captions} {
		for _, r := range slices.Concat(s.Values, s.Words) {
			add(r.Data)
		}
	}
	for _, x := range slices.Concat(captions.Length, order) {
		fmt.Fprintf(h, "%d ", x)
	}
	h.Sum(key[:0])
	return key
}
