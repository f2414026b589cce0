package cuda

import (
	"cmp"
	"fmt"
	"math"
	"unsafe"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// buffer is memory of the GPU; elements have four bytes.
type buffer struct {
	owner *dev
	dtype device.DType
	n     int
	ptr   driver.Ptr // 0 without elements
	freed bool
	back  backBuffer // for streamed values
}

// DType implements device.Buffer.
func (b *buffer) DType() device.DType { return b.dtype }

// Len implements device.Buffer.
func (b *buffer) Len() int { return b.n }

// Alloc implements device.Device. An error says how much was requested and how much is free.
func (d *dev) Alloc(t device.DType, n int) (device.Buffer, error) {
	if d.closed {
		return nil, fmt.Errorf("device: cuda: allocation of %d elements on a closed device", n)
	}
	if n < 0 || n > math.MaxInt/4-1 {
		return nil, fmt.Errorf("device: cuda: %d elements cannot be allocated", n)
	}
	if d.refuse("Alloc") {
		return nil, d.refused
	}
	b := &buffer{owner: d, dtype: t, n: n}
	if n > 0 {
		p, err := d.allocate(4 * n)
		if err != nil {
			return nil, fmt.Errorf("device: cuda: %w", err)
		}
		b.ptr = p
		d.fill(p, 4*n, 0)
	}
	d.buffers[b] = struct{}{}
	return b, nil
}

// allocate returns memory. A full GPU is not a failure of the device.
func (d *dev) allocate(bytes int) (p driver.Ptr, err error) {
	if d.full != nil { // commands are dropped until it is reported
		return 0, d.full
	}
	var full error
	d.run(func() error {
		p, full = d.drv.Alloc(bytes)
		if !driver.OutOfMemory(full) {
			return full
		}
		free, total, err := d.drv.Memory()
		if err != nil {
			return err
		}
		full = &device.OutOfMemoryError{Want: int64(bytes), Free: int64(free), Total: int64(total), Err: full}
		return nil
	})
	if err := d.wait(); err != nil {
		return 0, err
	}
	return p, full
}

// Free implements device.Device.
func (d *dev) Free(b device.Buffer) {
	own, ok := b.(*buffer)
	if !ok || own.owner != d {
		panic(fmt.Sprintf("cuda: Free: memory of another device (%T)", b))
	}
	if own.freed {
		panic("cuda: Free: memory that was freed before")
	}
	if d.refuse("Free") {
		return
	}
	own.freed = true
	delete(d.buffers, own)
	if p := own.ptr; p != 0 {
		d.releaseCopies(p)
		d.lengths.changed(p)
		d.run(func() error { return cmp.Or(d.release(p), own.back.close(d.drv)) })
	}
}

// release frees memory after all work that may use it; cuMemFree itself may not wait. It runs on the thread of the
// context.
func (d *dev) release(p driver.Ptr) error {
	if err := d.idle(); err != nil {
		return err
	}
	return d.drv.Free(p)
}

// idle waits for all work, on the thread of the context.
func (d *dev) idle() (first error) {
	for _, s := range [3]driver.Stream{d.copies, d.side.stream, d.stream} {
		drop(&first, d.drv.Synchronize, s) // one rank has no side
	}
	return first
}

// UploadFloats implements device.Device.
func (d *dev) UploadFloats(dst device.View, src []float32) {
	d.transfer("UploadFloats").Host("dst", &dst, device.Float, len(src))
	d.upload("UploadFloats", d.pointer(dst), dst.N, unsafe.Pointer(unsafe.SliceData(src)))
}

// UploadDoubles implements device.Device.
func (d *dev) UploadDoubles(dst device.View, src []float64) {
	d.transfer("UploadDoubles").Host("dst", &dst, device.Float, len(src))
	narrow := d.narrowed(len(src))
	for i, v := range src {
		narrow[i] = float32(v)
	}
	d.UploadFloats(dst, narrow)
}

// narrowed returns room for n float32 values, which calls reuse.
func (d *dev) narrowed(n int) []float32 {
	if cap(d.narrow) < n {
		d.narrow = make([]float32, n)
	}
	return d.narrow[:n]
}

// UploadInts implements device.Device.
func (d *dev) UploadInts(dst device.View, src []int32) {
	d.transfer("UploadInts").Host("dst", &dst, device.Int32, len(src))
	d.upload("UploadInts", d.pointer(dst), dst.N, unsafe.Pointer(unsafe.SliceData(src)))
}

// upload returns when the host's memory may change again.
func (d *dev) upload(what string, dst driver.Ptr, n int, src unsafe.Pointer) {
	if n == 0 || d.refuse(what) {
		return
	}
	d.changed(dst, n)
	if d.uploads.add(d, dst, src, n) {
		return
	}
	c := d.next()
	c.kind, c.dst, c.host, c.bytes = commandUpload, dst, src, 4*n
	d.wait()
}

// DownloadFloats implements device.Device. After a failure of the device it writes NaN.
func (d *dev) DownloadFloats(dst []float32, src device.View) {
	d.transfer("DownloadFloats").Host("src", &src, device.Float, len(dst))
	p := d.pointer(src)
	d.reads(p)
	if d.download("DownloadFloats", unsafe.Pointer(unsafe.SliceData(dst)), p, src.N) != nil {
		for i := range dst {
			dst[i] = float32(math.NaN())
		}
	}
}

// DownloadDoubles implements device.Device.
func (d *dev) DownloadDoubles(dst []float64, src device.View) {
	d.transfer("DownloadDoubles").Host("src", &src, device.Float, len(dst))
	narrow := d.narrowed(len(dst))
	d.DownloadFloats(narrow, src)
	for i, v := range narrow {
		dst[i] = float64(v)
	}
}

// DownloadInts implements device.Device. After a failure of the device it writes zeros.
func (d *dev) DownloadInts(dst []int32, src device.View) {
	d.transfer("DownloadInts").Host("src", &src, device.Int32, len(dst))
	p := d.pointer(src)
	if d.download("DownloadInts", unsafe.Pointer(unsafe.SliceData(dst)), p, src.N) != nil {
		clear(dst)
	}
}

func (d *dev) download(what string, dst unsafe.Pointer, src driver.Ptr, n int) error {
	if n == 0 {
		return nil
	}
	if d.refuse(what) {
		return d.refused
	}
	if d.full != nil {
		return d.full
	}
	c := d.next()
	c.kind, c.src, c.host, c.bytes = commandDownload, src, dst, 4*n
	return d.wait()
}

func (d *dev) Fill(a device.Fill) {
	d.fill(d.pointer(a.Dst), 4*a.Dst.N, math.Float32bits(float32(a.Value)))
}

// changed invalidates copies and tables of elements that get new values, from an address on.
func (d *dev) changed(p driver.Ptr, elements int) {
	d.bf16.changed(p, elements)
	d.lengths.changed(p)
}

// wrote is changed for an address that a kernel may write through.
func (d *dev) wrote(p driver.Ptr) {
	d.bf16.wrote(p)
	d.lengths.changed(p)
}

func (d *dev) fill(p driver.Ptr, bytes int, pattern uint32) {
	if bytes == 0 {
		return
	}
	d.changed(p, bytes/4)
	c := d.next()
	c.kind, c.dst, c.bytes, c.pattern = commandFill, p, bytes, pattern
}

func (d *dev) Copy(a device.Copy) {
	dst, src := d.pointer(a.Dst), d.pointer(a.Src)
	if !d.small.add(d, dst, src, a.Dst.N) {
		d.copy(dst, src, 4*a.Dst.N)
	}
}

func (d *dev) copy(dst, src driver.Ptr, bytes int) {
	if bytes == 0 {
		return
	}
	d.reads(src)
	d.changed(dst, bytes/4)
	c := d.next()
	c.kind, c.dst, c.src, c.bytes = commandCopy, dst, src, bytes
}

// ScratchError implements device.ScratchChecker.
func (d *dev) ScratchError() error {
	err := d.full
	d.full = nil
	return err
}

// scratchSlot is scratch memory that grows as needed. A slot serves one kernel family at a time.
type scratchSlot int

const (
	scratchOrder scratchSlot = iota // an int for each packed row
	scratchSums
	scratchHidden
	scratchCarry
	scratchPanel
	scratchOperand // rounded
	scratchDeal    // what ranks exchange
	scratchHalves  // gradients sent as bfloat16
	scratchSlots
)

type region struct {
	ptr   driver.Ptr
	bytes int
}

// need returns at least the given bytes of a slot, with arbitrary contents. If the GPU has no room, later commands are
// dropped until Sync reports it.
func (d *dev) need(s scratchSlot, bytes int) driver.Ptr { return d.room(&d.scratch[s], bytes) }

// room is need for a region.
func (d *dev) room(r *region, bytes int) driver.Ptr {
	if r.bytes >= bytes {
		return r.ptr
	}
	if d.refuse("scratch memory") || d.full != nil {
		return 0
	}
	if old := r.ptr; old != 0 {
		d.releaseCopies(old)
		d.run(func() error { return d.release(old) })
	}
	*r = region{}
	d.moves++
	size := bytes + min(bytes/4, 16<<20) // so that slightly larger batches need no new memory
	p, err := d.allocate(size)
	if err != nil {
		if d.failure == nil {
			d.full = fmt.Errorf("device: cuda: scratch memory of a kernel: %w", err)
		}
		return 0
	}
	*r = region{p, size}
	return p
}
