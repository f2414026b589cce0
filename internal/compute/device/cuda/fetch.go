package cuda

import (
	"fmt"
	"math"
	"unsafe"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// fetchBuffer is a pinned buffer in which results reach the host while kernels run. A kernel packs them on the GPU, so
// that one copy is enough.
type fetchBuffer struct {
	packed   region
	parts    []part
	memory   unsafe.Pointer
	capacity int // bytes
	event    driver.Event
	values   []float32
}

func (m *fetchBuffer) close(drv driver.Driver) (first error) {
	drop(&first, drv.DestroyEvent, m.event)
	drop(&first, drv.FreeHost, m.memory)
	drop(&first, drv.Free, m.packed.ptr)
	*m = fetchBuffer{}
	return first
}

// reserve allocates memory for n values, on the thread of the context.
func (m *fetchBuffer) reserve(d *dev, n int) (err error) {
	if m.event == 0 {
		if m.event, err = d.drv.NewEvent(); err != nil {
			return err
		}
	}
	if m.capacity >= 4*n {
		return nil
	}
	if m.memory != nil {
		if err := d.idle(); err != nil {
			return err
		}
		if err := d.drv.FreeHost(m.memory); err != nil {
			return err
		}
		m.memory = nil
	}
	m.memory, err = d.drv.AllocHost(4 * n)
	m.capacity = 4 * n
	return err
}

// Fetch implements device.Recorder.
func (d *dev) Fetch(slot int, views ...device.View) {
	if d.refuse("Fetch") {
		return
	}
	m := d.fetchBufferOf(slot)
	n := d.transfer("Fetch").Fetch(views)
	if m.event == 0 || m.capacity < 4*n {
		d.run(func() error { return m.reserve(d, n) })
		d.wait()
	}
	if cap(m.values) < n {
		m.values = make([]float32, n)
	}
	m.values = m.values[:n]
	m.parts = m.parts[:0]
	for _, v := range views {
		if v.N == 0 {
			continue
		}
		p := d.pointer(v)
		d.reads(p)
		m.parts = append(m.parts, part{from: p, n: v.N})
	}
	if len(m.parts) > 0 {
		src := m.parts[0].from
		if len(m.parts) > 1 {
			moves := d.moves
			src = d.room(&m.packed, 4*n)
			d.moves = moves // no recording uses this memory
			to := src
			for i := range m.parts {
				m.parts[i].to, to = to, at(to, m.parts[i].n)
			}
			d.copyParts(m.parts)
		}
		c := d.next()
		c.kind, c.slot, c.src, c.bytes = commandFetch, slot, src, 4*n
	}
	c := d.next()
	c.kind, c.slot = commandSignal, slot
	d.flush(false)
}

// Fetched implements device.Recorder. After a failure of the device the values are NaN.
func (d *dev) Fetched(slot int) ([]float32, error) {
	m, err := d.fetchBufferOf(slot), d.full
	d.full = nil
	if m.event != 0 { // otherwise Fetch was dropped
		c := d.next()
		c.kind, c.slot = commandAwait, slot
	}
	if e := d.wait(); e != nil {
		err = e
	}
	if err != nil {
		for i := range m.values {
			m.values[i] = float32(math.NaN())
		}
		return m.values, err
	}
	copy(m.values, unsafe.Slice((*float32)(m.memory), len(m.values)))
	return m.values, nil
}

func (d *dev) fetchBufferOf(slot int) *fetchBuffer {
	if slot < 0 || slot >= device.FetchSlots {
		panic(fmt.Sprintf("cuda: slot %d of %d", slot, device.FetchSlots))
	}
	return &d.fetches[slot]
}
