package half

import (
	"encoding/binary"
	"math"
	"testing"
)

// halfValue is the definition of half precision, in exact float64 arithmetic.
func halfValue(h uint16) float64 {
	sign := 1.0
	if h&0x8000 != 0 {
		sign = -1
	}
	exp, frac := int(h>>10&31), float64(h&0x3ff)
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac != 0 {
			return math.NaN()
		}
		return sign * math.Inf(1)
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

func TestAllValues(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		got := Float32(h)
		want := halfValue(h)
		if math.IsNaN(want) != (got != got) || !math.IsNaN(want) && float64(got) != want ||
			math.Signbit(float64(got)) != (h&0x8000 != 0) {
			t.Fatalf("half %#04x: got %v, want %v", h, got, want)
		}
		if back := halfFromBits(halfBits(h)); back != h && !math.IsNaN(want) {
			t.Fatalf("half %#04x comes back as %#04x", h, back)
		}
	}
}

// TestRounding checks every midpoint between neighbouring halves and the floats beside it.
func TestRounding(t *testing.T) {
	for i := range 0x7c00 {
		lo, hi := uint16(i), uint16(i+1)
		a, b := halfValue(lo), halfValue(hi)
		if hi == 0x7c00 {
			b = 65536 // the value infinity stands for when rounding
		}
		mid := float32((a + b) / 2) // exact: at most 12 significant bits
		even := lo
		if lo&1 == 1 {
			even = hi
		}
		for _, c := range []struct {
			v    float32
			want uint16
		}{{mid, even}, {math.Nextafter32(mid, -1), lo}, {math.Nextafter32(mid, math.MaxFloat32), hi}} {
			if got := halfFromBits(math.Float32bits(c.v)); got != c.want {
				t.Fatalf("%v: got %#04x, want %#04x", c.v, got, c.want)
			}
			if got := halfFromBits(math.Float32bits(-c.v)); got != c.want|0x8000 {
				t.Fatalf("%v: got %#04x, want %#04x", -c.v, got, c.want|0x8000)
			}
		}
	}
}

func TestHardwareEqualsScalar(t *testing.T) {
	if !hasVectors {
		t.Skip("this processor converts no vectors: there is only the scalar code")
	}
	const n = 1 << 16
	b, floats := make([]byte, 2*n), make([]float32, n)
	for i := range n {
		binary.LittleEndian.PutUint16(b[2*i:], uint16(i))
	}
	Decode(floats, b)
	for i, v := range floats {
		if math.Float32bits(v) != halfBits(uint16(i)) {
			t.Fatalf("half %#04x: hardware %#08x, scalar %#08x", i, math.Float32bits(v), halfBits(uint16(i)))
		}
		floats[i] = math.Float32frombits(uint32(i) * 65537 * 2654435761)
	}
	Encode(b, floats)
	for i, v := range floats {
		if got, want := binary.LittleEndian.Uint16(b[2*i:]), halfFromBits(math.Float32bits(v)); got != want {
			t.Fatalf("%v (%#08x): hardware %#04x, scalar %#04x", v, math.Float32bits(v), got, want)
		}
	}
}

func TestTails(t *testing.T) {
	for n := range 70 {
		floats := make([]float32, n)
		for i := range floats {
			floats[i] = float32(i) + 0.5
		}
		b := make([]byte, 2*n+1)
		b[2*n] = 0xaa
		if bad := Encode(b, floats); bad != -1 {
			t.Fatalf("n=%d: element %d reported too large", n, bad)
		}
		back := make([]float32, n+1)
		back[n] = -1
		Decode(back[:n], b)
		for i := range floats {
			if back[i] != floats[i] {
				t.Fatalf("n=%d: element %d is %v, want %v", n, i, back[i], floats[i])
			}
		}
		if b[2*n] != 0xaa || back[n] != -1 {
			t.Fatalf("n=%d: wrote past the end", n)
		}
	}
}

func TestHalfTooLarge(t *testing.T) {
	for _, large := range []float32{65520, -65520} {
		v := []float32{1, 65519, float32(math.Inf(1)), float32(math.NaN()), large}
		if bad := Encode(make([]byte, 10), v); bad != 4 {
			t.Fatalf("%v: element %d reported too large, want 4", large, bad)
		}
	}
}

func TestNotFinite(t *testing.T) {
	for _, bad := range []uint16{0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xffff} {
		if i := NotFinite([]uint16{0, 0x7bff, 0xfbff, bad, bad}); i != 3 {
			t.Errorf("%#x: %d", bad, i)
		}
	}
	if i := NotFinite([]uint16{0x3c00, 0x8001}); i != -1 {
		t.Errorf("finite: %d", i)
	}
}
