package cuda

import (
	"cmp"
	"fmt"
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// copies are the bfloat16 copies of the operands of large products in precision bf16. Memory with such operands gets a
// copy of half its size, and a set of the elements whose copies are up to date. A product rounds the missing elements
// (round_copy), so a value is rounded once however many products read it. Kernels whose results are operands write the
// copy in the same pass (copyFor, fresh), as Adam does for parameters. Of results that only products read, they write
// the copy alone.
//
// Whatever else writes to memory removes its range from the set: uploads, fills, copies and products their exact range;
// a kernel, for each parameter declared without const (kernels.Written), the rest of the view or, if no view is known,
// of the memory. So no copy is stale because a kernel does not know about it.
//
// A value that exists as a copy alone must not be read as float32: a kernel (through any pointer to const), a copy, a
// download, a fetch, an Exact product or one that adds to it panics. So does a product that finds no copy, as after the
// recording that made it. A kernel that reads only through a pointer without const is not detected.
type copies struct {
	on     bool // precision bf16
	from   int  // Options.RoundFrom
	memory []*copied
	views  [64]extent // the last views of a method, more than any method has
	seen   int
	first  int  // of the views of the running method
	alone  bool // some values were written as copies alone
	lost   bool // calls were dropped (queue.full), so the sets may be wrong
}

// copied is memory with a copy.
type copied struct {
	base  driver.Ptr // of n float32
	n     int
	half  driver.Ptr // of n bfloat16; 0 if the GPU had no room: products then read float32
	same  spans      // elements whose copy is up to date
	alone spans      // of these, the elements that exist as copies alone
	gone  spans      // elements that a replay left as copies alone, which must not be read

	// During a recording: what its calls copied, and which earlier copies they used.
	made, needs spans
}

type extent struct{ lo, hi driver.Ptr }

// roundFrom is the default of Options.RoundFrom.
const roundFrom = 1 << 29

// note remembers the extent of a view.
func (c *copies) note(p driver.Ptr, elements int) {
	if c.on {
		c.views[c.seen%len(c.views)] = extent{p, at(p, elements)}
		c.seen++
	}
}

// find returns the memory with a copy that an address lies in, nil for other memory.
func (c *copies) find(p driver.Ptr) *copied {
	for _, m := range c.memory {
		if p >= m.base && p < at(m.base, m.n) {
			return m
		}
	}
	return nil
}

// wrote removes what a kernel may write through an address from the set.
func (c *copies) wrote(p driver.Ptr) {
	m := c.find(p)
	if m == nil {
		return
	}
	end := p
	for i := max(c.first, c.seen-len(c.views)); i < c.seen; i++ {
		if v := c.views[i%len(c.views)]; v.lo <= p && p < v.hi {
			end = max(end, v.hi)
		}
	}
	if end == p {
		end = at(m.base, m.n)
	}
	m.drop(m.index(p), min(m.n, m.index(end)))
}

// reads notes that a value at an address is read as float32. Only its first element is checked: after the last row,
// memory may hold the rest of another value.
func (d *dev) reads(p driver.Ptr) {
	if !d.bf16.alone {
		return
	}
	if m := d.bf16.find(p); m != nil && (m.alone.has(m.index(p)) || m.gone.has(m.index(p))) {
		d.misread("float32")
	}
}

// misread panics because a value that is read was written as bfloat16 alone.
func (d *dev) misread(as string) {
	panic(fmt.Sprintf("cuda: %s: reads as %s what was written as bfloat16 for products of its step alone (Operand), %s",
		d.checker.Kernel(), as, cmp.Or(d.at, "in no node")))
}

// changed removes elements from an address on from the set.
func (c *copies) changed(p driver.Ptr, elements int) {
	if !c.on {
		return
	}
	if m := c.find(p); m != nil {
		m.drop(m.index(p), min(m.n, m.index(p)+elements))
	}
}

// forget empties all sets.
func (c *copies) forget() {
	for _, m := range c.memory {
		m.drop(0, m.n)
	}
}

func (m *copied) index(p driver.Ptr) int { return int(p-m.base) / 4 }

func (m *copied) drop(lo, hi int) {
	m.same.drop(lo, hi)
	m.alone.drop(lo, hi)
	m.gone.drop(lo, hi)
	m.made.drop(lo, hi)
}

// settle empties the sets if calls that changed them were dropped.
func (d *dev) settle() {
	if d.bf16.lost && d.full == nil {
		d.bf16.lost = false
		d.bf16.forget()
	}
}

// copiesOf returns the memory that contains an address, with room for a copy, or nil.
func (d *dev) copiesOf(p driver.Ptr) *copied {
	d.settle()
	if m := d.bf16.find(p); m != nil {
		if m.half == 0 {
			return nil
		}
		return m
	}
	if d.recording || d.full != nil || d.failure != nil {
		return nil
	}
	m := &copied{}
	inside := func(base driver.Ptr, n int) {
		if base != 0 && p >= base && p < at(base, n) {
			m.base, m.n = base, n
		}
	}
	for b := range d.buffers {
		if b.dtype == device.Float {
			inside(b.ptr, b.n)
		}
	}
	for _, r := range d.scratch {
		inside(r.ptr, r.bytes/4)
	}
	if m.n == 0 {
		return nil
	}
	d.bf16.memory = append(d.bf16.memory, m)
	var err error
	if m.half, err = d.allocate((2*m.n + 3) / 4 * 4); err != nil {
		return nil
	}
	return m
}

// releaseCopies frees the copy of memory that is freed.
func (d *dev) releaseCopies(base driver.Ptr) {
	all := d.bf16.memory
	for i, m := range all {
		if m.base == base {
			if p := m.half; p != 0 {
				d.run(func() error { return d.release(p) })
			}
			m.half, m.same = 0, nil
			d.bf16.memory = append(all[:i], all[i+1:]...)
			return
		}
	}
}

// rounded returns the address of the copy of n elements, and rounds the missing ones. ok is false if there is no copy.
func (d *dev) rounded(p driver.Ptr, n int) (copy driver.Ptr, ok bool) {
	m := d.copiesOf(p)
	if m == nil || n == 0 || m.index(p)+n > m.n {
		return 0, false
	}
	d.complete(m, m.index(p), m.index(p)+n)
	return m.copyAt(p), true
}

// complete rounds the missing elements of [lo, hi).
func (d *dev) complete(m *copied, lo, hi int) {
	gap := m.same.missing(lo, hi)
	if p := at(m.base, gap.lo); gap.lo < gap.hi {
		d.round(m.copyAt(p), p, gap.hi-gap.lo)
	}
	m.same.add(gap.lo, gap.hi)
	if !d.recording {
		return
	}
	m.made.add(gap.lo, gap.hi)
	found := m.made.missing(lo, hi)
	m.needs.add(found.lo, found.hi)
}

// takesHalf reports whether products of that many multiplications read bfloat16: then kernels may write their operands
// in bfloat16 alone.
func (d *dev) takesHalf(multiplications int) bool {
	return d.bf16.on && multiplications >= d.bf16.from
}

// copyAt is the address of the copy of the element at p.
func (m *copied) copyAt(p driver.Ptr) driver.Ptr { return m.half + (p-m.base)/2 }

// round writes n rounded values. The alignment of the addresses agrees: a multiple of 8 bytes if the values are at a
// multiple of 16.
func (d *dev) round(to, from driver.Ptr, n int) {
	d.each("round_copy", (n+3)/4).noted().ptr(to, from).long(headOf(n, from), n)
}

// copyFor returns where a kernel that writes n elements from p on must write their copies, or 0 for nowhere. After its
// call, fresh notes that all copies were written.
func (d *dev) copyFor(p driver.Ptr, n int) driver.Ptr {
	if !d.bf16.on || n == 0 || p == 0 {
		return 0
	}
	m := d.copiesOf(p)
	if m == nil || m.index(p)+n > m.n {
		return 0
	}
	return m.copyAt(p)
}

// operandCopy is copyFor for the input of a linear layer of some hundreds of columns.
func (d *dev) operandCopy(p driver.Ptr, n int) driver.Ptr {
	if !d.takesHalf(n * 512) {
		return 0
	}
	return d.copyFor(p, n)
}

// currentCopy is copyFor for a kernel that writes some of n elements and their copies: 0 unless all copies are up to
// date.
func (d *dev) currentCopy(p driver.Ptr, n int) driver.Ptr {
	d.settle()
	m := d.bf16.find(p)
	if m == nil || m.half == 0 || m.index(p)+n > m.n {
		return 0
	}
	if gap := m.same.missing(m.index(p), m.index(p)+n); gap.lo < gap.hi {
		return 0
	}
	return m.copyAt(p)
}

// fresh notes that n elements from p on and their copies were written, if copyFor returned an address.
func (d *dev) fresh(copy, p driver.Ptr, n int) {
	if copy == 0 {
		return
	}
	m := d.bf16.find(p)
	lo := m.index(p)
	m.same.add(lo, lo+n)
	if d.recording {
		m.made.add(lo, lo+n)
	}
}

// values returns where a kernel writes float32 values: 0, for nowhere, if only products read them and there is a copy.
func values(p, copy driver.Ptr, operand bool) driver.Ptr {
	if operand && copy != 0 {
		return 0
	}
	return p
}

// stored is fresh for a kernel that wrote its result to values. A copy alone does not outlive the recording that makes
// it.
func (d *dev) stored(copy, p driver.Ptr, n int, operand bool) {
	if copy == 0 {
		return
	}
	d.bf16.changed(p, n)
	d.fresh(copy, p, n)
	if operand {
		m := d.bf16.find(p)
		m.alone.add(m.index(p), m.index(p)+n)
		d.bf16.alone = true
	}
}

// aloneAt returns the address of the copy of an operand that exists as a copy alone, 0 for others. A recording reads
// only copies that it makes.
func (d *dev) aloneAt(p driver.Ptr) driver.Ptr {
	if !d.bf16.alone {
		return 0
	}
	m := d.bf16.find(p)
	if m == nil || m.half == 0 {
		return 0
	}
	i := m.index(p)
	if m.gone.has(i) || d.recording && m.alone.has(i) && !m.made.has(i) {
		d.misread("an operand of another step")
	}
	if !m.alone.has(i) {
		return 0
	}
	return m.copyAt(p)
}

// recordedCopies are the copies of a memory that a recording needs, and those after it.
type recordedCopies struct {
	m            *copied
	needs, after spans
	gone         spans // left as copies alone
}

// recordCopies begins to note what recorded calls need and make. finish ends it and restores the sets: nothing has run.
func (d *dev) recordCopies() (finish func() []recordedCopies) {
	before := make([]copied, len(d.bf16.memory))
	for i, m := range d.bf16.memory {
		before[i] = copied{same: slices.Clone(m.same), alone: slices.Clone(m.alone), gone: slices.Clone(m.gone)}
		m.made, m.needs = nil, nil
	}
	return func() (all []recordedCopies) {
		for i, m := range d.bf16.memory {
			r := recordedCopies{m: m, needs: m.needs}
			for _, s := range m.needs { // what was needed and is unchanged, and what was made
				r.after.add(s.lo, s.hi)
			}
			r.after.intersect(m.same)
			for _, s := range m.made {
				r.after.add(s.lo, s.hi)
			}
			for _, s := range m.alone {
				r.after.drop(s.lo, s.hi)
			}
			r.gone = m.alone
			m.same, m.alone, m.gone, m.made, m.needs = before[i].same, before[i].alone, before[i].gone, nil, nil
			all = append(all, r)
		}
		return all
	}
}

// expect makes the copies that recorded calls need.
func (d *dev) expect(all []recordedCopies) {
	d.settle()
	for _, r := range all {
		if r.m.half == 0 {
			continue
		}
		for _, s := range r.needs {
			d.complete(r.m, s.lo, s.hi)
		}
	}
}

// copiesAfter sets the sets to what recorded calls leave.
func (d *dev) copiesAfter(all []recordedCopies) {
	d.bf16.forget()
	for _, r := range all {
		r.m.same, r.m.gone = append(r.m.same[:0], r.after...), append(r.m.gone[:0], r.gone...)
	}
}
