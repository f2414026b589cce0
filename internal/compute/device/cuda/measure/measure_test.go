package measure

import (
	"math"
	"testing"
)

// One wrong element among those that are looked at shows, as does one that is not a number.
func TestDifference(t *testing.T) {
	const n = 128
	a, b, c := values(n*n, 1), values(n*n, 2), make([]float32, n*n)
	for i := range n {
		for j := range n {
			sum := 0.0
			for k := range n {
				sum += float64(a[i*n+k]) * float64(b[k*n+j])
			}
			c[i*n+j] = float32(sum)
		}
	}
	if d := difference(a, b, c, n); !(d < 1e-7) {
		t.Errorf("the product differs from itself by %g", d)
	}
	at := 11 // the first that is looked at
	right := c[at]
	for _, wrong := range []float64{float64(right) + 0.1, math.NaN()} {
		c[at] = float32(wrong)
		if d := difference(a, b, c, n); d <= 1e-3 {
			t.Errorf("%g in place of %g makes a difference of %g", wrong, right, d)
		}
	}
}

// Operands are between -1 and 1, differ from each other, and no two rows of one are alike.
func TestValues(t *testing.T) {
	const n = 8192
	a, b := values(3*n, 1), values(3*n, 2)
	same, rows := 0, 0
	for i, x := range a {
		if !(x >= -1 && x < 1) {
			t.Fatalf("value %d is %g", i, x)
		}
		if x == b[i] {
			same++
		}
		if i >= n && x == a[i-n] {
			rows++
		}
	}
	if same > 30 || rows > 30 {
		t.Errorf("%d values are alike in both operands, %d in two rows", same, rows)
	}
}
