package cpu_test

import (
	"math"
	"strings"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/devicetest"
)

// wrong is a device whose Add is off by a thousandth at one element, and whose ColumnSum breaks down.
type wrong struct{ device.Device }

func (w wrong) Do(k device.Kernel) bool {
	if _, ok := k.(*device.ColumnSum); ok {
		panic("out of order")
	}
	done := w.Device.Do(k)
	if a, ok := k.(*device.Add); ok {
		x := make([]float64, a.Dst.N)
		w.DownloadDoubles(x, a.Dst)
		x[len(x)-1] += 1e-3
		w.UploadDoubles(a.Dst, x)
	}
	return done
}

// other is a device that computes another function in place of one.
type other struct {
	device.Device
	of device.Function
}

func (o other) Do(k device.Kernel) bool {
	if m, ok := k.(*device.Map); ok && m.F == o.of {
		c := *m
		if c.F = 0; o.of == 0 {
			c.F = 1
		}
		k = &c
	}
	return o.Device.Do(k)
}

// A device with one wrong function is found, whichever it is.
func TestEveryFunctionIsMeasured(t *testing.T) {
	d := open(t, cpu.Options{Threads: 1})
	defer d.Close()
	for f := device.Function(0); f.Valid(); f++ {
		if m := devicetest.Measure(other{d, f}, "Primitives", 0); len(m.Failures) == 0 {
			t.Errorf("function %d is wrong, and nothing fails", f)
		}
	}
}

// What is measured of a device that is right stays within what is allowed; a device that is not is told, and nothing
// panics.
func TestMeasure(t *testing.T) {
	d := open(t, cpu.Options{Threads: 2})
	defer d.Close()
	for _, family := range []string{"Gemm", "Elementwise", "GRUGrad", "Hinge"} {
		m := devicetest.Measure(d, family, 0)
		if len(m.Failures) > 0 || m.Comparisons < 10 || !(m.Difference <= m.Allowed) {
			t.Errorf("%s: %+v", family, m)
		}
	}
	m := devicetest.Measure(wrong{d}, "Elementwise", 0)
	if len(m.Failures) == 0 || !(m.Difference > m.Allowed) || math.Abs(m.Difference-1e-3) > 1e-5 {
		t.Errorf("a wrong Add: %+v", m)
	}
	if m := devicetest.Measure(wrong{d}, "ColumnSum", 0); len(m.Failures) != 1 || m.Failures[0] != "out of order" {
		t.Errorf("a panic: %+v", m)
	}
	if m := devicetest.Measure(d, "Nosuch", 0); len(m.Failures) != 1 || !strings.Contains(m.Failures[0], "Nosuch") {
		t.Errorf("an unknown family: %+v", m)
	}
	reduced := open(t, cpu.Options{Threads: 2, Precision: cpu.BF16})
	defer reduced.Close()
	if m := devicetest.Measure(reduced, "Gemm", devicetest.RoundsBF16); len(m.Failures) > 0 || m.Difference < 1e-4 {
		t.Errorf("bf16 products: %+v", m)
	}
	if m := devicetest.Measure(reduced, "Gemm", devicetest.RoundsTF32/100); len(m.Failures) == 0 {
		t.Errorf("bf16 products at the tolerance of finer ones: %+v", m)
	}
}
