package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

func save(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.safetensors")
	try.Do(t, os.WriteFile(path, content, 0o666))
	return path
}

func write(t testing.TB, tensors []Tensor, metadata map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	try.Do(t, Write(&b, tensors, metadata, nil))
	return b.Bytes()
}

// open opens a file with this content until the test ends.
func open(t *testing.T, content []byte) *File {
	t.Helper()
	f := try.Get(Open(save(t, content)))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

func sample() []Tensor {
	return []Tensor{
		FromFloat32s("img.fc.weight", []int{2, 3}, []float32{1, -2, 3.5, 0, 1e-20, float32(math.Inf(1))}),
		FromFloat32s("scalar", []int{}, []float32{7}),
		FromFloat32s("empty", []int{0, 4}, nil),
		{Name: "ids <\"é\">", DType: "I64", Shape: []int{2},
			Data: binary.LittleEndian.AppendUint64([]byte{5, 0, 0, 0, 0, 0, 0, 0}, 1<<63)},
		FromInt32s("words", []int{2}, []int32{-1, 1 << 30}),
		{Name: "mask", DType: "BOOL", Shape: []int{3}, Data: []byte{1, 0, 1}},
	}
}

func TestRoundTrip(t *testing.T) {
	tensors, meta := sample(), map[string]string{"step": "12", "config": "a: \"b\"\nc"}
	f := open(t, write(t, tensors, meta))
	if !reflect.DeepEqual(f.Metadata(), meta) {
		t.Errorf("metadata %v", f.Metadata())
	}
	names := f.Names()
	for i, want := range tensors {
		if names[i] != want.Name {
			t.Errorf("tensor %d is %q, want %q", i, names[i], want.Name)
		}
		got, ok := f.Tensor(want.Name)
		if !ok || got.DType != want.DType || !reflect.DeepEqual(got.Shape, want.Shape) ||
			!bytes.Equal(got.Data, want.Data) {
			t.Errorf("%s: %+v, want %+v", want.Name, got, want)
		}
	}
	v := make([]float32, 6)
	if err := f.Float32s("img.fc.weight", v); err != nil || v[2] != 3.5 || v[4] != 1e-20 {
		t.Errorf("values %v, %v", v, err)
	}
	if err := f.Float32s("img.fc.weight", v[:5]); err == nil {
		t.Error("short destination accepted")
	}
	try.Fails(t, f.Float32s("none", v), `no tensor "none"`)
	if x := try.Get(f.Int32s("words"))(t); !slices.Equal(x, []int32{-1, 1 << 30}) {
		t.Errorf("words %v", x)
	}
	try.Refuses(f.Int32s("scalar"))(t, "no tensor scalar of int32 values")
	try.Do(t, f.Close())
	if _, ok := f.Tensor("scalar"); ok {
		t.Error("closed file read")
	}
}

// TestBytes fixes the layout byte by byte, so that it cannot drift together with the reader.
func TestBytes(t *testing.T) {
	got := write(t, []Tensor{FromFloat32s("a", []int{1}, []float32{1})}, map[string]string{"k": "v"})
	want := "\x50\x00\x00\x00\x00\x00\x00\x00" +
		`{"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}} ` + "\x00\x00\x80\x3f"
	if string(got) != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	// The data start at a multiple of 8 whatever the length of the header.
	for n := range 8 {
		b := write(t, []Tensor{{Name: strings.Repeat("x", n), DType: "U8", Shape: []int{1}, Data: []byte{9}}}, nil)
		if (len(b)-1)%8 != 0 {
			t.Errorf("name of %d bytes: data at %d", n, len(b)-1)
		}
	}
}

func TestConversions(t *testing.T) {
	le := binary.LittleEndian
	for _, c := range []struct {
		dtype string
		data  []byte
		want  []float32
	}{
		{"F64", le.AppendUint64(nil, math.Float64bits(-0.1)), []float32{-0.1}},
		{"BF16", []byte{0x80, 0x3f, 0x00, 0xc0}, []float32{1, -2}},
		{"F16", []byte{0x00, 0x3c, 0x01, 0x00, 0xff, 0xfb, 0x00, 0xfc, 0x00, 0x80},
			[]float32{1, 0x1p-24, -65504, float32(math.Inf(-1)), 0}},
		{"I64", le.AppendUint64(nil, math.MaxUint64), []float32{-1}},
		{"I32", le.AppendUint32(nil, 1<<31), []float32{-1 << 31}},
		{"I16", []byte{0xfe, 0xff}, []float32{-2}},
		{"I8", []byte{0xff, 3}, []float32{-1, 3}},
		{"U64", le.AppendUint64(nil, 1<<63), []float32{1 << 63}},
		{"U32", le.AppendUint32(nil, 1<<31), []float32{1 << 31}},
		{"U16", []byte{0xfe, 0xff}, []float32{65534}},
		{"U8", []byte{255}, []float32{255}},
		{"BOOL", []byte{1, 0}, []float32{1, 0}},
	} {
		x := Tensor{DType: c.dtype, Shape: []int{len(c.want)}, Data: c.data}
		got := make([]float32, len(c.want))
		if err := x.Float32s(got); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", c.dtype, got, err, c.want)
		}
	}
	if err := (&Tensor{DType: "F8_E5M2", Shape: []int{1}, Data: []byte{1}}).Float32s(make([]float32, 1)); err == nil {
		t.Error("float8 converted")
	}
}

