package sparse

import "golang.org/x/sys/cpu"

//go:noescape
func gather512(ptr *int, n int, col *int32, val, x, y *float64, alpha, beta, gamma float64, plain bool)

//go:noescape
func gather256(ptr *int, n int, col *int32, val, x, y *float64, alpha, beta, gamma float64, plain bool)

//go:noescape
func tile512(n int, a *float64, is, ts int, b, c *float64)

//go:noescape
func tile256(n int, a *float64, is, ts int, b, c *float64)

// available lists the implementations this processor can run, the fastest first.
func available() []kernels {
	list := []kernels{{"generic", gatherGeneric, tileGeneric}}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		list = append([]kernels{{"avx2", gatherAVX2, tileAVX2}}, list...)
		if cpu.X86.HasAVX512F {
			list = append([]kernels{{"avx512", gatherAVX512, tileAVX512}}, list...)
		}
	}
	return list
}

func gatherAVX512(ptr []int, col []int32, val, x, y []float64, alpha, beta, gamma float64, plain bool) {
	if n := len(ptr) - 1; n > 0 && len(x) > 0 && ptr[n] > ptr[0] {
		gather512(&ptr[0], n, &col[0], &val[0], &x[0], &y[:n*panelWidth][0], alpha, beta, gamma, plain)
		return
	}
	gatherGeneric(ptr, col, val, x, y, alpha, beta, gamma, plain)
}

func gatherAVX2(ptr []int, col []int32, val, x, y []float64, alpha, beta, gamma float64, plain bool) {
	if n := len(ptr) - 1; n > 0 && len(x) > 0 && ptr[n] > ptr[0] {
		gather256(&ptr[0], n, &col[0], &val[0], &x[0], &y[:n*panelWidth][0], alpha, beta, gamma, plain)
		return
	}
	gatherGeneric(ptr, col, val, x, y, alpha, beta, gamma, plain)
}

func tileAVX512(n int, a []float64, is, ts int, b, c []float64) {
	if n == 0 {
		return
	}
	_, _, _ = a[(tileRows-1)*is+(n-1)*ts], b[n*panelWidth-1], c[tileRows*panelWidth-1]
	tile512(n, &a[0], is, ts, &b[0], &c[0])
}

// tileAVX2 covers the tile by four of 4 rows and 8 columns.
func tileAVX2(n int, a []float64, is, ts int, b, c []float64) {
	if n == 0 {
		return
	}
	_, _, _ = a[(tileRows-1)*is+(n-1)*ts], b[n*panelWidth-1], c[tileRows*panelWidth-1]
	for i := 0; i < tileRows; i += 4 {
		for j := 0; j < panelWidth; j += 8 {
			tile256(n, &a[i*is], is, ts, &b[j], &c[i*panelWidth+j])
		}
	}
}
