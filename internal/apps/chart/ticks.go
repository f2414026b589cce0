package chart

import (
	"math"
	"strconv"
	"strings"
)

// ticks returns about n round values (1, 2 or 5 times a power of ten apart) in [lo, hi].
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

// logTicks returns round values in [lo, hi] for a logarithmic axis: powers of ten, with their multiples where there are
// few of them.
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

// Number writes a value with four digits, plainly where it is neither huge nor tiny.
func Number(v float64) string {
	if v == 0 || math.Abs(v) < 1e-12 {
		return "0"
	}
	if a := math.Abs(v); a >= 1e6 || a < 1e-3 {
		return scientific(v)
	}
	digits := max(0, 3-int(math.Floor(math.Log10(math.Abs(v)))))
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func scientific(v float64) string {
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', 3, 64), "e")
	if strings.Contains(mantissa, ".") {
		mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
	}
	e, _ := strconv.Atoi(exponent)
	return mantissa + "e" + strconv.Itoa(e)
}
