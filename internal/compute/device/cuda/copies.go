package cuda

import (
	"cmp"
	"fmt"
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// In precision bf16 the operands of large products are read as bfloat16. Memory that holds such operands gets a copy in
// bfloat16, half as large, in which every element has an index, and a set of the elements whose copies are copies of
// their values. A product rounds what its operands lack (round_copy), so each value is rounded once however many
// products read it; kernels whose results are operands write the copy in the same pass (copyFor, fresh), and Adam the
// copy of the parameters. Of results that nothing but products read they write the copy alone.
//
// Whatever else writes to memory takes its range out of the set: uploads, fills, copies and products exactly; of a
// kernel all parameters that its source declares as pointers to what is not const (kernels.Written), to the end of the
// view or, where none is known, of the memory. So a copy cannot be stale because a kernel does not know of it.
//
// What is there as a copy alone has no value. Whatever reads it as float32 is a mistake of the caller and panics: a
// kernel (all its pointers to const count), a copy, a download, a fetch, a product that is Exact or adds to it. So does
// a product that would find no copy, as after the recording that made it. What is not found is a kernel that reads only
// through a pointer that it also writes through.
type copies struct {
	on     bool // precision bf16
	from   int  // Options.RoundFrom
	memory []*copied
	views  [64]extent // the last views that were given to a method, more than any method has
	seen   int
	first  int  // of the views of the method that runs
	alone  bool // some values were written as copies alone
	lost   bool // calls were dropped (queue.full): what the sets say may not have happened
}

// copied is memory with a copy.
type copied struct {
	base  driver.Ptr // of n float32
	n     int
	half  driver.Ptr // of n bfloat16; 0 if the GPU had no room: products then read float32
	same  spans      // elements whose copy is a copy of their value
	alone spans      // the ones among them that are there as copies alone
	gone  spans      // elements that a replay left as copies alone, which are not to be read

	// While calls are recorded: what was copied by them, and what they found copied before.
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

// wrote takes what a kernel may write through an address out of the set.
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

// reads says that a value which begins at an address is read as float32. Its first element stands for all: after the
// rows that there are, memory may hold what is left of another value.
func (d *dev) reads(p driver.Ptr) {
	if !d.bf16.alone {
		return
	}
	if m := d.bf16.find(p); m != nil && (m.alone.has(m.index(p)) || m.gone.has(m.index(p))) {
		d.misread("float32")
	}
}

// misread panics: what is read was written as bfloat16 alone.
func (d *dev) misread(as string) {
	panic(fmt.Sprintf("cuda: %s: reads as %s what was written as bfloat16 for products of its step alone (Operand), %s",
		d.checker.Kernel(), as, cmp.Or(d.at, "in no node")))
}

// changed takes elements from an address on out of the set.
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

// settle empties the sets where calls were dropped that changed them.
func (d *dev) settle() {
	if d.bf16.lost && d.full == nil {
		d.bf16.lost = false
		d.bf16.forget()
	}
}

// copiesOf returns the memory that an address lies in, with room for a copy, or nil.
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
	inside := func(base driver.Ptr, n int) bool {
		if base == 0 || p < base || p >= at(base, n) {
			return false
		}
		m.base, m.n = base, n
		return true
	}
	for b := range d.buffers {
		if b.dtype == device.Float && inside(b.ptr, b.n) {
			break
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

// rounded returns the address of the copy of n elements, rounding those that are not copied. ok is false if there is no
// copy.
func (d *dev) rounded(p driver.Ptr, n int) (copy driver.Ptr, ok bool) {
	m := d.copiesOf(p)
	if m == nil || n == 0 || m.index(p)+n > m.n {
		return 0, false
	}
	lo := m.index(p)
	d.complete(m, lo, lo+n)
	return m.at(lo), true
}

// complete rounds what [lo, hi) lacks.
func (d *dev) complete(m *copied, lo, hi int) {
	gap := m.same.missing(lo, hi)
	if gap.lo < gap.hi {
		d.round(m.at(gap.lo), at(m.base, gap.lo), gap.hi-gap.lo)
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
// as such alone.
func (d *dev) takesHalf(multiplications int) bool {
	return d.bf16.on && multiplications >= d.bf16.from
}

func (m *copied) at(i int) driver.Ptr { return m.half + driver.Ptr(2*i) }

// round writes n values rounded to an address with the alignment of the values: where theirs is a multiple of 16 bytes,
// it is one of 8.
func (d *dev) round(to, from driver.Ptr, n int) {
	d.each("round_copy", (n+3)/4).noted().ptr(to, from).long(headOf(n, from), n)
}

// copyFor returns where a kernel that writes n elements from p on may write their copies, 0 for nowhere. The kernel has
// to write all of them; after its call fresh says so.
func (d *dev) copyFor(p driver.Ptr, n int) driver.Ptr {
	if !d.bf16.on || n == 0 || p == 0 {
		return 0
	}
	m := d.copiesOf(p)
	if m == nil || m.index(p)+n > m.n {
		return 0
	}
	return m.at(m.index(p))
}

// operandCopy is copyFor for values that a linear layer of some hundreds of columns follows.
func (d *dev) operandCopy(p driver.Ptr, n int) driver.Ptr {
	if !d.takesHalf(n * 512) {
		return 0
	}
	return d.copyFor(p, n)
}

// currentCopy is copyFor for a kernel that writes some of n elements and their copies: 0 unless all copies are copies
// of their values, and stay so.
func (d *dev) currentCopy(p driver.Ptr, n int) driver.Ptr {
	d.settle()
	m := d.bf16.find(p)
	if m == nil || m.half == 0 || m.index(p)+n > m.n {
		return 0
	}
	if gap := m.same.missing(m.index(p), m.index(p)+n); gap.lo < gap.hi {
		return 0
	}
	return m.at(m.index(p))
}

// fresh says that n elements from p on and their copies were written, where copyFor gave an address.
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

// values returns where a kernel writes the values that it writes the copies of: nowhere, 0, where nothing but products
// read them and there is a copy.
func values(p, copy driver.Ptr, operand bool) driver.Ptr {
	if operand && copy != 0 {
		return 0
	}
	return p
}

// stored is fresh for a kernel that was given values for its result, which is an operand or not. What is there as a
// copy alone does not outlive the recording that it is made in.
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

// aloneAt returns the address of the copy of an operand that is there as a copy alone, 0 for others. A recording reads
// only what it makes.
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
	return m.at(i)
}

// recordedCopies says what a recording of calls expects of the copies of a memory, and what they are after it.
type recordedCopies struct {
	m             *copied
	needs, behind spans
	gone          spans // left as copies alone
}

// recordCopies begins to note what recorded calls need and make. finish ends it: nothing has run.
func (d *dev) recordCopies() (finish func() []recordedCopies) {
	before := make([]copied, len(d.bf16.memory))
	for i, m := range d.bf16.memory {
		before[i] = copied{same: slices.Clone(m.same), alone: slices.Clone(m.alone), gone: slices.Clone(m.gone)}
		m.made, m.needs = nil, nil
	}
	return func() (all []recordedCopies) {
		for i, m := range d.bf16.memory {
			r := recordedCopies{m: m, needs: m.needs}
			for _, s := range m.needs { // what was needed and is still the same, and what was made
				r.behind.add(s.lo, s.hi)
			}
			r.behind.intersect(m.same)
			for _, s := range m.made {
				r.behind.add(s.lo, s.hi)
			}
			for _, s := range m.alone {
				r.behind.drop(s.lo, s.hi)
			}
			r.gone = m.alone
			m.same, m.alone, m.gone, m.made, m.needs = before[i].same, before[i].alone, before[i].gone, nil, nil
			all = append(all, r)
		}
		return all
	}
}

// expect makes the copies as recorded calls found them; behind makes the sets those that the calls leave.
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

func (d *dev) copiesAfter(all []recordedCopies) {
	d.bf16.forget()
	for _, r := range all {
		r.m.same, r.m.gone = append(r.m.same[:0], r.behind...), append(r.m.gone[:0], r.gone...)
	}
}
