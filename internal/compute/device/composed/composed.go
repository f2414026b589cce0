// Package composed computes the kernels that a device lacks from other kernels. The CPU and CUDA devices compute nearly
// all kernels themselves; lab/definitions composes those kernels too, as their definition.
//
// The code follows the comments of the kernels in internal/compute/device from top to bottom. A kernel takes memory for
// intermediate values when it begins and returns it when it ends (scratch.go). So a kernel that runs again with the
// same sizes allocates nothing.
package composed

import "vsetrain/internal/compute/device"

// Device is a device with its own kernels and composed ones.
type Device struct {
	device.Device

	alone   bool // see With
	scratch scratch
	kernels device.KernelTable
	checker device.Checker
}

// forms are the kernels that are composed here.
type forms struct{ *Device }

// Over returns a device that composes the kernels which the given device lacks.
func Over(own device.Device) *Device {
	if d, ok := own.(*Device); ok {
		return d
	}
	return With(own, false, nil)
}

// With is Over with more forms: the methods, named after kernels, of the values that more returns. With alone, every
// kernel that can be composed is composed, even if the given device has it.
func With(own device.Device, alone bool, more func(d *Device) []any) *Device {
	d := &Device{Device: own, alone: alone}
	d.scratch.dev = own
	values := []any{forms{d}}
	if more != nil {
		values = append(values, more(d)...)
	}
	d.kernels = device.NewKernelTable(values...)
	d.checker = device.Checker{Device: own.Name(), Memory: sizes{}}
	return d
}

func (d *Device) Unwrap() device.Device { return d.Device }

// Do implements device.Device: the device's own kernel, or the composed one.
func (d *Device) Do(k device.Kernel) bool {
	if d.alone {
		return d.compose(k) || d.Device.Do(k)
	}
	return d.Device.Do(k) || d.compose(k)
}

// compose computes a kernel in terms of others, and reports whether there is such a form.
func (d *Device) compose(k device.Kernel) bool {
	d.checker.Check(k)
	return d.kernels.Do(k)
}

// sizes is a device.Inspector that checks only type and size; the kernels of the device check the rest.
type sizes struct{}

func (sizes) Inspect(b device.Buffer) (t device.DType, n int, fault string) {
	return b.DType(), b.Len(), ""
}

// Sync also returns the error of a composed kernel that found no memory.
func (d *Device) Sync() error {
	if err := d.Device.Sync(); err != nil {
		return err
	}
	return d.scratch.lacked
}

// ScratchError covers the composed kernels and the device.
func (d *Device) ScratchError() error {
	err := d.scratch.lacked
	d.scratch.lacked = nil
	if s, ok := device.As[device.ScratchChecker](d.Device); ok && err == nil {
		err = s.ScratchError()
	}
	return err
}

// Close releases the intermediate values and closes the device.
func (d *Device) Close() error {
	d.scratch.release()
	return d.Device.Close()
}
