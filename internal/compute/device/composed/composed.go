// Package composed writes the kernels that a device lacks in terms of others. The CPU and CUDA devices compute nearly
// all kernels; what they compute is defined by lab/definitions, which has such a form of the others.
//
// The comments of the kernels in internal/compute/device define them; the code here follows them from top to bottom.
// Intermediate values lie in memory that a kernel takes at its beginning and gives back at its end (scratch.go), so
// that a kernel which has run once with some sizes allocates nothing when it runs again.
package composed

import "vsetrain/internal/compute/device"

// Device is a device with the kernels that it has itself and those that are composed.
type Device struct {
	device.Device

	alone   bool // see With
	scratch scratch
	kernels device.KernelTable
	checker device.Checker
}

// forms are the kernels that are composed here.
type forms struct{ *Device }

// Over returns a device with the kernels that are composed here where the given one lacks them.
func Over(own device.Device) *Device {
	if d, ok := own.(*Device); ok {
		return d
	}
	return With(own, false, nil)
}

// With is Over with further forms: the methods, named after kernels, of what more returns. alone: of the given device
// no kernel is used that can be composed.
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

// sizes is a device.Inspector that looks at type and size alone: whose memory it is its own kernels see.
type sizes struct{}

func (sizes) Inspect(b device.Buffer) (t device.DType, n int, fault string) {
	return b.DType(), b.Len(), ""
}

// Sync implements device.Device; it also returns what no memory was found for.
func (d *Device) Sync() error {
	if err := d.Device.Sync(); err != nil {
		return err
	}
	return d.scratch.lacked
}

// ScratchError implements device.ScratchChecker, of the composed kernels and of the device.
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
