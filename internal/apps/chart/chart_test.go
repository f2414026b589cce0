package chart

import (
	"image/color"
	"math"
	"strings"
	"testing"
)

func TestTicksAndNumbers(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		want   []float64
	}{{0, 25, []float64{0, 5, 10, 15, 20, 25}}, {18.9, 56, []float64{20, 30, 40, 50}},
		{0, 4e-4, []float64{0, 1e-4, 2e-4, 3e-4, 4e-4}}} {
		got := ticks(c.lo, c.hi, 6)
		ok := len(got) == len(c.want)
		for i := range c.want {
			ok = ok && math.Abs(got[i]-c.want[i]) < 1e-12
		}
		if !ok {
			t.Errorf("[%g, %g]: %v, want %v", c.lo, c.hi, got, c.want)
		}
	}
	for v, want := range map[float64]string{0: "0", 1: "1", 12.3456: "12.35", 1403.5: "1404", 0.0004: "4e-4",
		0.05:  "0.05",
		1.5e7: "1.5e7", -2.5: "-2.5", 100: "100", 99999: "99999"} {
		if got := Number(v); got != want {
			t.Errorf("%g is %s, want %s", v, got, want)
		}
	}
}

// The ticks of an axis have one notation.
func TestLabel(t *testing.T) {
	for hi, want := range map[float64]string{1e-3: "0 5e-4 1e-3", 0.01: "0 0.005 0.01"} {
		got := ""
		for _, v := range (Axis{Hi: hi}).Ticks(3) {
			got += " " + Axis{Hi: hi}.Label(v)
		}
		if got[1:] != want {
			t.Errorf("to %g the ticks are%s, want %s", hi, got, want)
		}
	}
}

// luminance is that of WCAG 2.1, from 0 to 1.
func luminance(c color.RGBA) float64 {
	linear := func(v uint8) float64 {
		x := float64(v) / 255
		if x <= 0.04045 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c.R) + 0.7152*linear(c.G) + 0.0722*linear(c.B)
}

// Every colour stands out from its ground by 3 to 1, which WCAG asks of graphics, and no two are equal.
func TestPalette(t *testing.T) {
	seen := map[color.RGBA]bool{}
	for i, c := range palette {
		if r := 1.05 / (luminance(c.light) + 0.05); r < 3 {
			t.Errorf("colour %d on white: contrast %.2f", i, r)
		}
		if r := (luminance(c.dark) + 0.05) / 0.05; r < 3 {
			t.Errorf("colour %d on black: contrast %.2f", i, r)
		}
		if seen[c.light] || seen[c.dark] {
			t.Errorf("colour %d stands in the palette twice", i)
		}
		seen[c.light], seen[c.dark] = true, true
	}
	css := CSS()
	if strings.Count(css, "--s7:") != 3 || !strings.Contains(css, "--s0:#0072B2;") || Colour(0) != Colour(Colours) {
		t.Error(css)
	}
}

// The ramp becomes darker all the way, so that it can be read without colours.
func TestRamp(t *testing.T) {
	last := 2.0
	for i := range 101 {
		l := luminance(ramp(float64(i) / 100))
		if l > last+0.004 {
			t.Errorf("at %d %%: luminance %.3f after %.3f", i, l, last)
		}
		last = l
	}
	if c := ramp(1); c != stops[len(stops)-1] {
		t.Errorf("the end of the ramp is %v", c)
	}
}
