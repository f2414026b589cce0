package device

import "fmt"

// Full is the error of an allocation for which a device has no memory. The device works on.
type Full struct {
	Want, Free, Total int64 // bytes
	Err               error // of the device
}

func (e *Full) Error() string {
	return fmt.Sprintf("allocate %.1f MB: the GPU is full, %.1f of %.1f MB are free: %v", float64(e.Want)/1e6,
		float64(e.Free)/1e6, float64(e.Total)/1e6, e.Err)
}

func (e *Full) Unwrap() error { return e.Err }

// Failed is the error of a device that computes nothing more: a GPU that was lost, or a fault in a kernel.
type Failed struct{ Err error }

func (e *Failed) Error() string { return e.Err.Error() }

func (e *Failed) Unwrap() error { return e.Err }

// Scratch is implemented by devices whose kernels need memory of their own. Where a call finds no room for it, it and
// all later ones do nothing.
type Scratch interface {
	// Lacked returns what no room was found for, as Sync would, without waiting for the kernels; then the device
	// continues.
	Lacked() error
}

// Size writes a number of bytes of device memory for people, in MB or GB.
func Size(n int64) string {
	if n < 1e8 {
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.2f GB", float64(n)/1e9)
}
