// Package definitions defines the kernels of package device in terms of a few others, which the device lab/reference
// has; internal/compute/device/composed defines the rest. A method composes the kernel of its name, with the suffix
// Grad its gradient. The conformance suite compares the kernels of all devices with the definitions, and networks train
// on a new device that has no fused kernel.
//
// The comments of the kernels in internal/compute/device specify them, and the code here follows the comments. The host
// computes index lists, masks, the order of sorted values, and the geometry of boxes. Such kernels wait for the device
// if they read from it, and cannot be recorded (device.Recorder).
package definitions

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/composed"
)

// Device has the kernels and the scratch memory that definitions use.
type Device struct {
	*composed.Device
	scratch
}

// Over returns a device with all kernels: it composes those that the given device lacks.
func Over(own device.Device) *composed.Device { return composed.With(own, false, all) }

// Alone is Over, but composes all kernels that have a definition.
func Alone(own device.Device) *composed.Device { return composed.With(own, true, all) }

func all(own *composed.Device) []any {
	d := &Device{Device: own}
	return []any{rows{d}, layouts{d}, segments{d}, orders{d}, normalisation{d}, pooling{d}, recurrent{d}, cells{d},
		attention{d}, likelihood{d}, transformer{d}, pairs{d}, matching{d}, crosses{d}, losses{d}, factoring{d},
		optimiser{d}}
}
