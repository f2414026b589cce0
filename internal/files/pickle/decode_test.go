package pickle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// table is what the tests allow.
func table() Globals {
	return Merge(Standard(), NumPy(), Globals{
		"argparse.Namespace":  ObjectClass("argparse.Namespace"),
		"__main__.Vocabulary": ObjectClass("__main__.Vocabulary"),
	})
}

func decode(s string) (any, error) {
	v, n, err := Decode(strings.NewReader(s), Options{Globals: table()})
	if err == nil && n != int64(len(s)) {
		return nil, fmt.Errorf("took %d of %d bytes", n, len(s))
	}
	return v, err
}

func decodeFile(t *testing.T, name string) any {
	t.Helper()
	b := try.Get(os.ReadFile(filepath.Join(try.Fixtures(t, "pickle"), name)))(t)
	return try.Get(decode(string(b)))(t)
}

// power returns 2^n.
func power(n uint) *big.Int { return new(big.Int).Lsh(big.NewInt(1), n) }

// TestPlainData reads what CPython wrote in each protocol.
func TestPlainData(t *testing.T) {
	list := func(v ...any) *List { return &List{Items: v} }
	floats := try.Get(binary.Append(nil, binary.LittleEndian, []float32{0, 1, 2, 3, 4, 5}))(t)
	for p := range maxProtocol + 1 {
		d := decodeFile(t, fmt.Sprintf("plain_p%d.pkl", p)).(*Dict)
		want := map[any]any{
			"none":  nil,
			"bools": list(true, false),
			"ints": list(int64(0), int64(255), int64(256), int64(65535), int64(65536), int64(-1), int64(-129),
				int64(1<<31), int64(math.MinInt64), power(63), power(70), new(big.Int).Neg(power(70))),
			"floats":      list(0.5, -1e300, math.Inf(1)),
			"text":        "naïve ‘word’ 日本 \\u0041 \n\r\x00",
			"bytes":       Bytes{0, 255},
			"empty bytes": Bytes{},
			"tuples": Tuple{Tuple{}, Tuple{int64(1)}, Tuple{int64(1), int64(2)}, Tuple{int64(1), int64(2), int64(3)},
				Tuple{int64(1), int64(2), int64(3), int64(4)}},
			"set":    &Set{Items: []any{int64(7)}},
			"frozen": &Set{Items: []any{int64(8)}},
			int64(3): "int key",
			"long":   strings.Repeat("x", 300),
			"np":     list(2.5, -0.1, int64(-3), int64(200), true),
			"array":  &Array{DType: "<f4", Shape: []int{2, 3}, Data: floats},
		}
		for k, w := range want {
			got, ok := d.Get(k)
			if !ok || !reflect.DeepEqual(got, w) {
				t.Errorf("protocol %d: [%v] is %#v (present: %v), want %#v", p, k, got, ok, w)
			}
		}
		ordered, _ := d.Get("ordered")
		o := ordered.(*Dict)
		if !o.Ordered || o.Len() != 2 || o.entries[0] != (entry{"z", int64(1)}) ||
			o.entries[1] != (entry{"a", int64(2)}) {
			t.Errorf("protocol %d: ordered dict is %+v", p, o)
		}
		if again, _ := d.Get("again"); again != ordered {
			t.Errorf("protocol %d: sharing is lost", p)
		}
		ns, _ := d.Get("namespace")
		if margin, _ := ns.(*Object).Attrs.Get("margin"); margin != 0.2 || ns.(*Object).Class != "argparse.Namespace" {
			t.Errorf("protocol %d: namespace is %+v", p, ns)
		}
		if want := len(want) + 3; d.Len() != want {
			t.Errorf("protocol %d: %d entries, want %d", p, d.Len(), want)
		}
	}
}

func TestVocabulary(t *testing.T) {
	check := func(name string, v any) {
		t.Helper()
		o := v.(*Object)
		w2i, _ := o.Attrs.Get("word2idx")
		i2w, _ := o.Attrs.Get("idx2word")
		if id, _ := w2i.(*Dict).Get("café"); id != int64(5) {
			t.Errorf("%s: id of café is %v, want 5", name, id)
		}
		if w, _ := i2w.(*Dict).Get(5); w != "café" {
			t.Errorf("%s: word 5 is %v, want café", name, w)
		}
		if n, _ := o.Attrs.Get("idx"); n != int64(6) {
			t.Errorf("%s: idx is %v, want 6", name, n)
		}
	}
	for _, p := range []int{0, 2, 4, 5} {
		name := fmt.Sprintf("vocab_p%d.pkl", p)
		check(name, decodeFile(t, name))
	}
	// Python 2, protocol 2: byte strings, as VSE++ published them.
	py2 := "\x80\x02c__main__\nVocabulary\n" +
		"q\x01)\x81q\x02}q\x03(U\x08word2idxq\x04}q\x05(U\x05caf\xc3\xa9K\x05U\x03dogK\x04u" +
		"U\x08idx2wordq\x06}q\x07K\x05U\x05caf\xc3\xa9sU\x03idxK\x06ub."
	check("python 2", try.Get(decode(py2))(t))
}

