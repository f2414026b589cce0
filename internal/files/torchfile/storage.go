package torchfile

import (
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"vsetrain/internal/files/elements"
	"vsetrain/internal/files/pickle"
)

// storage is a range of bytes that tensors view, in memory or in a file.
type storage struct {
	size int64 // bytes
	data []byte
	src  io.ReaderAt // when data is nil
	at   int64       // in src
	crc  uint32      // of all bytes; 0: unknown
}

// read returns size bytes from byte offset. The caller has checked the range and must not change the bytes.
func (s *storage) read(offset, size int64) ([]byte, error) {
	if s.data != nil || size == 0 {
		return s.data[min(offset, int64(len(s.data))):][:size], nil
	}
	if s.src == nil {
		return nil, fmt.Errorf("the storage has no data")
	}
	b := make([]byte, size)
	if n, err := s.src.ReadAt(b, s.at+offset); n < len(b) {
		return nil, fmt.Errorf("storage at byte %d: expected %d bytes, found %d: %w", s.at+offset, size, n, err)
	}
	if size == s.size && s.crc != 0 && crc32.ChecksumIEEE(b) != s.crc {
		return nil, fmt.Errorf("storage at byte %d is corrupt: its checksum is wrong; copy the file again", s.at)
	}
	return b, nil
}

// storageTypes maps PyTorch's storage classes to element types.
var storageTypes = map[string]string{
	"DoubleStorage": "F64", "FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16",
	"LongStorage": "I64", "IntStorage": "I32", "ShortStorage": "I16", "CharStorage": "I8", "ByteStorage": "U8",
	"BoolStorage": "BOOL",
}

// storageClass returns the class of storages of an element type, or "".
func storageClass(dtype string) string {
	for class, t := range storageTypes {
		if t == dtype {
			return class
		}
	}
	return ""
}

// typed is a storage and the type a persistent id gives it.
type typed struct {
	*storage
	dtype string
	numel int64
}

// reference is a persistent id: ('storage', class, key, location, numel) and, in the legacy format, a view.
type reference struct {
	dtype, key string
	numel      int64
	view       any
}

func parseReference(id any) (reference, error) {
	var r reference
	t, ok := id.(Tuple)
	if !ok || len(t) == 0 {
		return r, fmt.Errorf("reference to a storage is a %s: expected a tuple", pickle.TypeName(id))
	}
	if t[0] == "module" {
		return r, fmt.Errorf("a whole model is pickled in it; %s", saveState)
	}
	if t[0] != "storage" || len(t) != 5 && len(t) != 6 {
		return r, fmt.Errorf("reference to a storage is a tuple of %d: expected 5 or 6", len(t))
	}
	class, ok1 := t[1].(*pickle.Class)
	key, ok2 := t[2].(string)
	numel, ok3 := t[4].(int64)
	if !ok1 || !ok2 || !ok3 || numel < 0 || numel > math.MaxInt64/8 {
		return r, fmt.Errorf("reference to a storage is malformed")
	}
	dtype, ok := storageClasses[class.Name]
	if !ok {
		return r, fmt.Errorf("%s is not a storage class", class.Name)
	}
	r = reference{dtype: dtype, key: key, numel: numel}
	if len(t) == 6 {
		r.view = t[5]
	}
	return r, nil
}

// bytes returns the size of the storage.
func (r reference) bytes() int64 { return r.numel * int64(elements.Sizes[r.dtype]) }

// storageClasses is storageTypes under the full names; untyped storages count bytes.
var storageClasses = func() map[string]string {
	m := map[string]string{"torch.storage.UntypedStorage": "U8", "torch.storage._UntypedStorage": "U8",
		"torch.UntypedStorage": "U8"}
	for class, dtype := range storageTypes {
		m["torch."+class], m["torch.cuda."+class] = dtype, dtype
	}
	return m
}()
