package eval

// The kernel of Embeddings multiplies one panel of images [E, panelI] float64 with one panel of captions
// [E, panelC] float32 and leaves the block [panelI, panelC] of S in out:
//
//	out[i, c] = sum over e of a[e, i] * b[e, c]      (float64, e ascending)
//
// 8 x 16 is the block whose sums fit in half the AVX-512 registers; AVX2 takes it in four parts.
const (
	panelI = 8
	panelC = 16
)

// dotPanelsGo is the portable kernel and the reference of the others: 2 x 4 sums at a time, so that they stay
// in registers.
func dotPanelsGo(out *[panelI * panelC]float64, a []float64, b []float32, dim int) {
	a, b = a[:dim*panelI], b[:dim*panelC]
	for i := 0; i < panelI; i += 2 {
		for c := 0; c < panelC; c += 4 {
			var s00, s01, s02, s03, s10, s11, s12, s13 float64
			for e := range dim {
				x := a[e*panelI+i : e*panelI+i+2 : e*panelI+i+2]
				y := b[e*panelC+c : e*panelC+c+4 : e*panelC+c+4]
				y0, y1, y2, y3 := float64(y[0]), float64(y[1]), float64(y[2]), float64(y[3])
				s00 += x[0] * y0
				s01 += x[0] * y1
				s02 += x[0] * y2
				s03 += x[0] * y3
				s10 += x[1] * y0
				s11 += x[1] * y1
				s12 += x[1] * y2
				s13 += x[1] * y3
			}
			copy(out[i*panelC+c:], []float64{s00, s01, s02, s03})
			copy(out[(i+1)*panelC+c:], []float64{s10, s11, s12, s13})
		}
	}
}
