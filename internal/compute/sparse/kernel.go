package sparse

import "vsetrain/internal/compute/tile64"

// Two loops carry the whole cost of the decomposition. Both work on panels, blocks of panelWidth vectors stored row by
// row, so that a sparse row meets full cache lines:
//
//	gather: y[r, :] = alpha sum_j val[j] x[col[j], :] + beta x[r, :] + gamma y[r, :]      over the entries j of row r
//	tile:   c[i, :] += sum_t a[i + t stride] b[t, :]                                      i < 8, t < n (tile64)
//
// Assembly stands behind them on amd64 with AVX-512 or AVX2 and FMA; elsewhere plain Go runs.

const (
	panelWidth = tile64.Columns
	tileRows   = tile64.Rows
)

// kernels is one implementation of the loops. ptr has one element more than y has rows; where plain, y = alpha sum,
// and neither y nor the rows of x beside the gathered ones are read. c is [tileRows, panelWidth].
type kernels struct {
	name   string
	gather func(ptr []int, col []int32, val, x, y []float64, alpha, beta, gamma float64, plain bool)
	tile   func(n int, a []float64, stride int, b, c []float64)
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
