// Package composed writes kernels in terms of others: it makes a whole device of one that has few (lab/reference).
// Networks then train on a new device before a single fused kernel exists, and a fused kernel has a form to be measured
// against.
//
// The comments of the kernels in internal/compute/device define them; the code here follows them from top to bottom.
// What is no arithmetic is done by the host: index lists, masks, the order of sorted values, the geometry of boxes.
// Such kernels wait for the device where they read from it, and cannot be recorded (device.Recorder).
//
// Intermediate values lie in memory that a kernel takes at its beginning and gives back at its end (scratch.go), so
// that a kernel which has run once with some sizes allocates nothing when it runs again.
package composed

import "vsetrain/internal/compute/device"

// Device is a device with the kernels that it has itself and those that are composed here.
type Device struct {
	device.Device

	alone   bool // see Alone
	scratch scratch
	kernels device.KernelTable
	checker device.Checker
}

// Over returns a device with all kernels: those that the given one lacks are composed.
func Over(own device.Device) *Device {
	if d, ok := own.(*Device); ok {
		return d
	}
	d := &Device{Device: own}
	d.scratch.dev = own
	d.kernels = device.NewKernelTable(rows{d}, layouts{d}, segments{d}, orders{d}, normalisation{d}, pooling{d},
		recurrent{d}, cells{d}, attention{d}, decoding{d}, likelihood{d}, transformer{d}, pairs{d}, matching{d},
		losses{d}, factoring{d}, optimiser{d}, oneRank{})
	d.checker = device.Checker{Device: own.Name(), Memory: sizes{}}
	return d
}

// Alone is Over of a device of which no kernel is used that can be composed.
func Alone(own device.Device) *Device {
	d := Over(own)
	d.alone = true
	return d
}

// Unwrap implements device.Wrapper.
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

// oneRank computes what the ranks of a job do where there is one.
type oneRank struct{}

// AllReduce leaves X as it is.
func (oneRank) AllReduce(device.AllReduce) {}

// Broadcast leaves X as it is.
func (oneRank) Broadcast(device.Broadcast) {}

// Join has nothing to wait for.
func (oneRank) Join(device.Join) {}

// sizes is a device.Inspector that looks at type and size alone: whose memory it is its own kernels see.
type sizes struct{}

// Inspect implements device.Inspector.
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

// Lacked implements device.Scratch, of the composed kernels and of the device.
func (d *Device) Lacked() error {
	err := d.scratch.lacked
	d.scratch.lacked = nil
	if s, ok := device.As[device.Scratch](d.Device); ok && err == nil {
		err = s.Lacked()
	}
	return err
}

// Close releases the intermediate values and closes the device.
func (d *Device) Close() error {
	d.scratch.release()
	return d.Device.Close()
}
