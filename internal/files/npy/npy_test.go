package npy

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
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
			if f.Rows() != 2 || f.RowLen() != 12 || !slices.Equal(f.Shape, []int{2, 3, 4}) || f.Fortran {
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
			try.Fails(t, f.ReadRow(row[:11], 0), "destination has 11 elements")
			if all := try.Get(f.Float64s())(t); len(all) != 24 || all[23] != float64(ramp(23)) {
				t.Errorf("%s: Float64s %v", name, all)
			}
			try.Do(t, f.Close())
			try.Fails(t, f.ReadRow(row, 0), "closed")
		}
	}
}

func TestInts(t *testing.T) {
	for _, name := range []string{"i4", "i8", "u1"} {
		path := filepath.Join(try.Fixtures(t, "npy"), name+".npy")
		for _, f := range []*File{mustOpen(t, path), unmapped(t, path)} {
			if v := try.Get(f.Ints())(t); !slices.Equal(v, []int64{0, 1, 2, 3, 4, 5}) {
				t.Errorf("%s: %v", name, v)
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

// Objects are read as NumPy wrote them, also from the protocol 2 pickle with byte strings by which Python 2 wrote the
// sizes of GSMN; a header that promises more objects than the pickle has is an error.
func TestReadObjects(t *testing.T) {
	dir := try.Fixtures(t, "npy")
	python2 := try.Get(Header(Object, []int{1}))(t)
	python2 = append(python2, "\x80\x02cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\n"+
		"q\x02K\x00\x85U\x01b\x87Rq\x03(K\x01K\x01\x85"+
		"cnumpy\ndtype\n"+
		"q\x04U\x02O8K\x00K\x01\x87Rq\x05(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK?tb\x89]q\x06"+
		"}q\x07(U\x07image_wM\x80\x02U\x07image_hM\xe0\x01uatb."...)
	sizes := filepath.Join(dir, "sizes.npy")
	more := strings.Replace(string(try.Get(os.ReadFile(sizes))(t)), "(3,)", "(4,)", 1)
	made := try.Files(t, map[string]string{"python2.npy": string(python2), "more.npy": more})
	for path, n := range map[string]int{sizes: 3, filepath.Join(dir, "sizes_p2.npy"): 3,
		filepath.Join(made, "python2.npy"): 1} {
		v := try.Get(ReadObjects(path))(t)
		if len(v) != n {
			t.Fatalf("%s: %v", path, v)
		}
		for i := range v {
			w, _ := v[i].(*pickle.Dict).Get("image_w")
			h, _ := v[i].(*pickle.Dict).Get("image_h")
			if w != int64(640+i) || h != int64(480-i) {
				t.Errorf("%s: object %d is %v x %v", path, i, w, h)
			}
		}
	}
	f := mustOpen(t, sizes)
	if f.DType != Object || f.Rows() != 3 {
		t.Errorf("type %s, %d rows", f.DType, f.Rows())
	}
	try.Refuses(f.Ints())(t, "array of Python objects")
	try.Refuses(ReadObjects(filepath.Join(dir, "f4.npy")))(t, "expected Python objects")
	try.Refuses(ReadObjects(filepath.Join(made, "more.npy")))(t, "3 objects of type |O: the header's shape [4]")
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
