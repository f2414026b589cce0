package devicetest

import (
	"fmt"
	"math"
	"slices"

	"vsetrain/internal/compute/device"
)

// Measured is the result of a kernel family.
type Measured struct {
	Comparisons int
	// Difference is the largest difference from the reference in the comparison that came closest to its bound, and
	// Allowed is that bound.
	Difference, Allowed float64
	Failures            []string
}

// Families returns the names of the kernel families in the order of the suite, and Together as the last one. Mistakes,
// which checks that wrong arguments panic, is only for tests.
func Families() (names []string) {
	for _, s := range suite {
		if s.name != mistakes {
			names = append(names, s.name)
		}
	}
	return append(names, Together)
}

const mistakes = "Mistakes"

// Rounds reports whether the results of a family depend on the precision.
func Rounds(name string) bool {
	return slices.ContainsFunc(suite, func(f family) bool { return f.name == name && f.rounds })
}

// Tolerances of Measure for products whose operands the device may round, relative to the largest element.
const (
	RoundsTF32 = 4e-3
	RoundsBF16 = 2e-2
)

// Measure runs a family on a device and never panics: with views at odd addresses, and again aligned as in a training,
// for which a GPU has other kernels. rounds is the tolerance of products that are not Exact, 0 for the tolerance of the
// device's arithmetic. After a failure the device may be unusable.
func Measure(d device.Device, family string, rounds float64) Measured {
	return measure(d, family, rounds, false)
}

// MeasureTogether is Measure of the family Together, on the devices of the ranks of a job.
func MeasureTogether(job []*World, devices []device.Device, rounds float64) Measured {
	return measureTogether(job, devices, rounds, false)
}

// Touch calls the kernels of a family on a device that computes nothing, or on the devices of a job, and compares
// nothing: it shows which kernels the family calls.
func Touch(job []*World, devices []device.Device, family string) {
	if job != nil {
		measureTogether(job, devices, 0, true)
	} else {
		measure(devices[0], family, 0, true)
	}
}

func measureTogether(job []*World, devices []device.Device, rounds float64, blind bool) (m Measured) {
	of := make([]Measured, len(job))
	together(job, func(w *World) { of[w.rank] = measure(devices[w.rank], Together, rounds, blind) })
	for rank, own := range of {
		m.Comparisons += own.Comparisons
		if own.share() > m.share() {
			m.Difference, m.Allowed = own.Difference, own.Allowed
		}
		for _, f := range own.Failures {
			m.Failures = append(m.Failures, fmt.Sprintf("rank %d of %d: %s", rank, len(job), f))
		}
	}
	return m
}

// share is the difference relative to its bound.
func (m *Measured) share() float64 {
	if m.Difference == 0 { // also where no difference is allowed
		return 0
	}
	return m.Difference / m.Allowed
}

func measure(d device.Device, family string, rounds float64, blind bool) (m Measured) {
	defer func() {
		if r := recover(); r != nil && r != any(given) {
			m.Failures = append(m.Failures, fmt.Sprint(r))
		}
	}()
	for _, guard := range []int{unaligned, aligned} {
		h := startHarness(&collector{&m}, d, family, rounds)
		h.guard, h.short, h.blind = guard, blind, blind
		h.watch = func(difference, allowed float64) {
			m.Comparisons++
			if now := (&Measured{Difference: difference, Allowed: allowed}); m.Allowed == 0 || now.share() > m.share() {
				m.Difference, m.Allowed = difference, allowed
			}
		}
		testOf(family)(h)
		h.release()
	}
	return m
}

// testOf is the test of a family.
func testOf(family string) func(*harness) {
	if family == Together {
		return testTogether
	}
	for _, s := range suite {
		if s.name == family {
			return s.test
		}
	}
	panic(fmt.Sprintf("no kernel family %q", family))
}

// collector is a T that collects failures and ends a family by a panic with given.
type collector struct{ m *Measured }

var given = new(string)

func (c *collector) Helper() {}

func (c *collector) Errorf(format string, args ...any) {
	c.m.Failures = append(c.m.Failures, fmt.Sprintf(format, args...))
}

func (c *collector) Fatal(args ...any) { c.Fatalf("%s", fmt.Sprint(args...)) }

func (c *collector) Fatalf(format string, args ...any) {
	c.Errorf(format, args...)
	panic(given)
}

// observe reports to watch how close a comparison came to its bound. It ignores infinite values and NaN.
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
