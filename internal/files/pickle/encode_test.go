package pickle

import (
	"bytes"
	"math"
	"math/big"
	"reflect"
	"testing"

	"vsetrain/lab/try"
)

func encode(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	try.Do(t, Encode(&b, v, nil))
	return b.String()
}

func TestRoundTrip(t *testing.T) {
	shared := &Dict{Ordered: true, Attrs: &Dict{}}
	shared.Set("w", 1.5)
	shared.Attrs.Set("_metadata", "m")
	ns := &Object{Class: "argparse.Namespace", Args: Tuple{}}
	ns.Attrs.Set("margin", 0.2)
	v := &List{Items: []any{
		nil, true, false, int64(0), int64(255), int64(256), int64(65535), int64(65536), int64(-1), int64(math.MinInt32),
		int64(math.MaxInt64), int64(math.MinInt64), power(63), new(big.Int).Neg(power(63)), new(big.Int).Neg(power(71)),
		power(64),
		"naïve", Bytes{0, 255}, Tuple{}, Tuple{"a"}, Tuple{"a", "b", "c", Tuple{"d"}}, &Set{Items: []any{"s"}},
		shared, shared, ns, &List{}, math.Inf(-1), Tuple{"a", "b"}, Tuple{"a", "b", "c"},
	}}
	items := try.Get(decode(encode(t, v)))(t).(*List).Items
	for i, w := range v.Items {
		if n, ok := w.(*big.Int); ok { // -2^63 fits in int64
			w = shortInt(n)
		}
		if g := items[i]; !reflect.DeepEqual(g, w) {
			t.Errorf("item %d: %#v, want %#v", i, g, w)
		}
	}
	if items[22] != items[23] {
		t.Error("sharing is lost")
	}
}

func TestEncodeGoTypes(t *testing.T) {
	d := try.Get(decode(encode(t, map[string]any{"b": []any{1, float32(0.5)}, "a": []string{"x"}})))(t).(*Dict)
	a, _ := d.Get("a")
	b, _ := d.Get("b")
	if d.entries[0].key != "a" || !reflect.DeepEqual(a, &List{Items: []any{"x"}}) ||
		!reflect.DeepEqual(b, &List{Items: []any{int64(1), 0.5}}) {
		t.Errorf("got %v, %v", a, b)
	}
}

func TestEncodeManyMemos(t *testing.T) {
	l := &List{}
	for range 400 {
		d := &Dict{}
		l.Items = append(l.Items, d, d)
	}
	first := l.Items[0]
	items := try.Get(decode(encode(t, Tuple{l, first})))(t).(Tuple)
	if items[1] != items[0].(*List).Items[0] {
		t.Error("the first item is another one after 400 more")
	}
	items = items[0].(*List).Items
	for i := 0; i < len(items); i += 2 {
		if items[i] != items[i+1] || i > 0 && items[i] == items[i-1] {
			t.Fatalf("sharing of item %d is wrong", i)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	cycle := []any{nil}
	cycle[0] = cycle
	for _, c := range []struct {
		v    any
		want string
	}{
		{struct{}{}, "cannot write a value of type struct {}"},
		{map[string]any{"k": make(chan int)}, "[k]: cannot write"},
		{"\xff", "UTF-8"},
		{cycle, "contains itself"},
		{&Object{Class: "x"}, "no module"},
		{power(3000), "too long"},
	} {
		try.Fails(t, Encode(&bytes.Buffer{}, c.v, nil), c.want)
	}
}
