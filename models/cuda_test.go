package models

import (
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/lab/emulator"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
)

const emulatedGPU = "cuda" // a precision of newDevice

func newEmulatedGPU(t testing.TB) device.Device {
	t.Helper()
	path := emulator.Library(t)
	dev := try.Get(cuda.Open(cuda.Options{Driver: path, BLAS: []string{path}}))(t)
	t.Cleanup(func() { dev.Close() })
	return dev
}

// The golden cases of SAF and SGR on the emulated GPU.
func TestGoldenSGRAFOnEmulatedGPU(t *testing.T) {
	var file struct{ Cases []sgrafCase }
	golden.Load(t, "sgraf.json", &file)
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) { c.run(t, precision{emulatedGPU, golden.FP32, golden.FP32Grad}) })
	}
}
