package sparse

import "vsetrain/internal/compute/tile64"

//go:noescape
func gather512(ptr *int, n int, col *int32, val, x, y *float64, alpha, beta, gamma float64, plain bool)

//go:noescape
func gather256(ptr *int, n int, col *int32, val, x, y *float64, alpha, beta, gamma float64, plain bool)

// available lists the implementations this processor can run, the fastest first.
func available() (list []kernels) {
	for _, t := range tile64.Available() {
		k := kernels{t.Name, gatherGeneric, t.Double}
		switch t.Name {
		case "avx512":
			k.gather = gatherWith(gather512)
		case "avx2":
			k.gather = gatherWith(gather256)
		}
		list = append(list, k)
	}
	return list
}

// gatherWith gives an assembly kernel, which expects at least one entry, the signature of kernels.gather.
func gatherWith(f func(ptr *int, n int, col *int32, val, x, y *float64, alpha, beta, gamma float64, plain bool),
) func(ptr []int, col []int32, val, x, y []float64, alpha, beta, gamma float64, plain bool) {
	return func(ptr []int, col []int32, val, x, y []float64, alpha, beta, gamma float64, plain bool) {
		if n := len(ptr) - 1; n > 0 && len(x) > 0 && ptr[n] > ptr[0] {
			f(&ptr[0], n, &col[0], &val[0], &x[0], &y[:n*panelWidth][0], alpha, beta, gamma, plain)
			return
		}
		gatherGeneric(ptr, col, val, x, y, alpha, beta, gamma, plain)
	}
}
