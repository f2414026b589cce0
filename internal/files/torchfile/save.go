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

// Save writes v as a checkpoint in zip format that torch.load reads with weights_only=True. If v holds a Namespace,
// PyTorch needs weights_only=False, or argparse.Namespace among its safe globals. v is built from the types that Load
// returns and Go's int, float32, []any, []string and map[string]any. Views of one storage stay views of one storage.
// The file appears complete or not at all.
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
	z := archiveWriter{zip: zip.NewWriter(w)}
	z.record("data.pkl", p.Bytes())
	z.record("byteorder", []byte("little"))
	for _, st := range s.order {
		b, err := st.read(0, st.size)
		if err != nil {
			return err
		}
		z.record("data/"+s.keys[st], b)
	}
	z.record("version", []byte("3\n"))
	return z.close()
}

// saver turns tensors into calls and collects their storages.
type saver struct {
	keys   map[*storage]string
	dtypes map[*storage]string
	order  []*storage
}

// replace turns a tensor into _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, OrderedDict()).
func (s *saver) replace(v any) (any, error) {
	t, ok := v.(*Tensor)
	if !ok {
		return v, nil
	}
	if t == nil || t.storage == nil {
		return nil, fmt.Errorf("a tensor without data")
	}
	class := storageClass(t.DType)
	if class == "" {
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
	call := rebuild("_rebuild_tensor_v2", id, t.offset, sizes(t.Shape), sizes(t.stride),
		t.RequiresGrad && !t.Parameter, hooks)
	if t.Parameter {
		call = rebuild("_rebuild_parameter", call, t.RequiresGrad, hooks)
	}
	return call, nil
}

// rebuild calls a function of torch._utils.
func rebuild(function string, args ...any) pickle.Reduce {
	return pickle.Reduce{Func: pickle.Name{Module: "torch._utils", Name: function}, Args: args}
}

func sizes(d []int) Tuple {
	t := make(Tuple, len(d))
	for i, v := range d {
		t[i] = v
	}
	return t
}

// archiveWriter writes stored records, aligned to 64 bytes. After an error it writes nothing more.
type archiveWriter struct {
	zip *zip.Writer
	at  int64 // bytes written
	err error
}

// record appends a record whose data start at a multiple of 64: like PyTorch, it pads the local header with an extra
// field "FB".
func (a *archiveWriter) record(name string, data []byte) {
	const align, localHeader, extraHeader = 64, 30, 4
	name = "archive/" + name
	start := a.at + localHeader + int64(len(name)) + extraHeader
	pad := int(-start & (align - 1))
	if a.at = start + int64(pad) + int64(len(data)); a.err != nil {
		return
	}
	w, err := a.zip.CreateRaw(&zip.FileHeader{
		Name:               name,
		Method:             zip.Store,
		CRC32:              crc32.ChecksumIEEE(data),
		CompressedSize64:   uint64(len(data)),
		UncompressedSize64: uint64(len(data)),
		Extra:              append([]byte{'F', 'B', byte(pad), byte(pad >> 8)}, bytes.Repeat([]byte{'Z'}, pad)...),
	})
	if err == nil {
		_, err = w.Write(data)
	}
	a.err = err
}

// close writes the directory of the archive and returns the first error.
func (a *archiveWriter) close() error {
	if a.err != nil {
		return a.err
	}
	return a.zip.Close()
}
