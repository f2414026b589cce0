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

var products = []struct {
	name    string
	options cuda.Options
}{
	{"own products", cuda.Options{}},
	{"cuBLAS", cuda.Options{BLAS: "emulated"}},
	{"own bf16 products", cuda.Options{Precision: cuda.BF16}},
	{"cuBLAS bf16", cuda.Options{Precision: cuda.BF16, BLAS: "emulated"}},
}

// The suite that every device passes, on the emulated driver.
func TestConformance(t *testing.T) {
	for _, p := range products {
		t.Run(p.name, func(t *testing.T) {
			devicetest.Run(t, func(t testing.TB) device.Device { return open(t, p.options) })
		})
	}
}
