package torchfile

import (
	"archive/zip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/big"
	"path"
	"strings"

	"vsetrain/internal/files/elements"
	"vsetrain/internal/files/pickle"
)

// read reads a checkpoint of either format from src, which has size bytes.
func read(src io.ReaderAt, size int64) (any, error) {
	var start [4]byte
	if n, err := src.ReadAt(start[:], 0); n < len(start) {
		return nil, fmt.Errorf("not a checkpoint: it has only %d bytes (%w)", n, err)
	}
	if string(start[:]) == "PK\x03\x04" {
		return readZip(src, size)
	}
	return readLegacy(src, size)
}

// archive is a checkpoint in zip format.
type archive struct {
	src     io.ReaderAt
	size    int64
	records map[string]*zip.File // by name without the leading folder
	stores  map[string]*storage
}

func readZip(src io.ReaderAt, size int64) (any, error) {
	z, err := zip.NewReader(src, size)
	if err != nil {
		return nil, fmt.Errorf("truncated or corrupt zip archive: %w; copy the file again", err)
	}
	a := &archive{src: src, size: size, records: map[string]*zip.File{}, stores: map[string]*storage{}}
	root := ""
	for _, f := range z.File {
		if dir, base := path.Split(f.Name); base == "data.pkl" && strings.Count(dir, "/") <= 1 {
			root = dir
			break
		}
	}
	for _, f := range z.File {
		name, ok := strings.CutPrefix(f.Name, root)
		if !ok {
			continue
		}
		if a.records[name] != nil {
			return nil, fmt.Errorf("record %q appears twice", name)
		}
		a.records[name] = f
	}
	if a.records["data.pkl"] == nil {
		return nil, fmt.Errorf("a zip archive without data.pkl: not a PyTorch checkpoint")
	}
	if a.records["byteorder"] != nil {
		s, err := a.record("byteorder")
		if err != nil {
			return nil, err
		}
		if b, err := s.read(0, min(s.size, 16)); err != nil || string(b) != "little" {
			return nil, fmt.Errorf("byte order is %q: expected \"little\"; save it again on a little-endian machine", b)
		}
	}
	s, err := a.record("data.pkl")
	if err != nil {
		return nil, err
	}
	sum := crc32.NewIEEE()
	in := io.TeeReader(io.NewSectionReader(src, s.at, s.size), sum)
	v, _, err := pickle.Decode(in, pickle.Options{Globals: globals(), Instances: true, Persistent: a.persistent})
	if s.crc != 0 {
		if _, copyErr := io.Copy(io.Discard, in); copyErr == nil && sum.Sum32() != s.crc {
			return nil, fmt.Errorf("record data.pkl is corrupt: its checksum is wrong; copy the file again")
		}
	}
	return v, err
}

// record returns where the bytes of a record are.
func (a *archive) record(name string) (*storage, error) {
	f := a.records[name]
	if f == nil {
		return nil, fmt.Errorf("record %q is missing from the archive", name)
	}
	at, err := f.DataOffset()
	if err != nil {
		return nil, fmt.Errorf("record %q: %w", name, err)
	}
	if f.Method != zip.Store {
		return nil, fmt.Errorf("record %q is compressed, which PyTorch never does; load and save it again in Python",
			name)
	}
	if f.UncompressedSize64 != f.CompressedSize64 || at < 0 || at > a.size || f.UncompressedSize64 > uint64(a.size-at) {
		return nil, fmt.Errorf("truncated or corrupt archive: record %q needs %d bytes at %d, the file has %d", name,
			f.UncompressedSize64, at, a.size)
	}
	return &storage{size: int64(f.UncompressedSize64), src: a.src, at: at, crc: f.CRC32}, nil
}

func (a *archive) persistent(id any) (any, error) {
	r, err := parseReference(id)
	if err != nil {
		return nil, err
	}
	s := a.stores[r.key]
	if s == nil {
		if s, err = a.record("data/" + r.key); err != nil {
			return nil, err
		}
		a.stores[r.key] = s
	}
	if s.size < r.bytes() {
		return nil, fmt.Errorf("storage %q has %d bytes: %d elements of %s need %d", r.key, s.size, r.numel, r.dtype,
			r.bytes())
	}
	return typed{s, r.dtype, r.numel}, nil
}

// legacyMagic and legacyProtocol are the two numbers that begin a legacy checkpoint.
var legacyMagic, _ = new(big.Int).SetString("1950a86a20f9469cfc6c", 16)

const legacyProtocol = int64(1001)

