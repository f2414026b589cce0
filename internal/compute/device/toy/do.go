package toy

import "vsetrain/internal/compute/device"

// Do implements device.Device.
func (d *Device) Do(k device.Kernel) bool {
	d.checker.Check(k)
	switch a := k.(type) {
	case *device.Gemm:
		d.Gemm(*a)
	case *device.Combine:
		d.Combine(a.Dst, a.A, a.B, a.Alpha, a.Beta)
	case *device.Activate:
		if a.Grad {
			d.ActivateGrad(a.F, a.DX, a.X, a.Y, a.DY)
		} else {
			d.Activate(a.F, a.Y, a.X)
		}
	case *device.Fill:
		d.Fill(a.Dst, a.Value)
	case *device.Copy:
		d.Copy(a.Dst, a.Src)
	case *device.Multiply:
		d.Multiply(a.Dst, a.A, a.B)
	case *device.Map:
		device.Either(a.Grad, d.MapGrad, d.Map, *a)
	case *device.Reduce:
		device.Either(a.Grad, d.Spread, d.Reduce, *a)
	case *device.GatherWords:
		device.Either(a.Grad, d.ScatterWords, d.GatherWords, *a)
	default:
		return false
	}
	return true
}
