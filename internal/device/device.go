// Package device is the seam between the networks and the hardware.
//
// Everything a network, a loss or an optimiser computes is expressed in the kernels of the Device interface. They stand
// in two layers: a Core that a device must have, and families of fused kernels that device/composed writes in terms of
// the core where a device lacks them. device/cpu and device/cuda implement all of them, device/toy the core alone. A
// new device has to pass the conformance suite of devicetest and nothing else; a new network needs no device code at
// all.
//
// Conventions. Matrices are row-major. B is the batch, L the longest caption of the batch, T = Σ lengths the number
// of words of a batch, D a feature size, H a hidden size. Views carry no shape: the argument structs do. Unless a
// kernel says otherwise an output must not overlap an input. Kernels run in the order they are called; a device may
// run them asynchronously until Sync or Download. Kernels check the sizes of their views (Checker) and panic with what
// they expected and found: such a mistake is one of graph building, never of input data.
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

// Of returns the view of a whole buffer.
func Of(b Buffer) View { return View{b, 0, b.Len()} }

// Slice returns elements [lo, hi) of the view.
func (v View) Slice(lo, hi int) View {
	if lo < 0 || hi < lo || hi > v.N {
		panic(fmt.Sprintf("device: slice [%d:%d] of a view of %d elements", lo, hi, v.N))
	}
	return View{v.Buf, v.Off + lo, hi - lo}
}

// Present reports whether an optional view was given.
func (v View) Present() bool { return v.Buf != nil }

// Ints is an int32 input whose values the host knows as well, so that a kernel can shape its work (packed
// sequences) without reading the device back.
type Ints struct {
	View
	Host []int32
	// Layout keeps the packing of these values as lengths, for all kernels of a run; nil is a value that is given once.
	Layout *Layout
	// Bounded: Host is an upper bound of the values in device memory: it has as many items, and neither their
	// sum nor the largest of them is smaller. Only a Recorder is given such lengths.
	Bounded bool
}

// Core is what every device must have: the kernels that everything else can be written in (device/composed). It has at
// most thirty methods; internal/house counts them.
type Core interface {
	// Name describes the device for people: "cpu, 2 threads, avx512, fp32".
	Name() string
	// Wide reports whether Float is float64.
	Wide() bool

	Memory
	Products
	Elements
	Primitives
	Tables
	Random
	Optimiser

	// Sync waits until every kernel called before has finished.
	Sync() error
	// Close releases all memory of the device.
	Close() error
}

// Device is one compute device with all kernels. It is used by one goroutine at a time. Beyond the core it has families
// of fused kernels, each for a layer, a loss or a kind of network. A device implements the families that it computes
// faster than their parts; composed.Over adds the others.
type Device interface {
	Core

	Rows
	Orders
	Normalisation
	Pooling
	Recurrent
	Cells
	Attention
	Matching
	Pairs
	Segments
	Transformer
	Layouts
	Losses
	Likelihood
	Factoring
}

// Warner is implemented by devices that know what makes them slow or other than asked for on this machine.
type Warner interface {
	// Warnings are sentences for people: those known when the device was opened, and later ones behind them.
	Warnings() []string
}

// Memory allocates and moves data.
type Memory interface {
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
	// Fill sets every element of a Float view.
	Fill(dst View, value float64)
	// Copy copies a view of either type to another of the same length.
	Copy(dst, src View)
}

// Host declares the view of a copy of n elements between host and device, named dst or src.
func (c *Checker) Host(name string, v *View, t DType, n int) { c.view(name, v, t, n, Exact) }

// Fill declares the view of that kernel.
func (c *Checker) Fill(dst *View) { c.whole("dst", dst) }

// Copy declares the views of that kernel, which are of one type, and returns it.
func (c *Checker) Copy(dst, src *View) DType {
	t := Float
	if dst.Present() {
		t = dst.Buf.DType()
	}
	c.view("dst", dst, t, 0, Whole)
	c.view("src", src, t, dst.N, Exact)
	return t
}

// Holder is implemented by devices that can keep weights in another order beside them.
type Holder interface {
	// Hold tells that the values of a buffer stay as they are until it is freed: weights that are trained no more. The
	// device may keep them as its products read them, which takes their memory again. Results are the same.
	Hold(b Buffer)
}

// Sharer is implemented by devices that compute in the host's own memory.
type Sharer interface {
	// Share returns a view of host values themselves, without copying them, and whether the device can: kernels read
	// the slice when they run, so it must stay as it is until they have. old is a view that Share returned before and
	// that is no longer needed; its bookkeeping is reused.
	Share(old View, host []float32) (View, bool)
}
