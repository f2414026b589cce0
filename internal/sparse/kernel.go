package sparse

// Two loops carry the whole cost of the decomposition. Both work on panels, blocks of panelWidth vectors stored row by
// row, so that a sparse row meets full cache lines:
//
//	gather: y[r, :] = alpha sum_j val[j] x[col[j], :] + beta x[r, :] + gamma y[r, :]      over the entries j of row r
//	tile:   c[i, :] += sum_t a[i is + t ts] b[t, :]                                       i < 8, t < n
//
// Assembly stands behind them on amd64 with AVX-512 or AVX2 and FMA; elsewhere the loops of this file run.

const (
	panelWidth = 16
	tileRows   = 8
)

// kernels is one implementation of the loops. ptr has one element more than y has rows; where plain, y = alpha sum,
// and neither y nor the rows of x beside the gathered ones are read. c is [tileRows, panelWidth].
type kernels struct {
	name   string
	gather func(ptr []int, col []int32, val, x, y []float64, alpha, beta, gamma float64, plain bool)
	tile   func(n int, a []float64, is, ts int, b, c []float64)
}

func gatherGeneric(ptr []int, col []int32, val, x, y []float64, alpha, beta, gamma float64, plain bool) {
	for r := range len(ptr) - 1 {
		var sum [panelWidth]float64
		for j := ptr[r]; j < ptr[r+1]; j++ {
			v := val[j]
			row := (*[panelWidth]float64)(x[int(col[j])*panelWidth:])
			for i := range sum {
				sum[i] += v * row[i]
			}
		}
		out := (*[panelWidth]float64)(y[r*panelWidth:])
		if plain {
			for i := range sum {
				out[i] = alpha * sum[i]
			}
			continue
		}
		own := (*[panelWidth]float64)(x[r*panelWidth:])
		for i := range sum {
			out[i] = alpha*sum[i] + beta*own[i] + gamma*out[i]
		}
	}
}

func tileGeneric(n int, a []float64, is, ts int, b, c []float64) {
	for i := 0; i < tileRows; i += 2 {
		for j := 0; j < panelWidth; j += 4 {
			c0, c1 := (*[4]float64)(c[i*panelWidth+j:]), (*[4]float64)(c[(i+1)*panelWidth+j:])
			s00, s01, s02, s03 := c0[0], c0[1], c0[2], c0[3]
			s10, s11, s12, s13 := c1[0], c1[1], c1[2], c1[3]
			for t := range n {
				x, y := a[i*is+t*ts], a[(i+1)*is+t*ts]
				row := (*[4]float64)(b[t*panelWidth+j:])
				s00 += x * row[0]
				s01 += x * row[1]
				s02 += x * row[2]
				s03 += x * row[3]
				s10 += y * row[0]
				s11 += y * row[1]
				s12 += y * row[2]
				s13 += y * row[3]
			}
			*c0 = [4]float64{s00, s01, s02, s03}
			*c1 = [4]float64{s10, s11, s12, s13}
		}
	}
}
