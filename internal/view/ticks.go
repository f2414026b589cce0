package view

import (
	"math"
	"sort"
	"strconv"
	"strings"
)

// niceTicks returns about n round values (1, 2 or 5 times a power of ten apart) in [lo, hi].
func niceTicks(lo, hi float64, n int) []float64 {
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
		return niceTicks(lo, hi, 5)
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

// number writes a value with four digits, plainly where it is neither huge nor tiny.
func number(v float64) string {
	if v == 0 || math.Abs(v) < 1e-12 {
		return "0"
	}
	if a := math.Abs(v); a >= 1e6 || a < 1e-3 {
		mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', 3, 64), "e")
		if strings.Contains(mantissa, ".") {
			mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
		}
		e, _ := strconv.Atoi(exponent)
		return mantissa + "e" + strconv.Itoa(e)
	}
	digits := max(0, 3-int(math.Floor(math.Log10(math.Abs(v)))))
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// thin returns at most 2n points of a curve that look the same when drawn: of each of n pieces of equal length the
// lowest and the highest value in their order. First and last point stay.
func thin(x, y []float64, n int) (tx, ty []float64) {
	if len(x) <= 2*n {
		return x, y
	}
	for k := range n {
		lo, hi := k*len(x)/n, (k+1)*len(x)/n
		a, b := lo, lo
		for i := lo; i < hi; i++ {
			if y[i] < y[a] {
				a = i
			}
			if y[i] > y[b] {
				b = i
			}
		}
		if k == 0 {
			a = 0
		}
		if k == n-1 {
			b = len(x) - 1
		}
		if a > b {
			a, b = b, a
		}
		tx, ty = append(tx, x[a]), append(ty, y[a])
		if a != b {
			tx, ty = append(tx, x[b]), append(ty, y[b])
		}
	}
	return tx, ty
}

// smooth returns the mean of up to n values around each.
func smooth(y []float64, n int) []float64 {
	sums := make([]float64, len(y)+1)
	for i, v := range y {
		sums[i+1] = sums[i] + v
	}
	out := make([]float64, len(y))
	for i := range y {
		lo, hi := max(0, i-n/2), min(len(y), i+n/2+1)
		out[i] = (sums[hi] - sums[lo]) / float64(hi-lo)
	}
	return out
}

// sortRows orders the rows by their places.
func sortRows(rows [][]string, xs []float64) {
	sort.Sort(&placedRows{rows, xs})
}

type placedRows struct {
	rows [][]string
	xs   []float64
}

func (p *placedRows) Len() int           { return len(p.xs) }
func (p *placedRows) Less(i, j int) bool { return p.xs[i] < p.xs[j] }
func (p *placedRows) Swap(i, j int) {
	p.rows[i], p.rows[j] = p.rows[j], p.rows[i]
	p.xs[i], p.xs[j] = p.xs[j], p.xs[i]
}
