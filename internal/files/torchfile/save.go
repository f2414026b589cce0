package torchfile

import (
	"archive/zip"
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/elements"
	"vsetrain/internal/files/pickle"
)

// Save writes v as a checkpoint in zip format, records stored uncompressed and aligned to 64 bytes, that torch.load
// reads with weights_only=True (unless v holds a Namespace: PyTorch then wants weights_only=False, or
// argparse.Namespace among its safe globals). v is built from the types that Load returns and Go's int, float32, []any,
// []string and map[string]any. Views of one storage stay views of one storage. The file appears complete or not at all.
func Save(path string, v any) error {
	if err := atomicfile.WriteFile(path, func(w io.Writer) error { return write(w, v) }); err != nil {
		return fmt.Errorf("torchfile: %w", err)
	}
	return nil
}

func write(w io.Writer, v any) error {
	s := saver{keys: map[*storage]string{}, dtypes: map[*storage]string{}}
	var p bytes.Buffer
	if err := pickle.Encode(&p, v, s.replace); err != nil {
		return err
	}
	z := newArchive(w)
	if err := z.record("data.pkl", p.Bytes()); err != nil {
		return err
	}
	if err := z.record("byteorder", []byte("little")); err != nil {
		return err
	}
	for _, st := range s.order {
		b, err := st.read(0, st.size)
		if err != nil {
			return err
		}
		if err := z.record("data/"+s.keys[st], b); err != nil {
			return err
		}
	}
	if err := z.record("version", []byte("3\n")); err != nil {
		return err
	}
	return z.zip.Close()
}

// saver turns tensors into calls and collects their storages.
type saver struct {
	keys   map[*storage]string
	dtypes map[*storage]string
	order  []*storage
}

// saveClasses is storageTypes the other way round.
var saveClasses = func() map[string]string {
	m := map[string]string{}
	for class, dtype := range storageTypes {
		m[dtype] = class
	}
	return m
}()

// replace turns a tensor into _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, OrderedDict()).
func (s *saver) replace(v any) (any, error) {
	t, ok := v.(*Tensor)
	if !ok {
		return v, nil
	}
	if t == nil || t.storage == nil {
		return nil, fmt.Errorf("a tensor without data")
	}
	class, ok := saveClasses[t.DType]
	if !ok {
		return nil, fmt.Errorf("tensors of type %s cannot be saved", t.DType)
	}
	key, ok := s.keys[t.storage]
	if !ok {
		key = strconv.Itoa(len(s.order))
		s.keys[t.storage], s.dtypes[t.storage] = key, t.DType
		s.order = append(s.order, t.storage)
	}
	if d := s.dtypes[t.storage]; d != t.DType {
		return nil, fmt.Errorf("one storage is viewed as %s and as %s", d, t.DType)
	}
	numel := t.storage.size / int64(elements.Sizes[t.DType])
	id := pickle.PersistentID{ID: Tuple{"storage", pickle.Name{Module: "torch", Name: class}, key, "cpu", numel}}
	hooks := pickle.Reduce{Func: pickle.Name{Module: "collections", Name: "OrderedDict"}}
	call := pickle.Reduce{
		Func: pickle.Name{Module: "torch._utils", Name: "_rebuild_tensor_v2"},
		Args: Tuple{id, t.offset, sizes(t.Shape), sizes(t.stride), t.RequiresGrad && !t.Parameter, hooks},
	}
	if t.Parameter {
		call = pickle.Reduce{
			Func: pickle.Name{Module: "torch._utils", Name: "_rebuild_parameter"},
			Args: Tuple{call, t.RequiresGrad, hooks},
		}
	}
	return call, nil
}

func sizes(d []int) Tuple {
	t := make(Tuple, len(d))
	for i, v := range d {
		t[i] = v
	}
	return t
}

// archiveWriter writes aligned, stored records.
type archiveWriter struct {
	out *countingWriter
	zip *zip.Writer
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

func newArchive(w io.Writer) *archiveWriter {
	out := &countingWriter{w: w}
	return &archiveWriter{out, zip.NewWriter(out)}
}

// record appends a record whose data start at a multiple of 64: an extra field "FB" pads the local header, as PyTorch
// does.
func (a *archiveWriter) record(name string, data []byte) error {
	const align, localHeader, extraHeader = 64, 30, 4
	name = "archive/" + name
	if err := a.zip.Flush(); err != nil {
		return err
	}
	start := a.out.n + localHeader + int64(len(name)) + extraHeader
	pad := int(-start & (align - 1))
	extra := append([]byte{'F', 'B', byte(pad), byte(pad >> 8)}, bytes.Repeat([]byte{'Z'}, pad)...)
	w, err := a.zip.CreateRaw(&zip.FileHeader{
		Name:               name,
		Method:             zip.Store,
		CRC32:              crc32.ChecksumIEEE(data),
		CompressedSize64:   uint64(len(data)),
		UncompressedSize64: uint64(len(data)),
		Extra:              extra,
	})
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}
