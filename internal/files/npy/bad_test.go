package npy

import (
	"bytes"
	"encoding/binary"
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
	for _, c := range []struct{ name, in, want string }{
		{"truncated", f4("(2, 3)", "12345678"), "truncated file: shape [2 3] of <f4 needs 24 bytes of data, found 8"},
		{"too long", f4("(1,)", "12345678"), "needs 4 bytes of data, found 8"},
		{"empty", "", "it has only 0 bytes"},
		{"zip", "PK\x03\x04........", "not a .npy file: it starts with"},
		{"version", magic + "\x09\x00\x00\x00", "version 9.0"},
		{"no length", magic + "\x01\x00\x01", "inside its length"},
		{"no header", magic + "\x01\x00\x40\x00{", "expected 64 bytes, found 1"},
		{"huge header", magic + "\x02\x00\xff\xff\xff\x7f{", "too long"},
		{"big-endian", version1(dict("'>f4'", "False", "(1,)"), "1234"), `a.astype("<f4")`},
		{"complex", version1(dict("'<c8'", "False", "(1,)"), "12345678"), `unsupported element type "<c8"`},
		{"structured", version1(dict("[('a', '<f4')]", "False", "(1,)"), "1234"), "structured"},
		{"negative", f4("(-1,)", ""), "negative dimension"},
		{"negative after zero", f4("(0, -1)", ""), "negative dimension"},
		{"overflow", f4("(4611686018427387904, 4)", ""), "overflows"},
		{"overflow of int64", f4("(99999999999999999999,)", ""), "not an integer"},
		{"overflow behind zero", f4("(0, 4611686018427387904, 4)", ""), "overflows"},
		{"letter without a string", version1("{u", ""), "expected 'key': value"},
		{"float shape", f4("(1.0,)", "1234"), "not an integer"},
		{"list shape", f4("[1]", "1234"), "tuple"},
		{"open shape", f4("(1", "1234"), "expected 'key': value"},
		{"many dimensions", f4("("+strings.Repeat("1,", 65)+")", "1234"), "more than 64"},
		{"fortran", version1(dict("'<f4'", "0", "(1,)"), "1234"), "True or False"},
		{"missing key", version1("{'descr': '<f4', 'shape': (1,)}", "1234"), `"fortran_order" is missing`},
		{"twice", version1("{'descr': '<f4', 'descr': '<f4'}", "1234"), "twice"},
		{"unknown key", version1("{'x': '<f4'}", "1234"), `unknown key "x"`},
		{"no dict", version1("[]", ""), "Python dict"},
		{"after dict", version1("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} 1", "1234"), "text after"},
		{"no colon", version1("{'descr' '<f4'}", ""), "expected 'key': value"},
		{"no comma", version1("{'descr': '<f4' 'shape'}", ""), "','"},
		{"open string", version1("{'descr", ""), "expected 'key': value"},
		{"escape", version1(`{'de\x73cr': 1}`, ""), "expected 'key': value"},
	} {
		path := filepath.Join(t.TempDir(), "bad.npy")
		try.Do(t, os.WriteFile(path, []byte(c.in), 0o666))
		f, err := Open(path)
		if err == nil {
			f.Close()
			t.Errorf("%s: accepted", c.name)
		} else if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want one with the path and %q", c.name, err, c.want)
		}
	}
	dir := try.Fixtures(t, "npy")
	try.Refuses(Open(filepath.Join(dir, "big.npy")))(t, "big-endian")
	if _, err := Open(dir); err == nil {
		t.Error("folder accepted")
	}
	if _, err := Open(filepath.Join(dir, "missing.npy")); !os.IsNotExist(unwrapAll(err)) {
		t.Errorf("missing file: %v", err)
	}
}

func unwrapAll(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		if _, isPath := err.(*os.PathError); isPath {
			return err
		}
		err = u.Unwrap()
	}
}

// TestOldHeaders accepts what old or other writers produce: Python 2 longs, other key orders and quotes, odd alignment.
func TestOldHeaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.npy")
	in := version1(`{"shape": (2L, 1L), "fortran_order": False, "descr": "<f4"}`, "\x00\x00\x80\x3f\x00\x00\x00\x40")
	try.Do(t, os.WriteFile(path, []byte(in), 0o666))
	f := mustOpen(t, path)
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
