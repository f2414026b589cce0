package cuda_test

import (
	"testing"

	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda"
	"vsetrain/internal/device/cuda/emulator"
	"vsetrain/internal/device/devicetest"
)

// open starts a device on the emulated driver.
func open(t testing.TB, o cuda.Options) device.Device {
	t.Helper()
	o.Driver = emulator.Library(t)
	if o.BLAS == "emulated" {
		o.BLAS = o.Driver
	}
	d, err := cuda.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The suite that every device passes, on the emulated driver: with every kind of product, with threads in every order, with work done at once and
// only when somebody waits for it.
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name        string
		options     cuda.Options
		order, late int
	}{
		{"own products", cuda.Options{}, 0, 0},
		{"cuBLAS", cuda.Options{BLAS: "emulated"}, 2, 1},
		{"own bf16 products", cuda.Options{Precision: cuda.BF16}, 1, 1},
		{"cuBLAS bf16", cuda.Options{Precision: cuda.BF16, BLAS: "emulated"}, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			emulator.Library(t)
			if testing.Short() && c.order != 2 {
				t.Skip("-short")
			}
			emulator.Set(t, "order", c.order, 0)
			emulator.Set(t, "defer", c.late, 0)
			devicetest.Run(t, func(t testing.TB) device.Device { return open(t, c.options) })
		})
	}
}
