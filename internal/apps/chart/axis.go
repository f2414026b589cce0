package chart

import (
	"cmp"
	"math"
)

// Axis maps values from Lo to Hi to positions from From to To of a drawing.
type Axis struct {
	Lo, Hi, From, To float64
	Log              bool
}

// Values returns an axis for values from lo to hi with a margin around them. With zero it begins at 0, unless values
// are below 0.
func Values(lo, hi float64, zero, log bool) Axis {
	a := Axis{Lo: lo, Hi: hi, Log: log}
	switch pad := 0.05 * (hi - lo); {
	case log:
		a.Lo, a.Hi = lo/1.1, hi*1.1
	case zero:
		a.Lo, a.Hi = min(0, lo), hi*1.05
	default:
		a.Lo, a.Hi = lo-pad, hi+pad
	}
	if y := math.Abs(a.Lo); a.Hi-a.Lo <= 1e-9*y {
		y = cmp.Or(y, 1)
		a.Hi += y
		if !zero {
			a.Lo -= y
		}
	}
	return a
}

// Positions returns the horizontal axis of curves over positions from lo to hi, such as epochs. It begins at 0, or at
// lo if more than a sixth of the axis would be empty. A single position is in the middle.
func Positions(lo, hi float64) Axis {
	switch pad := 0.03 * (hi - lo); {
	case hi <= 0:
		return Axis{Lo: min(0, lo), Hi: 1}
	case hi == lo:
		return Axis{Hi: 2 * hi}
	case lo > hi/6:
		return Axis{Lo: lo - pad, Hi: hi + pad}
	}
	return Axis{Lo: min(0, lo), Hi: hi}
}

// Shown returns the points of a curve that can be drawn on linear or logarithmic axes.
func Shown(xs, ys []float64, logX, logY bool) (x, y []float64) {
	shows := func(v float64, log bool) bool { return math.Abs(v) < 1e30 && (!log || v > 0) }
	for i := range xs {
		if shows(xs[i], logX) && shows(ys[i], logY) {
			x, y = append(x, xs[i]), append(y, ys[i])
		}
	}
	return x, y
}

// At returns the position of a value.
func (a Axis) At(v float64) float64 {
	share := (v - a.Lo) / (a.Hi - a.Lo)
	if a.Log {
		share = math.Log(v/a.Lo) / math.Log(a.Hi/a.Lo)
	}
	return a.From + share*(a.To-a.From)
}

// Ticks returns about n round values of the axis.
func (a Axis) Ticks(n int) []float64 {
	if a.Log {
		return logTicks(a.Lo, a.Hi)
	}
	return ticks(a.Lo, a.Hi, n)
}

// Label returns the label of a tick. On a linear axis of small values, every tick except 0 has an exponent.
func (a Axis) Label(tick float64) string {
	if n := Number(tick); a.Log || n == "0" || max(math.Abs(a.Lo), math.Abs(a.Hi)) >= 5e-3 {
		return n
	}
	return scientific(tick)
}

// Trace returns the points of a curve between two axes.
func Trace(xs, ys []float64, x, y Axis) []Point {
	points := make([]Point, len(xs))
	for i := range xs {
		points[i] = Point{x.At(xs[i]), y.At(ys[i])}
	}
	return points
}
