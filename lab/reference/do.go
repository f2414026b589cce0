package reference

import "vsetrain/internal/compute/device"

// Do implements device.Device.
func (d *Device) Do(k device.Kernel) bool {
	d.checker.Check(k)
	return d.kernels.Do(k)
}

// methods lists the kernels: each is the method of its name, and its gradient that with Grad behind it.
func methods(d *Device) device.KernelTable {
	t := device.KernelTable{}
	device.Has(t, d.Gemm)
	device.Has(t, d.Combine)
	device.HasGrad(t, d.Activate, d.ActivateGrad)
	device.Has(t, d.Fill)
	device.Has(t, d.Copy)
	device.Has(t, d.Multiply)
	device.HasGrad(t, d.Map, d.MapGrad)
	device.HasGrad(t, d.Reduce, d.ReduceGrad)
	device.HasGrad(t, d.GatherWords, d.GatherWordsGrad)
	return t
}
