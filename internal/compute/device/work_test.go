package device

import "testing"

// elements is a buffer of that many elements.
type elements struct {
	t DType
	n int
}

func (e elements) DType() DType { return e.t }
func (e elements) Len() int     { return e.n }

// A kernel moves each view that it has once, cut to what its sizes give it, and of a table the rows that it reads; the
// gradient of a table is written whole.
func TestBytes(t *testing.T) {
	floats := func(n int) View { return ViewOf(elements{Float, n}) }
	ints := func(host ...int32) Ints { return Ints{View: ViewOf(elements{Int32, len(host)}), Host: host} }
	words := GatherWords{Words: ints(1, 2, 3, 4, 5, 6), Lengths: ints(3, 1), L: 3, V: 1000, D: 8,
		Table: floats(8000), Out: floats(100)}
	back := words
	back.Grad = true
	for _, c := range []struct {
		name  string
		k     Kernel
		float int
		want  int64
	}{
		{"product", &Gemm{M: 2, N: 3, K: 5, A: floats(10), B: floats(15), C: floats(60)}, 4, 4 * (10 + 15 + 6)},
		{"product and bias", &Gemm{M: 2, N: 3, K: 5, A: floats(10), B: floats(15), C: floats(6), Bias: floats(3)}, 4,
			4 * (10 + 15 + 6 + 3)},
		{"float64", &Add{Dst: floats(7), A: floats(7), B: floats(7)}, 8, 3 * 8 * 7},
		{"without B", &Combine{Dst: floats(7), A: floats(7)}, 4, 2 * 4 * 7},
		{"rows of a table", &words, 4, 4 * (6 + 2 + 4*8 + 4*8)},
		{"gradient of a table", &back, 8, 4*(6+2) + 8*(8000+4*8)},
	} {
		if n := Bytes(c.k, c.float); n != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, n, c.want)
		}
	}
}