// TestPython2 covers opcodes and conventions that only Python 2 writes.
func TestPython2(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     any
	}{
		{"quoted string", "S'a\\'b\\n\\x41\\\\'\n.", "a'b\nA\\"},
		{"escaped text", "V\\u00e9\xe8\\U0001f600\\n\n.", "éè😀\\n"},
		{"latin-1 stays bytes", "U\x02\xe9a.", Bytes{0xe9, 'a'}},
		{"long", "L-12L\n.", int64(-12)},
		{"float", "F1.5\n.", 1.5},
		{"old style instance", "(i__main__\nVocabulary\n.", &Object{Class: "__main__.Vocabulary", Args: Tuple{}}},
		{"obj", "(c__main__\nVocabulary\nK\x01o.", &Object{Class: "__main__.Vocabulary", Args: Tuple{int64(1)}}},
		{"reconstructor", "ccopy_reg\n_reconstructor\n(c__main__\nVocabulary\nc__builtin__\nobject\nNtR.",
			&Object{Class: "__main__.Vocabulary", Args: Tuple{}}},
		{"pop", "K\x01(0K\x020.", int64(1)},
	} {
		v, err := decode(c.in)
		if err != nil || !reflect.DeepEqual(v, c.want) {
			t.Errorf("%s: %#v, %v; want %#v", c.name, v, err, c.want)
		}
	}
	// Dicts from a mark, and OrderedDict([['a', 1]]), which Python 2 writes as a list of lists.
	for in, ordered := range map[string]bool{"(U\x01aK\x01d.": false,
		"\x80\x02ccollections\nOrderedDict\n](](U\x01aK\x01ee\x85R.": true} {
		v, err := decode(in)
		if d, ok := v.(*Dict); !ok || d.Ordered != ordered || d.Len() != 1 || d.entries[0] != (entry{"a", int64(1)}) {
			t.Errorf("%q: %#v, %v", in, v, err)
		}
	}
	if s, ok := Text(Bytes{0xe9, 'a'}); !ok || s != "éa" {
		t.Errorf("Text of Latin-1 is %q", s)
	}
}

// TestDictIndex checks that a dict finds keys before and after it builds its index.
func TestDictIndex(t *testing.T) {
	var d Dict
	for i := range 100 {
		d.Set(i, i*i)
		d.Set(fmt.Sprint(i), i)
		d.Set(Bytes{byte(i)}, -i)
		d.Set(i, i*i+1)
		for j := range i + 1 {
			a, _ := d.Get(j)
			b, _ := d.Get(fmt.Sprint(j))
			c, _ := d.Get(Bytes{byte(j)})
			if a != j*j+1 || b != j || c != -j {
				t.Fatalf("after %d: key %d gives %v, %v, %v", i, j, a, b, c)
			}
		}
	}
	if d.Len() != 300 {
		t.Fatalf("%d entries, want 300", d.Len())
	}
}

// bytearrays_p5.pkl is {"array": bytearray(b"\x00word\xff"), "again": the same, "matrix": a Fortran array of NumPy} by
// Python 3.11.
func TestBytearrays(t *testing.T) {
	d := decodeFile(t, "bytearrays_p5.pkl").(*Dict)
	for _, key := range []string{"array", "again"} {
		if v, _ := d.Get(key); !reflect.DeepEqual(v, Bytes("\x00word\xff")) {
			t.Errorf("%s is %#v", key, v)
		}
	}
	v, _ := d.Get("matrix")
	want := &Array{DType: "<i2", Shape: []int{2, 2}, Fortran: true, Data: []byte{0, 0, 2, 0, 1, 0, 3, 0}}
	if !reflect.DeepEqual(v, want) {
		t.Errorf("matrix is %+v, want %+v", v, want)
	}
}

func TestConsumesOnePickle(t *testing.T) {
	in := bytes.NewReader([]byte("\x80\x02K\x01.\x80\x02K\x02."))
	v, n, err := Decode(in, Options{})
	if v != int64(1) || n != 5 || err != nil {
		t.Fatalf("got %v, %d bytes, %v", v, n, err)
	}
}