// legacy is a checkpoint in legacy format. Its storages follow the pickles, so their positions are set last.
type legacy struct {
	stores map[string]typed
	views  []view
}

// view is a storage that is a part of another.
type view struct {
	part, of *storage
	offset   int64 // bytes
}

func readLegacy(src io.ReaderAt, size int64) (any, error) {
	at := int64(0)
	next := func(o pickle.Options) (any, error) {
		v, n, err := pickle.Decode(io.NewSectionReader(src, at, size-at), o)
		at += n
		return v, err
	}
	magic, err := next(pickle.Options{})
	if n, ok := magic.(*big.Int); err != nil || !ok || n.Cmp(legacyMagic) != 0 {
		var tar [5]byte
		if _, err := src.ReadAt(tar[:], 257); err == nil && string(tar[:]) == "ustar" {
			return nil, fmt.Errorf("a tar archive (PyTorch before 0.1.10): load and save it again with a newer PyTorch")
		}
		return nil, fmt.Errorf("not a PyTorch checkpoint: neither a zip archive nor the legacy magic number")
	}
	if v, err := next(pickle.Options{}); err != nil || v != legacyProtocol {
		return nil, fmt.Errorf("legacy checkpoint of protocol %v: expected %d", v, legacyProtocol)
	}
	info, err := next(pickle.Options{})
	if err != nil {
		return nil, err
	}
	if d, ok := info.(*Dict); ok {
		if little, ok := d.Get("little_endian"); ok && little != true {
			return nil, fmt.Errorf("big-endian checkpoint: save it again on a little-endian machine")
		}
	}
	l := &legacy{stores: map[string]typed{}}
	v, err := next(pickle.Options{Globals: globals(), Instances: true, Persistent: l.persistent})
	if err != nil {
		return nil, err
	}
	keys, err := next(pickle.Options{})
	if err != nil {
		return nil, fmt.Errorf("list of storages: %w", err)
	}
	return v, l.locate(src, at, size, keys)
}

func (l *legacy) persistent(id any) (any, error) {
	r, err := parseReference(id)
	if err != nil {
		return nil, err
	}
	s, ok := l.stores[r.key]
	if !ok {
		s = typed{&storage{size: r.bytes()}, r.dtype, r.numel}
		l.stores[r.key] = s
	}
	if s.dtype != r.dtype || s.numel != r.numel {
		return nil, fmt.Errorf("storage %q has %d elements of %s in one place and %d of %s in another", r.key, s.numel,
			s.dtype, r.numel, r.dtype)
	}
	if r.view == nil {
		return s, nil
	}
	t, ok := r.view.(Tuple)
	if !ok || len(t) != 3 {
		return nil, fmt.Errorf("view of storage %q is malformed", r.key)
	}
	offset, ok1 := t[1].(int64)
	numel, ok2 := t[2].(int64)
	if !ok1 || !ok2 || offset < 0 || numel < 0 || offset > r.numel || numel > r.numel-offset {
		return nil, fmt.Errorf("view of storage %q lies outside its %d elements", r.key, r.numel)
	}
	width := int64(elements.Sizes[r.dtype])
	part := &storage{size: numel * width}
	l.views = append(l.views, view{part, s.storage, offset * width})
	return typed{part, r.dtype, numel}, nil
}

// locate finds the storages: for each key, in order, the number of elements (8 bytes) and the data.
func (l *legacy) locate(src io.ReaderAt, at, size int64, keys any) error {
	list, ok := keys.(*List)
	if !ok || len(list.Items) != len(l.stores) {
		return fmt.Errorf("list of storages is malformed: expected %d keys", len(l.stores))
	}
	for _, k := range list.Items {
		key, _ := k.(string)
		s, ok := l.stores[key]
		if !ok || s.src != nil {
			return fmt.Errorf("list of storages: key %v is unknown or repeated", k)
		}
		var count [8]byte
		if n, _ := src.ReadAt(count[:], at); n < len(count) {
			return fmt.Errorf("truncated file: storage %q is missing; copy the file again", key)
		}
		if numel := binary.LittleEndian.Uint64(count[:]); numel != uint64(s.numel) {
			return fmt.Errorf("storage %q has %d elements: expected %d", key, numel, s.numel)
		}
		at += 8
		if s.size > size-at {
			return fmt.Errorf("truncated file: storage %q needs %d bytes at %d, found %d; copy the file again", key,
				s.size, at, size-at)
		}
		s.src, s.at = src, at
		at += s.size
	}
	for _, v := range l.views {
		v.part.src, v.part.at = src, v.of.at+v.offset
	}
	return nil
}
