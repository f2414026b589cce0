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

// File is an open file. It is mapped read-only, so that opening costs the header alone. Methods
// but Close may be called from several goroutines at once. The file must not be shortened while it is open: methods
// return an error then, and what reads the Data of tensors does so in View.
type File struct {
	path     string
	mem      *mapped.File // nil for an empty file
	all      []byte       // the whole file
	tensors  []Tensor
	index    map[string]int
	metadata map[string]string
}

// Open opens path and checks all of the header: that the tensors fit their shapes, follow one another without hole or
// overlap and end with the file.
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
	if int64(int(size)) != size {
		return fmt.Errorf("%s is too large for this machine: %d bytes", f.path, size)
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
	entries, metadata, err := parseHeader(f.all[8 : 8+n])
	if err != nil {
		return fmt.Errorf("bad header: %w", err)
	}
	data := f.all[8+n:]
	if err := checkLayout(entries, int64(len(data))); err != nil {
		return err
	}
	f.metadata = metadata
	f.index = make(map[string]int, len(entries))
	f.tensors = make([]Tensor, len(entries))
	for i, e := range entries {
		f.tensors[i] = Tensor{Name: e.name, DType: e.dtype, Shape: e.shape, Data: data[e.begin:e.end:e.end]}
		f.index[e.name] = i
	}
	return nil
}

// Names returns the names of the tensors in the order of their data.
func (f *File) Names() []string {
	names := make([]string, len(f.tensors))
	for i := range f.tensors {
		names[i] = f.tensors[i].Name
	}
	return names
}

// Tensor returns a tensor; its Data is a read-only view of the file that dies with Close. See View.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.index[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}

// Metadata returns a copy of the header's text entries, never nil.
func (f *File) Metadata() map[string]string {
	m := maps.Clone(f.metadata)
	if m == nil {
		m = map[string]string{}
	}
	return m
}

// View calls use, which reads the Data of tensors. Where that fails because the file became shorter or cannot be read,
// it is an error.
func (f *File) View(use func() error) (err error) {
	defer f.mem.Recover(mapped.Watch(), &err)
	return use()
}

// Float32s writes the elements of a tensor into dst, which must have as many, converted to float32 (float64 and
// integers round to nearest).
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
