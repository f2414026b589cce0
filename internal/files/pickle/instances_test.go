package pickle

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

func decodeAny(s string) (any, error) {
	v, _, err := Decode(strings.NewReader(s), Options{Globals: Merge(Standard(), NumPy()), Instances: true})
	return v, err
}

// NumPy scalars of every type, and arrays of one element of either byte order, are numbers: scalars_p*.pkl hold each
// with its value as a float.
func TestScalars(t *testing.T) {
	for _, p := range []int{2, 4, 5} {
		both := decodeFile(t, fmt.Sprintf("scalars_p%d.pkl", p)).(Tuple)
		numbers := both[0].(*List).Items
		for _, pair := range numbers {
			want, got := pair.(Tuple)[0], pair.(Tuple)[1]
			if a, ok := got.(*Array); ok {
				got, _ = a.Scalar()
			}
			switch v := got.(type) {
			case bool:
				got = map[bool]float64{true: 1}[v]
			case int64:
				got = float64(v)
			}
			if got != want {
				t.Errorf("protocol %d: %v, want %v", p, got, want)
			}
		}
		if len(numbers) < 100 {
			t.Errorf("%d numbers", len(numbers))
		}
		var other []any
		for _, v := range both[1].(*List).Items {
			if a, ok := v.(*Array); ok {
				v, _ = a.Scalar()
			}
			other = append(other, v)
		}
		want := []any{"t2i", "", "t2i", "é😀", "ab", &Object{Class: "numpy scalar of type c8"},
			&Object{Class: "numpy scalar of type M8"}}
		if !reflect.DeepEqual(other, want) {
			t.Errorf("protocol %d: %#v, want %#v", p, other, want)
		}
	}
}

// An instance of any class is data, however it is made; a name that is called with arguments is not.
func TestInstancesOfAnyClass(t *testing.T) {
	with := func(class string, args Tuple, attrs ...any) *Object {
		o := &Object{Class: class, Args: args}
		for i := 0; i < len(attrs); i += 2 {
			o.Attrs.Set(attrs[i], attrs[i+1])
		}
		return o
	}
	for name, c := range map[string]struct {
		in   string
		want any
	}{
		"NEWOBJ":    {"\x80\x02ca.b\nC\n)\x81}U\x01xK\x01sb.", with("a.b.C", Tuple{}, "x", int64(1))},
		"args":      {"\x80\x02ca.b\nC\nK\x05\x85\x81.", with("a.b.C", Tuple{int64(5)})},
		"call":      {"\x80\x02ca.b\nC\n)R}U\x01xK\x01sb.", with("a.b.C", Tuple{}, "x", int64(1))},
		"old style": {"(ia\nC\n(dS'x'\nI1\nsb.", with("a.C", Tuple{}, "x", int64(1))},
		"obj":       {"(ca\nC\no}U\x01xK\x01sb.", with("a.C", Tuple{}, "x", int64(1))},
		"slots":     {"\x80\x02ca\nC\n)\x81N}U\x01xK\x01s\x86b.", with("a.C", Tuple{}, "x", int64(1))},
		"dict":      {"\x80\x02ca\nC\n)\x81U\x01xK\x01s.", with("a.C", Tuple{}, "x", int64(1))},
		"dict of 0": {"ccopy_reg\n_reconstructor\n(ca\nC\nc__builtin__\ndict\n(dS'x'\nI1\nstR.",
			with("a.C", Tuple{}, "x", int64(1))},
		"own state":  {"\x80\x02ca\nC\n)\x81K\x07b.", with("a.C", Tuple{}, "__state__", int64(7))},
		"its parent": {"\x80\x02ca\nC\n)\x81q\x00}U\x01xh\x00sb.", with("a.C", Tuple{}, "x", nil)},
		"factory":    {"\x80\x02ccollections\ndefaultdict\nc__builtin__\nint\n\x85RU\x01xK\x01s.", "{x:1}"},
		"counter":    {"\x80\x02ccollections\nCounter\n}U\x01xK\x01s\x85R.", "{x:1}"},
		"path":       {"\x80\x02cpathlib\nPosixPath\n(U\x01/U\x01aU\x01btR.", "/a/b"},
		"decimal":    {"\x80\x02cdecimal\nDecimal\nU\x032.5\x85R.", "2.5"},
		"time":       {"\x80\x02cdatetime\ndate\nU\x04abcd\x85R.", with("datetime.date", nil)},
	} {
		got, err := decodeAny(c.in)
		if d, ok := got.(*Dict); ok {
			x, _ := d.Get("x")
			got = fmt.Sprintf("{x:%v}", x)
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %#v, %v; want %#v", name, got, err, c.want)
		}
	}
	for in, names := range map[string]string{
		"cos\nsystem\n(S'echo'\ntR.":                                               `"os.system"`,
		"(S'echo'\nios\nsystem\n.":                                                 `"os.system"`,
		"(cos\nsystem\nS'echo'\no.":                                                `"os.system"`,
		"\x80\x02}U\x01xca\nC\n)\x81}U\x01ycos\nsystem\nU\x04echo\x85Rsbs.":        `"os.system"`,
		"\x80\x02ccollections\ndefaultdict\nc__builtin__\neval\nU\x011\x85R\x85R.": `"__builtin__.eval"`,
	} {
		try.Refuses(decodeAny(in))(t, names, "nothing was executed")
	}
	try.Refuses(decodeAny("\x80\x02ca\nC\n)\x81q\x00}U\x01x](h\x00esb."))(t, "contains itself")
}
