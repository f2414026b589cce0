package torchfile

import (
	"archive/zip"
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/internal/files/pickle"
	"vsetrain/lab/try"
)

// TestSaveReadBack saves what PyTorch wrote, reads it again, and saves over the file it was read from.
func TestSaveReadBack(t *testing.T) {
	for _, format := range formats {
		path := filepath.Join(t.TempDir(), "a.pth")
		for name, check := range map[string]func(*testing.T, *Dict){"checkpoint": checkCheckpoint,
			"shared": checkViews} {
			var v any = mustLoad(t, name+format)
			for range 2 {
				try.Do(t, Save(path, v))
				var err error
				if v, err = Load(path); err != nil {
					t.Fatal(err)
				}
				check(t, v.(*Dict))
			}
		}
		if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
			t.Errorf("temporary files stay: %v", entries)
		}
	}
}

// TestSaveLayout checks what PyTorch's reader relies on: stored records, data aligned to 64 bytes, byte order, version.
func TestSaveLayout(t *testing.T) {
	w := try.Get(FromFloat32s([]int{2, 2}, []float32{1, 2, 3, 4}))(t)
	var b bytes.Buffer
	try.Do(t, write(&b, map[string]any{"fc.weight": w, "fc.alias": w}))
	z := try.Get(zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len())))(t)
	want := map[string]string{
		"archive/byteorder": "little", "archive/version": "3\n",
		"archive/data/0": "\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40\x00\x00\x80\x40",
	}
	for _, f := range z.File {
		at, err := f.DataOffset()
		if err != nil || at%64 != 0 || f.Method != zip.Store || f.Flags&8 != 0 {
			t.Errorf("%s: at %d, method %d, flags %#x, %v", f.Name, at, f.Method, f.Flags, err)
		}
		content := string(b.Bytes()[at : at+int64(f.UncompressedSize64)])
		if w, ok := want[f.Name]; ok && content != w {
			t.Errorf("%s is %q, want %q", f.Name, content, w)
		}
		delete(want, f.Name)
		if f.Name == "archive/data.pkl" && strings.Count(content, "FloatStorage") != 1 {
			t.Errorf("pickle %q", content)
		}
	}
	if len(want) > 0 {
		t.Errorf("records missing: %v", want)
	}
}

func TestSaveRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.pth")
	wide := try.Get(NewTensor("U16", []int{1}, []byte{1, 0}))(t)
	for _, c := range []struct {
		v    any
		want string
	}{
		{map[string]any{"w": wide}, "[w]: tensors of type U16 cannot be saved"},
		{&Tensor{DType: "F32"}, "without data"},
		{struct{}{}, "cannot write a value of type struct {}"},
	} {
		try.Fails(t, Save(path, c.v), c.want, path)
	}
	if err := Save(filepath.Join(dir, "none", "a.pth"), 1); err == nil {
		t.Error("missing folder accepted")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("files stay behind: %v", entries)
	}
}

func TestNewTensorRefuses(t *testing.T) {
	for _, c := range []struct {
		dtype string
		shape []int
		size  int
	}{{"F31", []int{1}, 4}, {"F32", []int{2}, 4}, {"F32", []int{1}, 5}, {"F32", []int{-1}, 0},
		{"U8", []int{math.MaxInt, 4}, 0}} {
		if _, err := NewTensor(c.dtype, c.shape, make([]byte, c.size)); err == nil {
			t.Errorf("%v accepted", c)
		}
	}
}

func TestTypesSurviveSave(t *testing.T) {
	d := mustLoad(t, "types_zip.pth")
	var b bytes.Buffer
	try.Do(t, write(&b, d))
	v := try.Get(read(bytes.NewReader(b.Bytes()), int64(b.Len())))(t)
	for k, x := range d.All() {
		y := get(t, v.(*Dict), k).(*Tensor)
		p, err1 := x.(*Tensor).Bytes()
		q, err2 := y.Bytes()
		if err1 != nil || err2 != nil || y.DType != x.(*Tensor).DType || !bytes.Equal(p, q) {
			t.Errorf("%v: %s %v, %v %v", k, y.DType, q, err1, err2)
		}
	}
	if _, ok := pickle.Text(get(t, mustLoad(t, "shared_zip.pth"), "device")); !ok {
		t.Error("device is no text")
	}
}
