package vec

import (
	"math"
	"testing"
)

func TestNotFinite(t *testing.T) {
	for n := range 19 {
		x := make([]float32, n)
		for i := range x {
			x[i] = -math.MaxFloat32
		}
		if i := NotFinite(x); i != -1 {
			t.Errorf("%d large numbers: %d", n, i)
		}
		for at := range x {
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				keep := x[at]
				x[at] = float32(bad)
				if i := NotFinite(x); i != at {
					t.Errorf("%v at %d of %d: found at %d", bad, at, n, i)
				}
				x[at] = keep
			}
		}
	}
}
