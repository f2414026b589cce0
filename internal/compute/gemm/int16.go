package gemm

import "math"

// Int16Limit is the largest magnitude of an operand in Int16.
const Int16Limit = math.MaxInt16

// HasInt16 reports whether the processor has instructions for products in Int16. Without them such products panic.
func (e *Engine) HasInt16() bool { return e.int16 != nil }

// pairInt16 is two whole numbers as a word, the first in the lower half.
func pairInt16(x, y float32) float32 {
	return math.Float32frombits(uint32(uint16(int16(x))) | uint32(uint16(int16(y)))<<16)
}

// packAInt16 packs panels [pairs of k][height].
func packAInt16(_ *worker, dst []float32, o *operand, s span, height int) {
	words := (s.k + 1) / 2
	for r := 0; r < s.outer; r += height {
		rows := min(height, s.outer-r)
		packInt16(dst[r*words:], o, span{s.o0 + r, rows, s.k0, s.k}, rows)
	}
}

// packBInt16 packs panels [pairs of k][width]. Columns beyond the last are left as they are: they meet only columns of
// the result that nobody stores.
func packBInt16(width int) func(*worker, []float32, *operand, span) {
	return func(_ *worker, dst []float32, o *operand, s span) {
		words := (s.k + 1) / 2
		for c := 0; c < s.outer; c += width {
			packInt16(dst[c*words:], o, span{s.o0 + c, min(width, s.outer-c), s.k0, s.k}, width)
		}
	}
}

// packInt16 packs a panel whose pairs of k are stride words apart.
func packInt16(panel []float32, o *operand, s span, stride int) {
	along, across := 1, o.ld
	if o.kMajor {
		along, across = o.ld, 1
	}
	for i := range s.outer {
		x := o.data[(s.o0+i)*across+s.k0*along:]
		for k := 0; k < s.k; k += 2 {
			var next float32
			if k+1 < s.k {
				next = x[(k+1)*along]
			}
			panel[k/2*stride+i] = pairInt16(x[k*along], next)
		}
	}
}
