package npy

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"vsetrain/internal/files/half"
	"vsetrain/internal/files/pickle"
	"vsetrain/lab/try"
)

// ramp is element i of the arrays [2, 3, 4] in testdata/files.zip.
func ramp(i int) float32 { return float32(i-5) / 4 }

func mustOpen(t *testing.T, path string) *File {
	t.Helper()
	f := try.Get(Open(path))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

// unmapped returns the file at path read with ReadAt, as on systems without mmap.
func unmapped(t *testing.T, path string) *File {
	t.Helper()
	f := try.Get(OpenUnmapped(path))(t)
	if f.mapped != nil {
		t.Fatalf("%s is mapped", path)
	}
	return f
}

func TestReadRowsOfNumPy(t *testing.T) {
	dir := try.Fixtures(t, "npy")
	for _, name := range []string{"f4", "f2", "f8", "version2"} {
		path := filepath.Join(dir, name+".npy")
		for _, f := range []*File{mustOpen(t, path), unmapped(t, path)} {
			if f.Rows() != 2 || f.RowLen() != 12 || !reflect.DeepEqual(f.Shape, []int{2, 3, 4}) || f.Fortran {
				t.Fatalf("%s: %d rows of %d, shape %v", name, f.Rows(), f.RowLen(), f.Shape)
			}
			row := make([]float32, 12)
			for r := range 2 {
				try.Do(t, f.ReadRow(row, r))
				for i, v := range row {
					if v != ramp(12*r+i) {
						t.Fatalf("%s: row %d element %d is %v, want %v", name, r, i, v, ramp(12*r+i))
					}
				}
			}
			halves := make([]uint16, 12)
			if err := f.ReadHalves(halves, 1); (err == nil) != (f.DType == F16) {
				t.Errorf("%s: half precision: error %v", name, err)
			} else if err == nil {
				for i, h := range halves {
					if half.Float32(h) != ramp(12+i) {
						t.Errorf("%s: element %d is %#x, want the half of %v", name, i, h, ramp(12+i))
					}
				}
			}
			for _, bad := range []int{-1, 2, math.MaxInt} {
				try.Fails(t, f.ReadRow(row, bad), "out of range: the file has 2 rows")
			}
			if err := f.ReadRow(row[:11], 0); err == nil {
				t.Errorf("%s: short destination accepted", name)
			}
			all, err := f.Float64s()
			if err != nil || len(all) != 24 || all[23] != float64(ramp(23)) {
				t.Errorf("%s: Float64s %v, %v", name, all, err)
			}
			try.Do(t, f.Close())
			if err := f.ReadRow(row, 0); err == nil {
				t.Errorf("%s: closed file read", name)
			}
		}
	}
}

func TestInts(t *testing.T) {
	for _, name := range []string{"i4", "i8", "u1"} {
		path := filepath.Join(try.Fixtures(t, "npy"), name+".npy")
		for _, f := range []*File{mustOpen(t, path), unmapped(t, path)} {
			v, err := f.Ints()
			if err != nil || !reflect.DeepEqual(v, []int64{0, 1, 2, 3, 4, 5}) {
				t.Errorf("%s: %v, %v", name, v, err)
			}
			try.Fails(t, f.ReadRow(make([]float32, 2), 0), "expected rows of float16, float32 or float64, found ")
		}
	}
	f := mustOpen(t, filepath.Join(try.Fixtures(t, "npy"), "f8.npy"))
	try.Refuses(f.Ints())(t, "element 0 is -1.25: expected an integer")
}

func TestFortranOrder(t *testing.T) {
	f := mustOpen(t, filepath.Join(try.Fixtures(t, "npy"), "fortran.npy"))
	try.Fails(t, f.ReadRow(make([]float32, 12), 0), "np.ascontiguousarray")
	v := try.Get(f.Float64s())(t)
	for i := range v {
		if v[i] != float64(ramp(i)) {
			t.Fatalf("element %d is %v, want %v", i, v[i], ramp(i))
		}
	}
}

func TestReadObjects(t *testing.T) {
	dir := try.Fixtures(t, "npy")
	for _, name := range []string{"sizes", "sizes_p2"} {
		v, err := ReadObjects(filepath.Join(dir, name+".npy"))
		if err != nil || len(v) != 3 {
			t.Fatalf("%s: %v, %v", name, v, err)
		}
		for i := range v {
			w, _ := v[i].(*pickle.Dict).Get("image_w")
			h, _ := v[i].(*pickle.Dict).Get("image_h")
			if w != int64(640+i) || h != int64(480-i) {
				t.Errorf("%s: object %d is %v x %v", name, i, w, h)
			}
		}
	}
	f := mustOpen(t, filepath.Join(dir, "sizes.npy"))
	if f.DType != Object || f.Rows() != 3 {
		t.Errorf("type %s, %d rows", f.DType, f.Rows())
	}
	if _, err := f.Ints(); err == nil {
		t.Error("objects read as integers")
	}
	try.Refuses(ReadObjects(filepath.Join(dir, "f4.npy")))(t, "expected Python objects")
}

// TestPython2Objects reads a protocol 2 pickle with byte strings, as Python 2 wrote the sizes of GSMN.
func TestPython2Objects(t *testing.T) {
	head := try.Get(encodeHeader(Object, []int{1}))(t)
	body := "\x80\x02cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\n" +
		"q\x02K\x00\x85U\x01b\x87Rq\x03(K\x01K\x01\x85" +
		"cnumpy\ndtype\n" +
		"q\x04U\x02O8K\x00K\x01\x87Rq\x05(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK?tb\x89]q\x06" +
		"}q\x07(U\x07image_wK\x05U\x07image_hK\x06uatb."
	path := filepath.Join(t.TempDir(), "a.npy")
	try.Do(t, os.WriteFile(path, append(head, body...), 0o666))
	v, err := ReadObjects(path)
	if err != nil || len(v) != 1 {
		t.Fatalf("%v, %v", v, err)
	}
	if h, _ := v[0].(*pickle.Dict).Get("image_h"); h != int64(6) {
		t.Fatalf("image_h is %v", h)
	}
}

// TestObjectsMustFitTheShape reads a file whose header promises more objects than its pickle holds.
func TestObjectsMustFitTheShape(t *testing.T) {
	b := try.Get(os.ReadFile(filepath.Join(try.Fixtures(t, "npy"), "sizes.npy")))(t)
	path := filepath.Join(t.TempDir(), "a.npy")
	try.Do(t, os.WriteFile(path, []byte(strings.Replace(string(b), "(3,)", "(4,)", 1)), 0o666))
	try.Refuses(ReadObjects(path))(t, "3 objects of type |O: the header's shape [4]")
}

func TestReadRowDoesNotAllocate(t *testing.T) {
	f := mustOpen(t, filepath.Join(try.Fixtures(t, "npy"), "f2.npy"))
	row, halves := make([]float32, 12), make([]uint16, 12)
	if n := testing.AllocsPerRun(100, func() {
		try.Do(t, errors.Join(f.ReadRow(row, 1), f.ReadHalves(halves, 1)))
	}); n != 0 && f.mapped != nil {
		t.Errorf("%v allocations per row", n)
	}
}

func BenchmarkReadRow(b *testing.B) {
	for _, dtype := range []DType{F16, F32} {
		b.Run(string(dtype), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "a.npy")
			w := try.Get(Create(path, dtype, []int{4, 36, 2048}))(b)
			data := make([]float32, 4*36*2048)
			for i := range data {
				data[i] = max(0, float32(i%1000)-800) / 37
			}
			try.Do(b, w.WriteFloat32(data))
			try.Do(b, w.Close())
			f := try.Get(Open(path))(b)
			defer f.Close()
			row := make([]float32, 36*2048)
			b.SetBytes(int64(4 * len(row)))
			i := 0
			for b.Loop() {
				try.Do(b, f.ReadRow(row, i&3))
				i++
			}
		})
	}
}
