package torchfile

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/internal/files/elements"
	"vsetrain/internal/files/pickle"
	"vsetrain/lab/try"
)

// zipOf returns an archive with the given pickle and one storage "0".
func zipOf(t testing.TB, pkl, data string) string {
	t.Helper()
	var b bytes.Buffer
	z := archiveWriter{zip: zip.NewWriter(&b)}
	z.record("data.pkl", []byte(pkl))
	z.record("data/0", []byte(data))
	try.Do(t, z.close())
	return b.String()
}

// tensorOf returns the pickle of a tensor over storage "0".
func tensorOf(t testing.TB, class string, numel, offset any, shape, stride Tuple) string {
	t.Helper()
	id := pickle.PersistentID{ID: Tuple{"storage", pickle.Name{Module: "torch", Name: class}, "0", "cpu", numel}}
	var b bytes.Buffer
	try.Do(t, pickle.Encode(&b, rebuild("_rebuild_tensor_v2", id, offset, shape, stride, false, nil), nil))
	return b.String()
}

// legacyOf returns a legacy checkpoint with the given pickles and storage bytes.
func legacyOf(t testing.TB, object string, keys any, storages string) string {
	t.Helper()
	var b bytes.Buffer
	for i, v := range []any{legacyMagic, 1001, map[string]any{"little_endian": true}, nil, keys} {
		if i == 3 {
			b.WriteString(object)
		} else {
			try.Do(t, pickle.Encode(&b, v, nil))
		}
	}
	b.WriteString(storages)
	return b.String()
}

func counted(n uint64, data string) string {
	return string(binary.LittleEndian.AppendUint64(nil, n)) + data
}

func TestLoadRefuses(t *testing.T) {
	data := "123456781234567812345678" // 6 floats
	good := tensorOf(t, "FloatStorage", 6, 0, Tuple{2, 3}, Tuple{3, 1})
	view := func(offset any, shape, stride Tuple) string {
		return zipOf(t, tensorOf(t, "FloatStorage", 6, offset, shape, stride), data)
	}
	flip := func(s, old, new string) string { return strings.Replace(s, old, new, 1) }
	keys := []any{"0"}
	zipGood, legacyGood := zipOf(t, good, data), legacyOf(t, good, keys, counted(6, data))
	for name, in := range map[string]string{"zip": zipGood, "legacy": legacyGood} {
		v := try.Get(read(strings.NewReader(in), int64(len(in))))(t)
		if b, err := v.(*Tensor).Bytes(); err != nil || string(b) != data {
			t.Fatalf("%s: %q, %v", name, b, err)
		}
	}
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "only 0 bytes"},
		{"text", "hello, world", "not a PyTorch checkpoint"},
		{"other pickle", "\x80\x02}.", "not a PyTorch checkpoint"},
		{"tar", strings.Repeat("x", 257) + "ustar", "tar archive"},
		{"truncated zip", zipGood[:len(zipGood)-30], "truncated or corrupt zip"},
		{"half a zip", zipGood[:100], "truncated or corrupt zip"},
		{"zip of something else", flip(flip(zipGood, "data.pkl", "data.xyz"), "data.pkl", "data.xyz"),
			"without data.pkl"},
		{"no storage", flip(flip(zipGood, "data/0", "data/1"), "data/0", "data/1"), `record "data/0" is missing`},
		{"corrupt pickle", flip(zipGood, "_rebuild_tensor_v2", "_rebuild_tensor_v7"), "data.pkl is corrupt"},
		{"system", zipOf(t, "cos\nsystem\n(S'x'\ntR.", data), `"os.system", which is not on the list`},
		{"model", zipOf(t, "ctorch.nn.modules.linear\nLinear\n)\x81.", data), "nothing was executed"},
		{"small storage", zipOf(t, good, data[:20]), "6 elements of F32 need 24"},
		{"class", zipOf(t, tensorOf(t, "Size", 6, 0, nil, nil), data), "not a storage class"},
		{"count", zipOf(t, tensorOf(t, "FloatStorage", -1, 0, nil, nil), data), "malformed"},
		{"huge count", zipOf(t, tensorOf(t, "FloatStorage", 1<<61, 0, nil, nil), data), "malformed"},
		{"count is text", zipOf(t, tensorOf(t, "FloatStorage", "6", 0, nil, nil), data), "malformed"},
		{"beyond", view(0, Tuple{7}, Tuple{1}), "outside its storage"},
		{"offset", view(5, Tuple{2}, Tuple{1}), "outside its storage"},
		{"scalar beyond", view(6, Tuple{}, Tuple{}), "outside its storage"},
		{"negative offset", view(-1, Tuple{1}, Tuple{1}), "outside its storage"},
		{"offset is text", view("0", Tuple{1}, Tuple{1}), "expected a storage and an offset"},
		{"negative dimension", view(0, Tuple{-1}, Tuple{1}), "not a size"},
		{"negative stride", view(0, Tuple{2}, Tuple{-1}), "not a size"},
		{"large stride", view(0, Tuple{2, 2}, Tuple{1 << 62, 1}), "outside its storage"},
		{"ranks", view(0, Tuple{2, 2}, Tuple{1}), "with strides"},
		{"overflow", view(0, Tuple{1 << 40, 1 << 40}, Tuple{0, 0}), "too large"},
		{"repeated", view(0, Tuple{1 << 40}, Tuple{0}), "too often"},
		{"legacy truncated", legacyGood[:len(legacyGood)-1], `truncated file: storage "0" needs 24 bytes`},
		{"legacy without storages", legacyGood[:len(legacyGood)-32], "missing"},
		{"legacy count", legacyOf(t, good, keys, counted(7, data)), "7 elements: expected 6"},
		{"legacy keys", legacyOf(t, good, []any{"1"}, counted(6, data)), "unknown or repeated"},
		{"legacy no keys", legacyOf(t, good, []any{}, counted(6, data)), "expected 1 keys"},
		{"legacy key list", legacyOf(t, good, "0", counted(6, data)), "malformed"},
		{"legacy half", legacyGood[:60], "truncated"},
		{"legacy protocol", flip(legacyGood, "M\xe9\x03", "M\xe8\x03"), "protocol 1000: expected 1001"},
		{"legacy big-endian", flip(legacyGood, "\x88", "\x89"), "big-endian"},
		{"legacy model", legacyOf(t, "(X\x06\x00\x00\x00moduleNtQ.", keys, ""), "state_dict"},
	} {
		path := filepath.Join(t.TempDir(), "a.pth")
		try.Do(t, os.WriteFile(path, []byte(c.in), 0o666))
		try.Refuses(Load(path))(t, c.want, path)
	}
	try.Refuses(Load(t.TempDir()))(t, "found a folder")
}

