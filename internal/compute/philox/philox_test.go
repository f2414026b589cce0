package philox

import (
	"math"
	"testing"
)

// Known answers of the Random123 distribution (kat_vectors, philox4x32 10).
func TestKnownAnswers(t *testing.T) {
	cases := []struct {
		key         Key
		step, index uint64
		want        [4]uint32
	}{
		{Key{}, 0, 0, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{Key{^uint32(0), ^uint32(0)}, ^uint64(0), ^uint64(0), [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6,
			0x6d5451fd}},
		{Key{0xa4093822, 0x299f31d0}, 0x0370734413198a2e, 0x85a308d3243f6a88,
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	}
	for _, c := range cases {
		if got := c.key.Block(c.step, c.index); got != c.want {
			t.Errorf("block(%x,%x) = %08x, want %08x", c.step, c.index, got, c.want)
		}
	}
}

func TestMoments(t *testing.T) {
	s := NewKey(7, "moments").Stream(3)
	var sum, sq, u float64
	const n = 200000
	for range n {
		x := s.Norm()
		sum += x
		sq += x * x
		u += s.Float64()
	}
	if m := sum / n; math.Abs(m) > 0.01 {
		t.Errorf("normal mean %v", m)
	}
	if v := sq / n; math.Abs(v-1) > 0.02 {
		t.Errorf("normal variance %v", v)
	}
	if m := u / n; math.Abs(m-0.5) > 0.005 {
		t.Errorf("uniform mean %v", m)
	}
}

func TestPermIsAPermutationAndDependsOnTheKey(t *testing.T) {
	a, b := make([]int32, 1000), make([]int32, 1000)
	NewKey(7, "shuffle").Stream(0).Perm(a)
	NewKey(7, "shuffle").Stream(1).Perm(b)
	seen := make([]bool, len(a))
	same := 0
	for i, v := range a {
		if seen[v] {
			t.Fatalf("%d occurs twice", v)
		}
		seen[v] = true
		if b[i] == v {
			same++
		}
	}
	if same > 20 {
		t.Errorf("%d of 1000 places agree between two epochs", same)
	}
}

// Words are the words of Block one after the other, wherever they begin and end, also where the low word of the counter
// overflows.
func TestWords(t *testing.T) {
	k := NewKey(3, "words")
	for _, step := range []uint64{0, 7<<32 | 5} {
		for _, first := range []uint64{0, 1, 3, 4, 62, 4<<32 - 4*20, 4<<32 - 3, 4<<40 + 2} {
			for _, n := range []int{0, 1, 3, 4, 17, 63, 64, 65, 100, 128, 200, 768} {
				got := make([]uint32, n+2)
				got[0], got[n+1] = 77, 78
				k.Words(got[1:n+1], step, first)
				for i, g := range got[1 : n+1] {
					at := first + uint64(i)
					if want := k.Block(step, at/4)[at%4]; g != want {
						t.Fatalf("step %d, %d words from %d: word %d is %#x, want %#x", step, n, first, i, g, want)
					}
				}
				if got[0] != 77 || got[n+1] != 78 {
					t.Fatalf("%d words from %d: the memory around them changed", n, first)
				}
			}
		}
	}
}

func BenchmarkWords(b *testing.B) {
	k, dst := NewKey(3, "words"), make([]uint32, 768)
	b.SetBytes(4 * 768)
	for b.Loop() {
		k.Words(dst, 1, 0)
	}
}
