package gemm

import (
	"math"
	"unsafe"
)

// packing is the argument block of assembly routines, which are given their arguments one by one here.
type packing struct{}

// packRowNEON rounds a row of groups of four values to bf16 and writes each group stride bytes after the last.
//
//go:noescape
func packRowNEON(dst, src *float32, quads, stride int)

// packColsNEON is packRowNEON for four rows that are columns of a matrix whose rows are ld bytes apart. Their groups
// follow one another in dst.
//
//go:noescape
func packColsNEON(dst, src *float32, quads, stride, ld int)

// packABF16NEON packs panels of 12 rows as [k/4][12 rows][4 values]. Rows beyond the last are left as they are: they
// meet only rows of the result that nobody stores.
func packABF16NEON(_ *worker, dst []float32, o *operand, s span, _ int) { packBF16NEON(dst, o, s, 12) }

// packBBF16NEON packs panels of 8 columns as [k/4][8 columns][4 values], and leaves columns beyond the last.
func packBBF16NEON(_ *worker, dst []float32, o *operand, s span) { packBF16NEON(dst, o, s, 8) }

func packBF16NEON(dst []float32, o *operand, s span, width int) {
	words, quads := roundUp(s.k, 4)/2, s.k/4
	for p := 0; p < s.outer; p += width {
		panel, count := dst[p*words:], min(width, s.outer-p)
		i := 0
		if quads > 0 && o.kMajor {
			for ; i+4 <= count; i += 4 {
				packColsNEON(&panel[2*i], (*float32)(o.at(s.o0+p+i, s.k0)), quads, 8*width, 4*o.ld)
			}
		}
		if quads > 0 && !o.kMajor {
			for ; i < count; i++ {
				packRowNEON(&panel[2*i], (*float32)(o.at(s.o0+p+i, s.k0)), quads, 8*width)
			}
		}
		for r := range count { // what no routine has done
			from := 4 * quads
			if r >= i {
				from = 0
			}
			for k := from; k < s.k; k += 4 {
				var group [4]uint16
				for l := range min(4, s.k-k) {
					v := *(*float32)(o.at(s.o0+p+r, s.k0+k+l))
					group[l] = uint16(math.Float32bits(RoundBF16(v)) >> 16)
				}
				*(*[4]uint16)(unsafe.Pointer(&panel[k/4*2*width+2*r])) = group
			}
		}
	}
}
