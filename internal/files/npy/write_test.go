package npy

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
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

// onlyFile fails if the folder of path holds anything else, such as a temporary file.
func onlyFile(t *testing.T, path string) {
	t.Helper()
	if all := try.Get(os.ReadDir(filepath.Dir(path)))(t); len(all) != 1 || all[0].Name() != filepath.Base(path) {
		t.Errorf("folder holds %v", all)
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
		onlyFile(t, path)
		f := mustOpen(t, path)
		if f.DType != dtype || !slices.Equal(f.Shape, shape) || f.offset%alignment != 0 {
			t.Errorf("%s: type %s, shape %v, data at %d", dtype, f.DType, f.Shape, f.offset)
		}
		for i, got := range try.Get(f.Ints())(t) {
			if got != int64(data[i]) {
				t.Fatalf("%s: element %d is %v, want %v", dtype, i, got, data[i])
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
		b, err := Header(F32, c.shape)
		if err != nil || len(b)%64 != 0 || b[len(b)-1] != '\n' || strings.TrimSpace(string(b[10:])) != c.want {
			t.Errorf("shape %v: %d bytes %q, %v", c.shape, len(b), b, err)
		}
	}
	shape := []int{0}
	for range 20 { // headers of all lengths: some end just before a multiple of 64
		shape = append(shape, 1)
		shape[0] = 0
		small, _ := Header(F32, shape)
		shape[0] = math.MaxInt
		large, _ := Header(F32, shape)
		if len(small) != len(large) {
			t.Errorf("header of %d dimensions grows from %d to %d bytes with the row count", len(shape), len(small),
				len(large))
		}
	}
}

func TestWriteScalarAndEmpty(t *testing.T) {
	for _, c := range []struct {
		shape        []int
		values       []float32
		rows, rowLen int
	}{{nil, []float32{7}, 1, 1}, {[]int{0, 36}, nil, 0, 36}} {
		f := mustOpen(t, writeAll(t, F32, c.shape, c.values))
		if v := try.Get(f.Float64s())(t); fmt.Sprint(v) != fmt.Sprint(c.values) || f.Rows() != c.rows ||
			f.RowLen() != c.rowLen {
			t.Errorf("shape %v: %v, %d rows of %d", c.shape, v, f.Rows(), f.RowLen())
		}
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
	if v := try.Get(f.Ints())(t); !slices.Equal(f.Shape, []int{1234, 2}) || v[2467] != -1233 {
		t.Fatalf("shape %v", f.Shape)
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
		w    *Writer
		v    []float32
		want string
	}{
		{start(F32, 3), []float32{1, 2}, "2 elements written, shape [3] needs 3"},
		{start(F32, 3), []float32{1, 2, 3, 4}, "4 elements are too many: shape [3] holds 3"},
		{start(F16, 3), []float32{1, 7e4, 2}, "element 1 is 70000, which <f2 cannot hold"},
		{start(I32, 1), []float32{0.5}, "element 0 is 0.5, which <i4 cannot hold"},
		{start(U8, 1), []float32{-1}, "cannot hold"},
		{start(I64, 1), []float32{float32(math.NaN())}, "cannot hold"},
		{grow, []float32{1, 2, 3}, "not a multiple of the row length 2"},
	} {
		err := c.w.WriteFloat32(c.v)
		if err == nil {
			err = c.w.Close()
		}
		c.w.Abort()
		try.Fails(t, err, c.want)
	}
	onlyFile(t, path) // and it is still the old one:
	if v := try.Get(mustOpen(t, path).Float64s())(t); v[0] != 5 {
		t.Errorf("the old file is gone: %v", v)
	}
	try.Fails(t, start(U8, 1).WriteInts([]int64{256}), "cannot hold")
	for _, c := range []struct {
		dtype DType
		shape []int
	}{{Object, nil}, {">f4", nil}, {F32, []int{-1}}, {F32, []int{math.MaxInt, 2}}, {F32, make([]int, 100)}} {
		if _, err := Create(path, c.dtype, c.shape); err == nil {
			t.Errorf("type %s, shape %v accepted", c.dtype, c.shape)
		}
	}
	try.Refuses(Create(filepath.Join(dir, "none", "a.npy"), F32, nil))(t, "make the folder")
	w := start(F32, 1)
	try.Do(t, w.WriteFloat32([]float32{1}))
	try.Do(t, w.Close())
	w.Abort()
	try.Fails(t, w.Close(), "the writer is closed")
	try.Fails(t, w.WriteFloat32(nil), "the writer is closed")
}
