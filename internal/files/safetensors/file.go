package safetensors

import (
	"encoding/binary"
	"fmt"
	"maps"

	"vsetrain/internal/files/mapped"
	"vsetrain/internal/files/regular"
)

// maxHeader bounds the header; the reference implementation has the same bound.
const maxHeader = 100_000_000

// File is an open file, mapped read-only: opening reads only the header. Several goroutines may call its methods at
// once, except Close. If the file is shortened while it is open, methods return an error; read the Data of tensors in
// View.
type File struct {
	path     string
	mem      *mapped.File // nil for an empty file
	all      []byte       // the whole file
	tensors  []Tensor
	index    map[string]int
	metadata map[string]string
}

// Open opens path and checks the whole header: the tensors match their shapes, follow one another without hole or
// overlap, and end with the file.
func Open(path string) (*File, error) {
	f := &File{path: path}
	if err := f.load(); err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	if err := f.parse(); err != nil {
		_ = f.mem.Close()
		return nil, regular.Explain(fmt.Errorf("safetensors: %s: %w", path, err), path, regular.Safetensors)
	}
	return f, nil
}

// load maps the file.
func (f *File) load() error {
	in, size, err := regular.Open(f.path)
	if err != nil {
		return err
	}
	defer in.Close()
	if size == 0 { // nothing cannot be mapped
		return nil
	}
	f.mem, err = mapped.Map(in, size)
	f.all = f.mem.Bytes()
	return err
}

func (f *File) parse() (err error) {
	defer f.mem.Recover(mapped.Watch(), &err)
	if len(f.all) < 8 {
		return fmt.Errorf("truncated file: it has only %d bytes", len(f.all))
	}
	n := binary.LittleEndian.Uint64(f.all)
	if n > maxHeader {
		return fmt.Errorf("not a safetensors file: it claims a header of %d bytes, at most %d expected", n, maxHeader)
	}
	if n > uint64(len(f.all)-8) {
		return fmt.Errorf("truncated file: expected a header of %d bytes, found %d", n, len(f.all)-8)
	}
	entries, err := f.parseHeader(f.all[8 : 8+n])
	if err != nil {
		return fmt.Errorf("bad header: %w", err)
	}
	data := f.all[8+n:]
	if err := checkLayout(entries, int64(len(data))); err != nil {
		return err
	}
	f.index = make(map[string]int, len(entries))
	f.tensors = make([]Tensor, len(entries))
	for i, e := range entries {
		f.tensors[i] = Tensor{Name: e.name, DType: e.dtype, Shape: e.shape, Data: data[e.begin:e.end:e.end]}
		f.index[e.name] = i
	}
	return nil
}

// Names returns the names of the tensors in the order of their data.
func (f *File) Names() (names []string) {
	for _, t := range f.tensors {
		names = append(names, t.Name)
	}
	return names
}

// Tensor returns a tensor. Its Data is a read-only view of the file, valid until Close. See View.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.index[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}

// Metadata returns a copy of the header's text entries.
func (f *File) Metadata() map[string]string { return maps.Clone(f.metadata) }

// View calls use, which reads the Data of tensors, and returns an error if the file became shorter or cannot be read.
func (f *File) View(use func() error) (err error) {
	defer f.mem.Recover(mapped.Watch(), &err)
	return use()
}

// Float32s is Tensor.Float32s for the tensor of that name.
func (f *File) Float32s(name string, dst []float32) error {
	t, ok := f.Tensor(name)
	if !ok {
		return fmt.Errorf("safetensors: %s: no tensor %q", f.path, name)
	}
	if err := f.View(func() error { return t.Float32s(dst) }); err != nil {
		return fmt.Errorf("safetensors: %s: tensor %q: %w", f.path, name, err)
	}
	return nil
}

// Close releases the file; the Data of its tensors must not be used afterwards. A second Close does nothing.
func (f *File) Close() error {
	f.all, f.tensors, f.index = nil, nil, nil
	if err := f.mem.Close(); err != nil {
		return fmt.Errorf("safetensors: close %s: %w", f.path, err)
	}
	return nil
}
