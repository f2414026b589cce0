// Package definitions defines the kernels of package device: each is written in terms of a few others, which the device
// lab/reference has, or in internal/compute/device/composed. The conformance suite compares the kernels of all devices
// with them, and networks train on a new device before a single fused kernel exists.
//
// The comments of the kernels in internal/compute/device say what they are; the code here follows them from top to
// bottom. What is not arithmetic is done by the host: index lists, masks, the order of sorted values, the geometry of
// boxes. Such kernels wait for the device where they read from it, and cannot be recorded (device.Recorder).
package definitions

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/composed"
)

// Device has what the definitions are written in.
type Device struct {
	*composed.Device
	scratch
}

// Over returns a device with all kernels: those that the given one lacks are composed.
func Over(own device.Device) *composed.Device { return composed.With(own, false, all) }

// Alone is Over of a device of which no kernel is used that can be composed.
func Alone(own device.Device) *composed.Device { return composed.With(own, true, all) }

func all(own *composed.Device) []any {
	d := &Device{Device: own}
	return []any{rows{d}, layouts{d}, segments{d}, orders{d}, normalisation{d}, pooling{d}, recurrent{d}, cells{d},
		attention{d}, likelihood{d}, transformer{d}, pairs{d}, matching{d}, crosses{d}, losses{d}, factoring{d},
		optimiser{d}}
}
