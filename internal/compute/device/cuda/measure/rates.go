package measure

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"vsetrain/internal/compute/device/cuda/driver"
)

// Bytes of a copy, and how often it is measured: a few tenths of a second in all on a GPU of 2018.
const (
	hostBytes, hostCopies     = 256 << 20, 6
	deviceBytes, deviceCopies = 1 << 30, 10
	emulatedBytes             = 64 << 10
)

// bench has the context on the thread of the goroutine.
type bench struct {
	driver.Driver
	stream driver.Stream
	now    func() time.Time
	free   []func() error
}

// open makes the context and a stream.
func (b *bench) open(index int) error {
	context, err := b.Retain(index)
	if err != nil {
		return err
	}
	b.free = append(b.free, func() error { return cmp.Or(b.SetCurrent(0), b.Release(index)) })
	if err := b.SetCurrent(context); err != nil {
		return err
	}
	if b.stream, err = b.NewStream(); err != nil {
		return err
	}
	b.free = append(b.free, func() error { return b.DestroyStream(b.stream) })
	return nil
}

func (b *bench) close() (err error) {
	for _, free := range slices.Backward(b.free) {
		err = cmp.Or(err, free())
	}
	return err
}

// copies measures copies between host and device and within the device. Before, it notes the free memory.
func (rep *Report) copies(r Request) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	drv, err := driver.Open(r.Driver)
	if err != nil {
		return err
	}
	b := &bench{Driver: drv, now: r.Now}
	defer func() { err = cmp.Or(err, b.close()) }()
	if err := b.open(r.Index); err != nil {
		return err
	}
	free, total, err := drv.Memory()
	if err != nil {
		return err
	}
	rep.MemoryFree, rep.MemoryTotal = int64(free), int64(total)
	host, device := int(min(hostBytes, free/8)), int(min(deviceBytes, free/4))
	if rep.Emulated {
		host, device = emulatedBytes, emulatedBytes
	}
	host, device = host&^0xff, device&^0xff
	if host == 0 {
		return fmt.Errorf("the GPU has %d bytes of free memory, which is too little to measure anything", free)
	}
	rep.Rates, err = b.rates(host, device)
	return err
}

// rates measures copies of that many bytes.
func (b *bench) rates(host, device int) (all []Rate, err error) {
	var at [2]driver.Ptr
	for i := range at {
		p, err := b.Alloc(max(host, device))
		if err != nil {
			return nil, err
		}
		b.free = append(b.free, func() error { return b.Free(p) })
		at[i] = p
	}
	pinned, err := b.AllocHost(host)
	if err != nil {
		return nil, err
	}
	b.free = append(b.free, func() error { return b.FreeHost(pinned) })
	pages := make([]byte, host)
	for i := range pages { // the first write allocates memory
		pages[i] = byte(i)
	}
	copy(unsafe.Slice((*byte)(pinned), host), pages)
	pageable := unsafe.Pointer(&pages[0])
	for _, c := range []struct {
		what         string
		bytes, moved int // of a copy; of memory, read and written
		times        int
		do           func() error
	}{
		{"host to device, pinned", host, host, hostCopies,
			func() error { return b.Upload(at[0], pinned, host, b.stream) }},
		{"device to host, pinned", host, host, hostCopies,
			func() error { return b.Download(pinned, at[0], host, b.stream) }},
		{"host to device, pageable", host, host, hostCopies,
			func() error { return b.Upload(at[0], pageable, host, b.stream) }},
		{"device to host, pageable", host, host, hostCopies,
			func() error { return b.Download(pageable, at[0], host, b.stream) }},
		{"device memory, copied", device, 2 * device, deviceCopies,
			func() error { return b.Copy(at[1], at[0], device, b.stream) }},
		{"device memory, filled", device, device, deviceCopies,
			func() error { return b.Fill(at[1], 0, device/4, b.stream) }},
	} {
		seconds, err := b.time(c.times, c.do)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.what, err)
		}
		all = append(all, Rate{c.what, int64(c.bytes), float64(c.moved) / seconds})
	}
	runtime.KeepAlive(pages)
	return all, nil
}

// time returns the seconds of a call of f, until its stream is done. The first call is not measured.
func (b *bench) time(times int, f func() error) (float64, error) {
	if err := cmp.Or(f(), b.Synchronize(b.stream)); err != nil {
		return 0, err
	}
	start := b.now()
	for range times {
		if err := f(); err != nil {
			return 0, err
		}
	}
	if err := b.Synchronize(b.stream); err != nil {
		return 0, err
	}
	return max(b.now().Sub(start).Seconds(), 1e-9) / float64(times), nil
}
