package pickle

import (
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// A list of 150 levels is allowed; met again 100 levels down it is too deep, wherever it was seen first.
func TestSharedDepth(t *testing.T) {
	wrap := func(v any, levels int) any {
		for range levels {
			v = &List{Items: []any{v}}
		}
		return v
	}
	for down, fits := range map[int]bool{40: true, 100: false} {
		shared := wrap(int64(1), 150)
		err := checkTree(&List{Items: []any{shared, wrap(shared, down)}})
		if (err == nil) != fits || !fits && !strings.Contains(err.Error(), "nested more than 200 deep") {
			t.Errorf("150 levels, met again %d levels down: %v", down, err)
		}
	}
}

func TestRefuses(t *testing.T) {
	nest := func(open, close string, n int) string {
		return strings.Repeat(open, n) + strings.Repeat(close, n) + "."
	}
	bomb := "(]q\x00" // each list holds the one before twice: 2^100 leaves
	for i := range 100 {
		bomb += "](h" + string(rune(i)) + "h" + string(rune(i)) + "eq" + string(rune(i+1))
	}
	for _, c := range []struct{ name, in, want string }{
		{"os.system", "cos\nsystem\n(S'echo bad'\ntR.",
			`"os.system", which is not on the list of what may be loaded; nothing was executed`},
		{"stack global", "\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x01x\x85R.", `"posix.system"`},
		{"eval", "c__builtin__\neval\n(S'1'\ntR.", `"__builtin__.eval"`},
		{"mentioned only", "cnumpy\nndarray\n)R.", "may not be called"},
		{"instance of a function", "ccollections\nOrderedDict\n)\x81.", "may not be called"},
		{"call of a value", "K\x01)R.", "a int is called"},
		{"persistent id", "K\x01Q.", "outside the pickle"},
		{"empty", "", "truncated"},
		{"no stop", "K\x01", "truncated"},
		{"truncated string", "X\x05\x00\x00\x00abc", "truncated"},
		{"huge string", "B\xff\xff\xff\x7fabc", "corrupt"},
		{"huge string within the limit", "B\xff\xff\xff\x0eabc", "truncated"},
		{"string of 2^63", "\x8d\xff\xff\xff\xff\xff\xff\xff\x7f", "corrupt"},
		{"string of 2^64-1", "\x8d\xff\xff\xff\xff\xff\xff\xff\xff", "corrupt"},
		{"unknown opcode", "\xff", "unknown opcode 0xff"},
		{"protocol 6", "\x80\x06N.", "protocol 6: expected 0 to 5; write it again with protocol=5"},
		{"buffer outside", "\x80\x05\x97.", "a buffer outside the pickle; write it again without buffer_callback"},
		{"read-only buffer", "\x80\x05N\x98.", "a buffer outside the pickle"},
		{"bytearray of 2^63", "\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7f", "corrupt"},
		{"huge bytearray", "\x80\x05\x96\xff\xff\xff\x0e\x00\x00\x00\x00abc", "truncated"},
		{"cut frame", "\x80\x05\x95\xff\xff", "truncated"},
		{"frame longer than the file", "\x80\x05\x95\xff\xff\xff\xff\xff\xff\xff\xffK\x01", "truncated"},
		{"class by its names", "\x80\x05\x95\x15\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94\x8c\x06system\x94\x93\x94.",
			`"os.system"`},
		{"underflow", "K\x01\x86.", "underflow"},
		{"below a mark", "K\x01K\x02(\x86t.", "byte 5: stack underflow"},
		{"stop on empty stack", ".", "underflow"},
		{"leftovers", "K\x01K\x02.", "left on the stack"},
		{"no mark", "t.", "no mark"},
		{"odd dict", "(K\x01d.", "no value"},
		{"memo", "h\x05.", "memo entry 5 does not exist"},
		{"append to int", "K\x01K\x02a.", "cannot be appended"},
		{"items of int", "K\x01K\x02K\x03s.", "cannot take items"},
		{"state of int", "K\x01}b.", "takes no state"},
		{"huge integer", "\x8b\x00\x02\x00\x00" + strings.Repeat("\x01", 512) + ".", "integer of 512 bytes"},
		{"many digits", "I" + strings.Repeat("1", 5000) + "\n.", "digits"},
		{"not a number", "Ix\n.", "not an integer"},
		{"bad escape", "S'\\x4'\n.", "bad escape"},
		{"bad unicode escape", "V\\u12\n.", "bad escape"},
		{"deep marks", nest("(", "l", 1000), "nested more than 200"},
		{"deep tuples", ")" + strings.Repeat("\x85", 1000) + ".", "nested more than 200"},
		{"cycle", "]q\x00h\x00a.", "contains itself"},
		{"cycle through dict attributes", "ccollections\nOrderedDict\n)Rq\x00h\x00b.", "contains itself"},
		{"exponential", bomb + "t.", "values when written out"},
		{"copies", "X\x00\x00\x01\x00" + strings.Repeat("a", 1<<16) +
			"q\x00X\x06\x00\x00\x00latin1q\x01c_codecs\nencode\nq\x0200" +
			strings.Repeat("h\x02h\x00h\x01\x86R0", 1000) + "N.", "copy more than"},
		{"not latin-1", "c_codecs\nencode\nX\x03\x00\x00\x00\xe2\x82\xacX\x06\x00\x00\x00latin1\x86R.", "not Latin-1"},
		{"other codec", "c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00rot\x86R.", "latin1"},
	} {
		try.Refuses(decode(c.in))(t, c.want)
	}
}

func TestRefusesNumPy(t *testing.T) {
	dtype := func(kind string) string { return "cnumpy\ndtype\n(S'" + kind + "'\nI0\nI1\ntR" }
	array := func(shape, kind, data string) string {
		return "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(" + shape + "t" +
			dtype(kind) + "I00\n" + data + "tb."
	}
	if v, err := decode(array("I2\n", "u1", "S'ab'\n")); err != nil || string(v.(*Array).Data) != "ab" {
		t.Fatalf("good array: %v, %v", v, err)
	}
	for _, c := range []struct{ name, in, want string }{
		{"short data", array("I3\n", "u1", "S'ab'\n"), "expected 3 elements, found 2 bytes"},
		{"negative", array("I-3\n", "u1", "S'ab'\n"), "bad dimension"},
		{"overflow", array("I2147483647\nI2147483647\nI2147483647\n", "u1", "S'ab'\n"), "bad dimension"},
		{"objects without list", array("I1\n", "O8", "S'ab'\n"), "expected a list of 1"},
		{"object count", array("I2\n", "O8", "(I1\nl"), "expected a list of 2"},
		{"short buffer", "\x80\x05cnumpy.core.numeric\n_frombuffer\n(\x96\x02\x00\x00\x00\x00\x00\x00\x00ab" +
			dtype("u1") + "K\x03\x85S'C'\ntR.",
			"expected 3 elements, found 2 bytes"},
		{"buffer of no bytes", "\x80\x05cnumpy.core.numeric\n_frombuffer\n(K\x02" + dtype("u1") + "K\x03\x85S'C'\ntR.",
			"expected 3 elements"},
		{"void type", array("I1\n", "V8", "S'ab'\n"), "is not read"},
		{"empty type", dtype("") + ".", "code of a type"},
		{"byte order alone", dtype("<") + ".", "code of a type"},
		{"scalar of a byte order", "cnumpy.core.multiarray\nscalar\n(" + dtype("<") + "S'abcd'\ntR.", "code of a type"},
		{"scalar size", "cnumpy.core.multiarray\nscalar\n(" + dtype("f8") + "S'abc'\ntR.", "is not read"},
		{"scalar of objects", "cnumpy.core.multiarray\nscalar\n(" + dtype("O8") + "S''\ntR.", "is not read"},
	} {
		try.Refuses(decode(c.in))(t, c.want)
	}
}

// TestClaimedLengthIsNotAllocated reads a pickle that claims a string of 239 MiB and holds three bytes.
func TestClaimedLengthIsNotAllocated(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := decode("B\xff\xff\xff\x0eabc")
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; err == nil || grown > 1<<20 {
		t.Fatalf("allocated %d bytes, error %v", grown, err)
	}
}

func FuzzDecode(f *testing.F) {
	files := os.DirFS(try.Fixtures(f, "pickle"))
	for _, e := range try.Get(fs.ReadDir(files, "."))(f) {
		f.Add(try.Get(fs.ReadFile(files, e.Name()))(f))
	}
	f.Add([]byte("(c__main__\nVocabulary\nK\x01o."))
	f.Add([]byte("\x80\x05\x95\x0a\x00\x00\x00\x00\x00\x00\x00\x96\x01\x00\x00\x00\x00\x00\x00\x00a\x94\x98."))
	f.Add([]byte("(i__main__\nVocabulary\n."))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, n, err := Decode(strings.NewReader(string(b)), Options{Globals: table()})
		if err != nil {
			return
		}
		if n > int64(len(b)) {
			t.Fatalf("took %d bytes of %d", n, len(b))
		}
		// What was read can be walked and, with few exceptions (classes, invalid strings), written and read again.
		var out strings.Builder
		if Encode(&out, v, nil) != nil {
			return
		}
		if _, _, err := Decode(strings.NewReader(out.String()), Options{Globals: table()}); err != nil {
			t.Fatalf("cannot read again what was written of %#v: %v", v, err)
		}
	})
}