// Tensors that cannot be written are an error before anything is written.
func TestWriteRefuses(t *testing.T) {
	lost := errors.New("device lost")
	for _, c := range []struct {
		t    []Tensor
		want string
	}{
		{[]Tensor{{Name: "a", DType: "F32", Shape: []int{2}, Data: make([]byte, 4)}},
			"given 4 bytes: shape [2] of F32 needs 8"},
		{[]Tensor{{Name: "lost", DType: "F32"}}, "device lost"},
		{[]Tensor{{Name: "a", DType: "F31"}}, `unknown dtype "F31"`},
		{[]Tensor{{Name: "a", DType: "U8", Shape: []int{-1}}}, "negative"},
		{[]Tensor{{Name: "a", DType: "U8", Shape: []int{0}}, {Name: "a", DType: "U8", Shape: []int{0}}}, "twice"},
		{[]Tensor{{Name: "__metadata__", DType: "U8", Shape: []int{0}}}, "reserved"},
		{[]Tensor{{Name: "\xff", DType: "U8", Shape: []int{0}}}, "UTF-8"},
	} {
		var b bytes.Buffer
		try.Fails(t, WriteSealed(&b, c.t, nil, func(i int, w io.Writer) error {
			if c.t[i].Name == "lost" {
				return lost
			}
			return inMemory(c.t)(i, w)
		}), c.want)
		if b.Len() > 0 {
			t.Errorf("%q: %d bytes are written", c.want, b.Len())
		}
	}
	full := errors.New("disk full")
	if err := Write(failing{full}, sample(), nil, nil); !errors.Is(err, full) {
		t.Errorf("error of the writer is lost: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// seal writes a sealed file.
func seal(t testing.TB, tensors []Tensor, metadata map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	try.Do(t, WriteSealed(&b, tensors, metadata, func(i int, w io.Writer) error {
		for part := range slices.Chunk(tensors[i].Data, 1000) {
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
		return nil
	}))
	return b.Bytes()
}

// Any byte of a sealed file may change: it does not open, or it does not verify.
func TestSealedFile(t *testing.T) {
	whole := seal(t, sample(), map[string]string{"k": "v", "format": "pt"})
	for at := -1; at < len(whole); at++ {
		b := slices.Clone(whole)
		if at >= 0 {
			b[at] ^= 1
		}
		f, err := Open(save(t, b))
		if err != nil {
			continue
		}
		sealed, err := f.Verify()
		switch {
		case at < 0 && (!sealed || err != nil):
			t.Fatalf("as it was written: %v, %v", sealed, err)
		case at >= 0 && sealed && !errors.Is(err, ErrDamaged):
			t.Fatalf("byte %d changed: %v", at, err)
		case at >= 0 && !sealed: // the name of the checksum itself; its bytes are the only ones that nothing checks
			if name := bytes.Index(whole, []byte(sealKey)); at < name || at >= name+len(sealKey) {
				t.Fatalf("byte %d changed: no checksum", at)
			}
		}
		f.Close()
	}
	f := open(t, write(t, sample(), nil))
	if sealed, err := f.Verify(); sealed || err != nil {
		t.Errorf("a file without a checksum: %v, %v", sealed, err)
	}
}

// The checksum sees every piece of a large tensor, in its place.
func TestSealedPieces(t *testing.T) {
	x := Tensor{Name: "x", DType: "U8", Shape: []int{3*sealPiece + 5}, Data: make([]byte, 3*sealPiece+5)}
	for i := range x.Data {
		x.Data[i] = byte(i >> 12)
	}
	whole := seal(t, []Tensor{x}, nil)
	start := len(whole) - len(x.Data)
	for _, change := range []func(data []byte){
		func([]byte) {},
		func(d []byte) { d[len(d)-1]++ },
		func(d []byte) { d[2*sealPiece]++ },
		func(d []byte) { // two pieces change places
			first := slices.Clone(d[:sealPiece])
			copy(d, d[sealPiece:2*sealPiece])
			copy(d[sealPiece:], first)
		},
	} {
		b := slices.Clone(whole)
		change(b[start:])
		if _, err := open(t, b).Verify(); (err == nil) != bytes.Equal(b, whole) {
			t.Errorf("verified: %v", err)
		}
	}
}

// with returns a file with the given header text and data.
func with(header, data string) string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + data
}

func TestOpenRefuses(t *testing.T) {
	a := `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`
	for _, c := range []struct{ in, want string }{
		{"", "only 0 bytes"},
		{"1234567", "only 7 bytes"},
		{"\x80\x02}q\x00(X\x05\x00\x00\x00", "not a safetensors file"},
		{"\xff\xff\xff\xff\xff\xff\xff\xff{}", "not a safetensors file"},
		{"\x40\x00\x00\x00\x00\x00\x00\x00{}", "expected a header of 64 bytes, found 2"},
		{with(a+"}", "12"), "need 4 bytes of data, found 2"},
		{with(a+"}", "12345"), "need 4 bytes of data, found 5"},
		{with(a+`,"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, "12345678"),
			`the key "a" stands twice`},
		{with(a+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}}`, "123456"), "hole or overlap"},
		{with(a+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[5,9]}}`, "123456789"), "hole or overlap"},
		{with(a+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, "1234"), "hole or overlap"},
		{with(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, "1234"), "needs 8"},
		{with(`{"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}}`, "1234"), `unknown dtype "F31"`},
		{with(`{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, ""),
			"overflows"},
		{with(`{"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,0]}}`, ""),
			"does not fit"},
		{with(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, "1234"), "integers from 0"},
		{with(`{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}`, "1234"),
			"expected a whole number"},
		{with(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`, "1234"), "expected [begin, end]"},
		{with(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4]}}`, "1234"), "expected [begin, end]"},
		{with(`{"a":{"dtype":"F32","shape":[1]}}`, "1234"), "data_offsets is missing"},
		{with(`{"a":{"x":1}}`, ""), `unknown key "x"`},
		{with(`{"a":{"shape":[],"shape":[]}}`, ""), `the key "shape" stands twice`},
		{with(`{"__metadata__":{"a":1}}`, ""), "expected a string"},
		{with(`{"__metadata__":{"a":"","a":""}}`, ""), "stands twice"},
		{with(`[]`, ""), "JSON object"},
		{with(` {}`, ""), "JSON object"},
		{with(`{} x`, ""), "text after"},
		{with(`{"a":{"dtype":"F32"`, ""), "unreadable at byte"},
		{with(`{a}`, ""), "unreadable at byte"},
		{with(`{"a":[]}`, ""), "expected an object, found a list"},
	} {
		path := save(t, []byte(c.in))
		try.Refuses(Open(path))(t, c.want, path)
	}
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("folder accepted")
	}
}

// TestAcceptsForeignOrder reads a header in another order than the data, as the Python library writes it.
func TestAcceptsForeignOrder(t *testing.T) {
	in := with(`{"b":{"shape":[1],"dtype":"F32","data_offsets":[4,8]},"e":{"dtype":"U8","shape":[0],`+
		`"data_offsets":[4,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}   `,
		"\x00\x00\x80\x3f\x00\x00\x00\x40")
	f := open(t, []byte(in))
	v := make([]float32, 1)
	if err := f.Float32s("b", v); err != nil || v[0] != 2 || !reflect.DeepEqual(f.Names(), []string{"a", "e", "b"}) {
		t.Errorf("b = %v, %v, names %v", v, err, f.Names())
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(write(f, sample(), map[string]string{"k": "v"}))
	f.Add([]byte(with(`{}`, "")))
	f.Add([]byte(with(`{"a":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]}}`, "1234")))
	f.Fuzz(func(t *testing.T, in []byte) {
		file := &File{all: in}
		if file.parse() != nil {
			return
		}
		total := 0
		for _, x := range file.tensors {
			total += len(x.Data)
		}
		if total > len(in) {
			t.Fatalf("%d bytes of data in a file of %d", total, len(in))
		}
		again := &File{all: write(t, file.tensors, file.Metadata())}
		if err := again.parse(); err != nil || !reflect.DeepEqual(again.tensors, file.tensors) ||
			!maps.Equal(again.metadata, file.metadata) {
			t.Fatalf("round trip: %v", err)
		}
	})
}