// TestCorruptStorage flips a byte of the data: the checksum of the record tells.
func TestCorruptStorage(t *testing.T) {
	in := zipOf(t, tensorOf(t, "FloatStorage", 6, 0, Tuple{6}, Tuple{1}), "123456781234567812345678")
	in = strings.Replace(in, "12345678", "12345679", 1)
	v := try.Get(read(strings.NewReader(in), int64(len(in))))(t)
	try.Refuses(v.(*Tensor).Float32s())(t, "checksum is wrong")
}

// TestPython2Legacy reads a checkpoint as PyTorch 0.3 on Python 2 wrote it: byte strings, OrderedDict of pairs,
// _rebuild_tensor without version, storages with a view entry.
func TestPython2Legacy(t *testing.T) {
	object := "\x80\x02}U\x05modelccollections\nOrderedDict\n](](U\x01w" +
		"ctorch._utils\n_rebuild_tensor\n((U\x07storagectorch\nFloatStorage\nU\x0294U\x06cuda:0K\x06" +
		"(U\x0295K\x02K\x04ttQK\x01K\x02\x85K\x02\x85tR" + "ee\x85Rs."
	in := legacyOf(t, object, []any{"94"}, counted(6,
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x3f\x00\x00\x00\x00\x00\x00\x00\x40"))
	v := try.Get(read(strings.NewReader(in), int64(len(in))))(t)
	model := get(t, v.(*Dict), "model").(*Dict)
	checkTensor(t, get(t, model, "w"), []int{2}, 1, 2) // the view starts at 2, the tensor at 1 of it with stride 2
}

func FuzzRead(f *testing.F) {
	files := os.DirFS(try.Fixtures(f, "torchfile"))
	for _, e := range try.Get(fs.ReadDir(files, "."))(f) {
		f.Add(try.Get(fs.ReadFile(files, e.Name()))(f))
	}
	good := tensorOf(f, "FloatStorage", 6, 0, Tuple{2, 3}, Tuple{1, 2})
	f.Add([]byte(zipOf(f, good, strings.Repeat("1234", 6))))
	f.Add([]byte(legacyOf(f, good, []any{"0"}, counted(6, strings.Repeat("1234", 6)))))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := read(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		if x, ok := v.(*Tensor); ok && x.Len() < 1<<20 {
			if data, err := x.Bytes(); err == nil && len(data) != x.Len()*elements.Sizes[x.DType] {
				t.Fatalf("%d bytes for shape %v of %s", len(data), x.Shape, x.DType)
			}
		}
		var out bytes.Buffer
		if write(&out, v) != nil {
			return
		}
		if _, err := read(bytes.NewReader(out.Bytes()), int64(out.Len())); err != nil {
			t.Fatalf("cannot read again what was written: %v", err)
		}
	})
}

// FuzzReadPickle fuzzes the pickle inside an intact archive, where the checksum of the zip format cannot shield it.
func FuzzReadPickle(f *testing.F) {
	f.Add([]byte(tensorOf(f, "FloatStorage", 6, 0, Tuple{2, 3}, Tuple{1, 2})), "123412341234123412341234")
	f.Add([]byte(tensorOf(f, "BoolStorage", 4, 2, Tuple{1, 2}, Tuple{7, 1})), "1234")
	f.Fuzz(func(t *testing.T, pkl []byte, data string) {
		in := zipOf(t, string(pkl), data)
		v, err := read(strings.NewReader(in), int64(len(in)))
		if err != nil {
			return
		}
		if x, ok := v.(*Tensor); ok && x.Len() < 1<<20 {
			if _, err := x.Float32s(); err != nil {
				t.Fatalf("a tensor that passed the checks cannot be read: %v", err)
			}
		}
	})
}
