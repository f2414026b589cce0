package cuda

import "vsetrain/internal/compute/device"

// Do implements device.Device.
func (d *dev) Do(k device.Kernel) bool {
	d.checker.Check(k)
	d.bf16.first = d.bf16.seen
	return d.kernels.Do(k) || d.collective(k)
}
