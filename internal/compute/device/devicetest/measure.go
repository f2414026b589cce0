package devicetest

import (
	"fmt"
	"math"
	"slices"

	"vsetrain/internal/compute/device"
)

// Measured is how a device did in a kernel family.
type Measured struct {
	Comparisons int
	// Difference is the largest difference from the reference of the comparison that came closest to its bound, Allowed
	// that bound.
	Difference, Allowed float64
	Failures            []string
}

// Families lists the kernel families in the order of the suite. Mistakes, which checks that wrong arguments panic, is
// for tests.
func Families() []string {
	var names []string
	for _, s := range suite {
		if s.name != mistakes {
			names = append(names, s.name)
		}
	}
	return names
}

const mistakes = "Mistakes"

// Rounds reports whether a family computes otherwise in a reduced precision.
func Rounds(name string) bool {
	return slices.ContainsFunc(suite, func(f family) bool { return f.name == name && f.rounds })
}

// The tolerance of Measure for products whose operands the device may round, or not, as it likes for each size:
// relative to the largest element.
const (
	RoundsTF32 = 4e-3
	RoundsBF16 = 2e-2
)

// Measure runs a family on a device and never panics: with views at odd addresses, and again with views as a training
// has them, for which a GPU has other kernels. rounds is the tolerance of products that are not Exact, 0 for that of
// the device's arithmetic. After a failure the device may not be usable.
func Measure(d device.Device, family string, rounds float64) (m Measured) {
	defer func() {
		if r := recover(); r != nil && r != any(given) {
			m.Failures = append(m.Failures, fmt.Sprint(r))
		}
	}()
	if !slices.Contains(Families(), family) {
		panic(fmt.Sprintf("no kernel family %q", family))
	}
	share := -1.0
	for _, guard := range []int{unaligned, aligned} {
		h := startHarness(&collector{&m}, d, family, rounds)
		h.guard = guard
		h.watch = func(difference, allowed float64) {
			m.Comparisons++
			of := difference / allowed
			if difference == 0 { // also where no difference is allowed
				of = 0
			}
			if of > share {
				share, m.Difference, m.Allowed = of, difference, allowed
			}
		}
		for _, s := range suite {
			if s.name == family {
				s.test(h)
			}
		}
		h.release()
	}
	return m
}

// collector is a T that keeps what is reported and ends a family by a panic with given.
type collector struct{ m *Measured }

var given = new(string)

func (c *collector) Helper() {}

func (c *collector) Errorf(format string, args ...any) {
	c.m.Failures = append(c.m.Failures, fmt.Sprintf(format, args...))
}

func (c *collector) Fatal(args ...any) {
	c.m.Failures = append(c.m.Failures, fmt.Sprint(args...))
	panic(given)
}

func (c *collector) Fatalf(format string, args ...any) {
	c.Errorf(format, args...)
	panic(given)
}

// observe tells who watches how close a comparison came to its bound. Where both values are infinite or no number there
// is nothing to measure.
func (h *harness) observe(got, want []float64, allowed float64) {
	if h.watch == nil {
		return
	}
	var largest float64
	for i, w := range want {
		if d := math.Abs(got[i] - w); d > largest {
			largest = d
		}
	}
	h.watch(largest, allowed)
}
