package reference

import "vsetrain/internal/compute/device"

// Do implements device.Device.
func (d *Device) Do(k device.Kernel) bool {
	d.checker.Check(k)
	return d.kernels.Do(k)
}
