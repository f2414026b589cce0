package switches

import (
	"os"
	"path/filepath"
	"testing"

	"vsetrain/lab/try"
)

// Each function computes what the sources say, or the mistake where it is on.
func TestSwitches(t *testing.T) {
	truth := map[bool]float64{true: 1}
	for name, c := range map[string]struct {
		f            func() float64
		off, mistake float64
	}{
		"<": {func() float64 { return truth[Less(1, 2, 2)] + truth[Less(1, 1, 2)] + truth[Less(1, 3, 2)] }, 1, 2},
		"<=": {func() float64 {
			return truth[LessEqual(1, 2, 2)] + truth[LessEqual(1, 1, 2)]
		}, 2, 1},
		">":   {func() float64 { return truth[Greater(1, 2, 2)] + truth[Greater(1, 3, 2)] }, 1, 2},
		">=":  {func() float64 { return truth[GreaterEqual(1, 2, 2)] + truth[GreaterEqual(1, 1, 2)] }, 1, 0},
		"+":   {func() float64 { return Add(1, 5.0, 2) }, 7, 3},
		"-":   {func() float64 { return Sub(1, 5.0, 2) }, 3, 7},
		"*":   {func() float64 { return Mul(1, 5.0, 2) }, 10, 2.5},
		"/":   {func() float64 { return Quo(1, 5.0, 2) }, 2.5, 10},
		"+=":  {func() float64 { return Neg(1, 5, 0.5) }, 5, -5},
		"bit": {func() float64 { return float64(Bit(1)) }, 0, 1},
	} {
		for _, on = range []int{0, 1, 2} {
			want := c.off
			if on == 1 {
				want = c.mistake
			}
			if got := c.f(); got != want {
				t.Errorf("%s with %d on: %v, want %v", name, on, got, want)
			}
		}
	}
	dir, on = t.TempDir(), Record
	defer func() { dir, on = "", 0 }()
	for _, i := range []int{7, 7, 9} {
		if On(i) {
			t.Errorf("mistake %d is on while switches are noted", i)
		}
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(files) != 2 {
		t.Errorf("noted %v, %v", files, err)
	}
	try.Get(os.Stat(filepath.Join(dir, "9")))(t)
}
