// Package device is the seam between the networks and the hardware.
//
// Networks, losses and optimisers compute kernels. A kernel is a struct with its operands and sizes (Gemm, GRU, Hinge,
// …), whose comment defines it. A device is memory and one method, Do, which computes a kernel or reports that the
// device does not have it. Package composed computes the kernels that a device lacks from other kernels. device/cpu and
// device/cuda compute nearly all kernels, lab/reference a few. A new device has to pass the conformance suite
// (lab/devicetest) and nothing else; a new network needs no device code.
//
// Conventions: matrices are row-major. B is the batch size, L the longest caption of the batch, T = Σ lengths the
// number of words of a batch, D a feature size, H a hidden size. Views have no shape; kernels give it. Unless a kernel
// says otherwise, an output must not overlap an input. Kernels run in the order of the calls; a device may run them
// asynchronously until Sync or a download. Kernels check the sizes of their views (Checker) and panic with what they
// expected and found: the graph was built wrongly, whatever the input data.
package device

import "fmt"

// DType is the element type of a buffer.
type DType uint8

const (
	// Float is the device's arithmetic type: float32, or float64 with precision fp64.
	Float DType = iota
	// Int32 holds word ids, lengths and indices.
	Int32
)

func (t DType) String() string {
	if t == Int32 {
		return "int32"
	}
	return "float"
}

// Buffer is memory of one device; only that device can read it.
type Buffer interface {
	DType() DType
	Len() int // in elements
}

// View is a contiguous range of a buffer, in elements. The zero View means "absent" for optional arguments.
type View struct {
	Buf Buffer
	Off int
	N   int
}

// ViewOf returns the view of a whole buffer.
func ViewOf(b Buffer) View { return View{b, 0, b.Len()} }

// Slice returns elements [lo, hi) of the view.
func (v View) Slice(lo, hi int) View {
	if lo < 0 || hi < lo || hi > v.N {
		panic(fmt.Sprintf("device: slice [%d:%d] of a view of %d elements", lo, hi, v.N))
	}
	return View{v.Buf, v.Off + lo, hi - lo}
}

// Overlaps reports whether two views have elements in common.
func (v View) Overlaps(w View) bool { return v.Buf == w.Buf && v.Off < w.Off+w.N && w.Off < v.Off+v.N }

// Present reports whether an optional view was given.
func (v View) Present() bool { return v.Buf != nil }

// Ints is an int32 input whose values the host knows too, so that a kernel can plan its work (packed sequences) without
// a download.
type Ints struct {
	View
	Host []int32
	// Layout caches the packing of these values as lengths, for all kernels of a run. It is nil for a single kernel.
	Layout *Layout
	// Bounded means that Host bounds the values in device memory: the number of items is the same, and neither the sum
	// nor the largest value of Host is smaller. Only a Recorder is given such lengths.
	Bounded bool
}

// Total returns the sum of counts, such as the number of rows of a batch from its lengths.
func Total(counts []int32) (n int) {
	for _, c := range counts {
		n += int(c)
	}
	return n
}

// AllocViews allocates memory of n elements for each of some views.
func AllocViews(d Device, t DType, n int, views ...*View) error {
	for _, v := range views {
		b, err := d.Alloc(t, n)
		if err != nil {
			return err
		}
		*v = ViewOf(b)
	}
	return nil
}

// Device is one compute device. Only one goroutine at a time may use it.
//
// Other abilities of a device are separate interfaces (Recorder, Streamer, Resident, …), which As finds.
type Device interface {
	// Name describes the device for people: "cpu, 2 threads, avx512, fp32".
	Name() string
	// Float64 reports whether Float is float64.
	Float64() bool

	// Alloc returns zeroed memory of n elements.
	Alloc(t DType, n int) (Buffer, error)
	Free(Buffer)
	// UploadFloats copies host values to a Float view of the same length.
	UploadFloats(dst View, src []float32)
	// UploadDoubles is UploadFloats from float64, without loss where Float is float64.
	UploadDoubles(dst View, src []float64)
	UploadInts(dst View, src []int32)
	// DownloadFloats copies a Float view to the host and waits for it.
	DownloadFloats(dst []float32, src View)
	DownloadDoubles(dst []float64, src View)
	DownloadInts(dst []int32, src View)

	// Do computes a kernel, and reports whether the device has it. If not, Do has done nothing.
	Do(k Kernel) bool

	// Sync waits until all kernels called before have finished.
	Sync() error
	// Close releases all memory of the device.
	Close() error
}

// Warner is implemented by devices that know why they are slow on this machine, or differ from what the user chose.
type Warner interface {
	// Warnings returns sentences for people, the oldest first.
	Warnings() []string
}

// Host declares the view of a copy of n elements between host and device, named dst or src.
func (c *Checker) Host(name string, v *View, t DType, n int) { c.view(name, v, t, n, Exact) }

// Fill sets every element of a Float view.
type Fill struct {
	Dst   View
	Value float64
}

func (a *Fill) Views(c *Checker) { c.whole("Dst", &a.Dst) }

// Copy copies a view of either type to another of the same length.
type Copy struct{ Dst, Src View }

// Type is the type of both views.
func (a *Copy) Type() DType {
	if !a.Dst.Present() {
		return Float
	}
	return a.Dst.Buf.DType()
}

func (a *Copy) Views(c *Checker) {
	t := a.Type()
	c.view("Dst", &a.Dst, t, 0, Whole)
	c.view("Src", &a.Src, t, a.Dst.N, Exact)
}

// Freezer is implemented by devices that can keep a second copy of weights in another order.
type Freezer interface {
	// Freeze declares that the values of a buffer do not change until it is freed: the weights are not trained. The
	// device may keep a second copy, in the order in which its products read it. Results are the same, but what kernels
	// save for the gradient is arbitrary.
	Freeze(b Buffer)
}

// Tiler is implemented by devices whose tiles of pairs may be larger than the cache of a processor.
type Tiler interface {
	// TileValues returns the most float32 elements that a value of a tile may have; a tile has several such values.
	TileValues() int
}

// HostViewer is implemented by devices that compute in the host's own memory.
type HostViewer interface {
	// ViewHost returns a view of the host values without a copy, or reports that the device cannot. Kernels read the
	// slice when they run, so it must not change until then. old is an earlier view that is free for reuse.
	ViewHost(old View, host []float32) (View, bool)
}

// OutOfMemoryError is the error of an allocation for which a device has no memory. The device remains usable.
type OutOfMemoryError struct {
	Want, Free, Total int64 // bytes
	Err               error // of the device
}

func (e *OutOfMemoryError) Error() string {
	return fmt.Sprintf("allocate %.1f MB: the GPU is full, %.1f of %.1f MB are free: %v", float64(e.Want)/1e6,
		float64(e.Free)/1e6, float64(e.Total)/1e6, e.Err)
}

func (e *OutOfMemoryError) Unwrap() error { return e.Err }

// Error is the error of a device that is not usable any more: the GPU was lost, or a kernel failed.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// ScratchChecker is implemented by devices whose kernels allocate scratch memory. If an allocation fails, that call and
// all later ones do nothing.
type ScratchChecker interface {
	// ScratchError returns the error of the failed allocation, like Sync but without waiting for kernels. After that
	// the device computes again.
	ScratchError() error
}

// FormatBytes formats a number of bytes in MB or GB.
func FormatBytes(n int64) string {
	if n < 1e8 {
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.2f GB", float64(n)/1e9)
}
