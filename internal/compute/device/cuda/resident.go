package cuda

import (
	"fmt"
	"unsafe"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/internal/files/half"
)

// table is memory for the features of a data set.
type table struct {
	ptr  driver.Ptr
	n    int
	half bool
}

// Len implements device.Table.
func (t *table) Len() int { return t.n }

// Bytes implements device.Table.
func (t *table) Bytes() int64 { return int64(t.n) * int64(t.size()) }

func (t *table) size() int {
	if t.half {
		return 2
	}
	return 4
}

// FreeMemory implements device.Resident.
func (d *dev) FreeMemory() (free, total int64, err error) {
	d.run(func() error {
		f, t, err := d.drv.Memory()
		free, total = int64(f), int64(t)
		return err
	})
	err = d.wait()
	return free, total, err
}

// NewTable implements device.Resident.
func (d *dev) NewTable(n int, half bool) (device.Table, error) {
	if n < 1 || n > 1<<60 {
		return nil, fmt.Errorf("device: cuda: a table of %d values", n)
	}
	t := &table{n: n, half: half}
	var err error
	if t.ptr, err = d.allocate((t.size()*n + 3) / 4 * 4); err != nil {
		return nil, fmt.Errorf("device: cuda: %w", err)
	}
	d.tables[t] = struct{}{}
	return t, nil
}

// FreeTable implements device.Resident.
func (d *dev) FreeTable(t device.Table) {
	own := d.table(t)
	delete(d.tables, own)
	d.run(func() error { return d.release(own.ptr) })
}

func (d *dev) table(t device.Table) *table {
	own, ok := t.(*table)
	if _, alive := d.tables[own]; !ok || !alive {
		panic(fmt.Sprintf("cuda: a table that this device does not have (%T)", t))
	}
	return own
}

// Store implements device.Resident.
func (d *dev) Store(t device.Table, at int, values []float32) {
	own := d.table(t)
	if at < 0 || at > own.n-len(values) {
		panic(fmt.Sprintf("cuda: Store: values %d to %d of a table of %d", at, at+len(values), own.n))
	}
	if len(values) == 0 || d.refuse("Store") {
		return
	}
	src, bytes := unsafe.Pointer(&values[0]), 4*len(values)
	if own.half {
		bytes = 2 * len(values)
		if cap(d.halves) < bytes {
			d.halves = make([]byte, bytes)
		}
		half.Encode(d.halves[:bytes], values)
		src = unsafe.Pointer(&d.halves[0])
	}
	c := d.next()
	c.kind, c.dst, c.host, c.bytes = commandUpload, own.ptr+driver.Ptr(at*own.size()), src, bytes
	d.wait()
}

func (d *dev) Gather(a device.Gather) {
	own, n := d.table(a.Table), a.Dst.N
	to, rows := d.pointer(a.Dst), d.pointer(a.Index)
	if n == 0 {
		return
	}
	singles, halves := either(own.half, 0, own.ptr), either(own.half, own.ptr, 0)
	copy := d.operandCopy(to, n)
	fours := inFours(a.Width, to, 2*copy, singles, 2*halves) && n%4 == 0
	d.each("gather_table", countOf(n, fours)).ptr(to, copy, singles, halves, rows).int(a.Index.N).flag(fours).
		long(a.Width, n)
	d.fresh(copy, to, n)
}

func (d *dev) GatherLists(a device.GatherLists) {
	n := a.Index.N * a.Width
	d.each("gather_lists", n).of(a.Dst, a.Values, a.Starts, a.Index).int(a.Width).long(n)
}
