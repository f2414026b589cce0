package chart

import (
	"math"
	"strconv"
	"strings"
)

// ticks returns about n round values in [lo, hi], at distances of 1, 2 or 5 times a power of ten.
func ticks(lo, hi float64, n int) []float64 {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/float64(n))))
	for _, f := range []float64{1, 2, 5, 10} {
		if (hi-lo)/(f*step) <= float64(n) {
			step *= f
			break
		}
	}
	var out []float64
	for i := math.Ceil(lo / step); i*step <= hi+step*1e-9 && len(out) < 20; i++ {
		out = append(out, i*step)
	}
	return out
}

// logTicks returns round values in [lo, hi] for a logarithmic axis: powers of ten, and multiples of them if there are
// few.
func logTicks(lo, hi float64) []float64 {
	decades := math.Log10(hi / lo)
	factors := []float64{1}
	if decades < 1.5 {
		factors = []float64{1, 2, 5}
	}
	if decades < 0.5 {
		return ticks(lo, hi, 5)
	}
	skip := max(1, math.Ceil(decades/6))
	var out []float64
	for e := math.Floor(math.Log10(lo)); e <= math.Log10(hi); e++ {
		if math.Mod(e, skip) != 0 {
			continue
		}
		for _, f := range factors {
			if v := f * math.Pow(10, e); v >= lo && v <= hi {
				out = append(out, v)
			}
		}
	}
	return out
}

// Number formats a value with four digits, without an exponent unless it is huge or tiny.
func Number(v float64) string {
	if v == 0 || math.Abs(v) < 1e-12 {
		return "0"
	}
	if a := math.Abs(v); a >= 1e6 || a < 1e-3 {
		return scientific(v)
	}
	digits := max(0, 3-int(math.Floor(math.Log10(math.Abs(v)))))
	return trimmed(strconv.FormatFloat(v, 'f', digits, 64))
}

// scientific formats a value with an exponent.
func scientific(v float64) string {
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', 3, 64), "e")
	e, _ := strconv.Atoi(exponent)
	return trimmed(mantissa) + "e" + strconv.Itoa(e)
}

// trimmed removes zeros at the end of decimals.
func trimmed(s string) string {
	if !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}
