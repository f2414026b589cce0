package npy

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

func writeAll(t *testing.T, dtype DType, shape []int, data []float32) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.npy")
	w := try.Get(Create(path, dtype, shape))(t)
	try.Do(t, w.WriteFloat32(data))
	try.Do(t, w.Close())
	return path
}

// onlyFile fails when the folder of path holds anything else: no temporary file may stay behind.
func onlyFile(t *testing.T, path string, want ...string) {
	t.Helper()
	entries := try.Get(os.ReadDir(filepath.Dir(path)))(t)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !reflect.DeepEqual(names, want) {
		t.Errorf("folder holds %v, want %v", names, want)
	}
}

func TestWriteReadBack(t *testing.T) {
	data := make([]float32, 3*bufElements/2*2) // more than one conversion buffer
	for i := range data {
		data[i] = float32(i % 251)
	}
	shape := []int{2, len(data) / 2}
	for _, dtype := range []DType{F32, F16, F64, I32, I64, U8} {
		path := writeAll(t, dtype, shape, data)
		onlyFile(t, path, "a.npy")
		f := mustOpen(t, path)
		if f.DType != dtype || !reflect.DeepEqual(f.Shape, shape) || f.offset%alignment != 0 {
			t.Errorf("%s: type %s, shape %v, data at %d", dtype, f.DType, f.Shape, f.offset)
		}
		got := try.Get(f.Ints())(t)
		for i := range got {
			if got[i] != int64(data[i]) {
				t.Fatalf("%s: element %d is %v, want %v", dtype, i, got[i], data[i])
			}
		}
	}
}

// TestHeaderIsNumPys compares with a header as numpy.save writes it, up to the padding.
func TestHeaderIsNumPys(t *testing.T) {
	for _, c := range []struct {
		shape []int
		want  string
	}{
		{[]int{}, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }"},
		{[]int{3}, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"},
		{[]int{2, 3, 4}, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 4), }"},
	} {
		b, err := encodeHeader(F32, c.shape)
		if err != nil || len(b)%64 != 0 || b[len(b)-1] != '\n' || strings.TrimSpace(string(b[10:])) != c.want {
			t.Errorf("shape %v: %d bytes %q, %v", c.shape, len(b), b, err)
		}
	}
	shape := []int{0}
	for range 20 { // headers of all lengths: some end just before a multiple of 64
		shape = append(shape, 1)
		shape[0] = 0
		small, _ := encodeHeader(F32, shape)
		shape[0] = math.MaxInt
		large, _ := encodeHeader(F32, shape)
		if len(small) != len(large) {
			t.Errorf("header of %d dimensions grows from %d to %d bytes with the row count", len(shape), len(small),
				len(large))
		}
	}
}

func TestWriteScalarAndEmpty(t *testing.T) {
	f := mustOpen(t, writeAll(t, F32, nil, []float32{7}))
	if v, err := f.Float64s(); err != nil || len(v) != 1 || v[0] != 7 || f.Rows() != 1 || f.RowLen() != 1 {
		t.Errorf("scalar: %v, %v", v, err)
	}
	f = mustOpen(t, writeAll(t, F16, []int{0, 36}, nil))
	if v, err := f.Float64s(); err != nil || len(v) != 0 || f.Rows() != 0 || f.RowLen() != 36 {
		t.Errorf("empty: %v, %v", v, err)
	}
}

func TestUnknownRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.npy")
	w := try.Get(CreateUnknownRows(path, I32, []int{2}))(t)
	for i := range 1234 {
		try.Do(t, w.WriteInts([]int64{int64(i), -int64(i)}))
	}
	try.Do(t, w.Close())
	f := mustOpen(t, path)
	v, err := f.Ints()
	if err != nil || !reflect.DeepEqual(f.Shape, []int{1234, 2}) || v[2467] != -1233 {
		t.Fatalf("shape %v, %v", f.Shape, err)
	}
}

func TestWriterRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.npy")
	try.Do(t, WriteFloat32(path, []int{1}, []float32{5}))
	start := func(dtype DType, shape ...int) *Writer {
		return try.Get(Create(path, dtype, shape))(t)
	}
	grow := try.Get(CreateUnknownRows(path, F32, []int{2}))(t)
	for _, c := range []struct {
		name string
		w    *Writer
		v    []float32
		want string
	}{
		{"short", start(F32, 3), []float32{1, 2}, "2 elements written, shape [3] needs 3"},
		{"long", start(F32, 3), []float32{1, 2, 3, 4}, "4 elements are too many: shape [3] holds 3"},
		{"too large for float16", start(F16, 3), []float32{1, 7e4, 2}, "element 1 is 70000, which <f2 cannot hold"},
		{"fraction as integer", start(I32, 1), []float32{0.5}, "element 0 is 0.5, which <i4 cannot hold"},
		{"negative byte", start(U8, 1), []float32{-1}, "cannot hold"},
		{"nan as integer", start(I64, 1), []float32{float32(math.NaN())}, "cannot hold"},
		{"half a row", grow, []float32{1, 2, 3}, "not a multiple of the row length 2"},
	} {
		err := c.w.WriteFloat32(c.v)
		if err == nil {
			err = c.w.Close()
		} else {
			c.w.Abort()
		}
		try.Fails(t, err, c.want)
	}
	onlyFile(t, path, "a.npy") // and it is still the old one:
	if v, err := mustOpen(t, path).Float64s(); err != nil || v[0] != 5 {
		t.Errorf("the old file is gone: %v, %v", v, err)
	}
	if err := start(U8, 1).WriteInts([]int64{256}); err == nil {
		t.Error("256 written as a byte")
	}
	for _, c := range []struct {
		dtype DType
		shape []int
	}{{Object, nil}, {">f4", nil}, {F32, []int{-1}}, {F32, []int{math.MaxInt, 2}}, {F32, make([]int, 100)}} {
		if _, err := Create(path, c.dtype, c.shape); err == nil {
			t.Errorf("type %s, shape %v accepted", c.dtype, c.shape)
		}
	}
	if _, err := Create(filepath.Join(dir, "none", "a.npy"), F32, nil); err == nil {
		t.Error("missing folder accepted")
	}
}

func TestWriterCloseTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.npy")
	w := try.Get(Create(path, F32, []int{1}))(t)
	try.Do(t, w.WriteFloat32([]float32{1}))
	try.Do(t, w.Close())
	w.Abort()
	if w.Close() == nil || w.WriteFloat32(nil) == nil {
		t.Error("closed writer used")
	}
	onlyFile(t, path, "a.npy")
}
