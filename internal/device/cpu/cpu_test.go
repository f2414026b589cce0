package cpu_test

import (
	"testing"

	"vsetrain/internal/device"
	"vsetrain/internal/device/cpu"
	"vsetrain/internal/device/devicetest"
)

func open(t testing.TB, o cpu.Options) device.Device {
	t.Helper()
	d, err := cpu.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var precisions = []string{cpu.FP32, cpu.BF16, cpu.FP64}

func TestConformance(t *testing.T) {
	for _, p := range precisions {
		t.Run(p, func(t *testing.T) {
			devicetest.Run(t, func(t testing.TB) device.Device { return open(t, cpu.Options{Threads: 2, Precision: p}) })
		})
	}
}

func TestThreadsGiveTheSameBits(t *testing.T) {
	for _, p := range precisions {
		t.Run(p, func(t *testing.T) {
			var devices []device.Device
			for _, n := range []int{1, 3} {
				d := open(t, cpu.Options{Threads: n, Precision: p})
				defer d.Close()
				devices = append(devices, d)
			}
			devicetest.Identical(t, devices...)
		})
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []cpu.Options{{Threads: -1}, {Precision: "fp16"}, {BLAS: "nosuch"}} {
		if d, err := cpu.New(o); err == nil {
			d.Close()
			t.Errorf("%+v: no error", o)
		} else {
			t.Log(err)
		}
	}
}

func TestGoldenKernels(t *testing.T) {
	for _, p := range []string{cpu.FP32, cpu.FP64} {
		t.Run(p, func(t *testing.T) {
			devicetest.Golden(t, func(t testing.TB) device.Device { return open(t, cpu.Options{Threads: 2, Precision: p}) })
		})
	}
}
