package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// version1 returns a file with the given header text and data.
func version1(text, data string) string {
	return magic + "\x01\x00" + string(binary.LittleEndian.AppendUint16(nil, uint16(len(text)))) + text + data
}

func TestOpenRefuses(t *testing.T) {
	dict := func(descr, fortran, shape string) string {
		return "{'descr': " + descr + ", 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n"
	}
	f4 := func(shape, data string) string { return version1(dict("'<f4'", "False", shape), data) }
	for _, c := range []struct{ in, want string }{
		{f4("(2, 3)", "12345678"), "truncated file: shape [2 3] of <f4 needs 24 bytes of data, found 8"},
		{f4("(1,)", "12345678"), "needs 4 bytes of data, found 8"},
		{"", "it has only 0 bytes"},
		{"PK\x03\x04........", "not a .npy file: it starts with"},
		{magic + "\x09\x00\x00\x00", "version 9.0"},
		{magic + "\x01\x00\x01", "inside its length"},
		{magic + "\x01\x00\x40\x00{", "expected 64 bytes, found 1"},
		{magic + "\x02\x00\xff\xff\xff\x7f{", "too long"},
		{version1(dict("'>f4'", "False", "(1,)"), "1234"), `a.astype("<f4")`},
		{version1(dict("'<c8'", "False", "(1,)"), "12345678"), `unsupported element type "<c8"`},
		{version1(dict("[('a', '<f4')]", "False", "(1,)"), "1234"), "structured"},
		{f4("(-1,)", ""), "negative dimension"},
		{f4("(0, -1)", ""), "negative dimension"},
		{f4("(4611686018427387904, 4)", ""), "overflows"},
		{f4("(99999999999999999999,)", ""), "not an integer"},
		{f4("(0, 4611686018427387904, 4)", ""), "overflows"},
		{version1("{u", ""), "expected 'key': value"},
		{f4("(1.0,)", "1234"), "not an integer"},
		{f4("[1]", "1234"), "tuple"},
		{f4("(1", "1234"), "expected 'key': value"},
		{f4("("+strings.Repeat("1,", 65)+")", "1234"), "more than 64"},
		{version1(dict("'<f4'", "0", "(1,)"), "1234"), "True or False"},
		{version1("{'descr': '<f4', 'shape': (1,)}", "1234"), `"fortran_order" is missing`},
		{version1("{'descr': '<f4', 'descr': '<f4'}", "1234"), "twice"},
		{version1("{'x': '<f4'}", "1234"), `unknown key "x"`},
		{version1("[]", ""), "Python dict"},
		{version1("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} 1", "1234"), "text after"},
		{version1("{'descr' '<f4'}", ""), "expected 'key': value"},
		{version1("{'descr': '<f4' 'shape'}", ""), "','"},
		{version1("{'descr", ""), "expected 'key': value"},
		{version1(`{'de\x73cr': 1}`, ""), "expected 'key': value"},
	} {
		path := filepath.Join(try.Files(t, map[string]string{"bad.npy": c.in}), "bad.npy")
		try.Refuses(Open(path))(t, c.want, path)
	}
	dir := try.Fixtures(t, "npy")
	try.Refuses(Open(filepath.Join(dir, "big.npy")))(t, "big-endian")
	try.Refuses(Open(dir))(t, "found a folder")
	if _, err := Open(filepath.Join(dir, "missing.npy")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

// TestOldHeaders accepts what old or other writers produce: Python 2 longs, other key orders and quotes, odd alignment.
func TestOldHeaders(t *testing.T) {
	in := version1(`{"shape": (2L, 1L), "fortran_order": False, "descr": "<f4"}`, "\x00\x00\x80\x3f\x00\x00\x00\x40")
	f := mustOpen(t, filepath.Join(try.Files(t, map[string]string{"a.npy": in}), "a.npy"))
	row := make([]float32, 1)
	if err := f.ReadRow(row, 1); err != nil || row[0] != 2 {
		t.Fatalf("%v, %v", row, err)
	}
}

func FuzzOpen(f *testing.F) {
	files := os.DirFS(try.Fixtures(f, "npy"))
	for _, e := range try.Get(fs.ReadDir(files, "."))(f) {
		f.Add(try.Get(fs.ReadFile(files, e.Name()))(f))
	}
	path := filepath.Join(f.TempDir(), "a.npy")
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHeader(bytes.NewReader(b))
		if err != nil || h.checkSize(int64(len(b))) != nil {
			return
		}
		_, _ = readObjects(bytes.NewReader(b))
		try.Do(t, os.WriteFile(path, b, 0o666))
		file, err := Open(path)
		if err != nil {
			return
		}
		defer file.Close()
		if n := file.RowLen(); n < len(b) {
			_ = file.ReadRow(make([]float32, n), file.Rows()-1)
		}
		if file.DType != Object {
			v, err := file.Float64s()
			if err != nil || len(v) != file.Rows()*file.RowLen() {
				t.Fatalf("%d elements of shape %v, %v", len(v), file.Shape, err)
			}
		}
	})
}
