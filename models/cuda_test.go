package models

import (
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/lab/emulator"
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
