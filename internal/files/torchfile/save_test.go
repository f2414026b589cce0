package torchfile

import (
	"archive/zip"
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// What PyTorch wrote is read, saved and read again, and saved over the file that it was read from.
func TestLoadAndSave(t *testing.T) {
	for _, format := range formats {
		path := filepath.Join(t.TempDir(), "a.pth")
		for name, check := range map[string]func(*testing.T, *Dict){"checkpoint": checkCheckpoint,
			"shared": checkViews, "types": checkTypes} {
			d := mustLoad(t, name+format)
			check(t, d)
			for range 2 {
				try.Do(t, Save(path, d))
				d = try.Get(Load(path))(t).(*Dict)
				check(t, d)
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
	try.Fails(t, Save(filepath.Join(dir, "none", "a.pth"), 1), "make the folder")
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
