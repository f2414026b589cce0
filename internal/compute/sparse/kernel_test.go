package sparse

import (
	"fmt"
	"math"
	"testing"

	"vsetrain/internal/compute/philox"
)

func normals(name string, n int) []float64 {
	s := philox.NewKey(5, name).Stream(0)
	x := make([]float64, n)
	for i := range x {
		x[i] = s.Norm()
	}
	return x
}

func near(t *testing.T, what string, got, want []float64, tol float64) {
	t.Helper()
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tol) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// Every implementation equals the sums written out, on rows of every length around the unrolling.
func TestKernels(t *testing.T) {
	const rows, cols = 19, 40
	var ptr []int
	var col []int32
	for r := range rows {
		ptr = append(ptr, len(col))
		for j := range r {
			col = append(col, int32((7*j+r)%cols))
		}
	}
	ptr = append(ptr, len(col))
	val, x := normals("val", len(col)), normals("x", cols*panelWidth)
	for _, k := range available() {
		for _, plain := range []bool{false, true} {
			y := normals("y", rows*panelWidth)
			want := make([]float64, len(y))
			for r := range rows {
				for i := range panelWidth {
					var sum float64
					for j := ptr[r]; j < ptr[r+1]; j++ {
						sum += val[j] * x[int(col[j])*panelWidth+i]
					}
					at := r*panelWidth + i
					if want[at] = 2 * sum; !plain {
						want[at] += 3*x[at] - 0.5*y[at]
					}
				}
			}
			k.gather(ptr, col, val, x, y, 2, 3, -0.5, plain)
			near(t, fmt.Sprint(k.name, " gather, plain ", plain), y, want, 1e-12)
		}
	}
}
