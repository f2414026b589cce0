package cuda

import (
	"slices"
	"unsafe"

	"vsetrain/internal/compute/device/cuda/driver"
)

// part is a copy of n four-byte words.
type part struct {
	to, from driver.Ptr
	n        int
}

const mostParts = 10 // of a call of copy_parts

// copyParts copies parts that do not overlap. The caller notes what it reads and writes (copies).
func (d *dev) copyParts(parts []part) {
	for lo := 0; lo < len(parts); lo += mostParts {
		some := parts[lo:min(lo+mostParts, len(parts))]
		longest := 0
		for _, p := range some {
			longest = max(longest, p.n)
		}
		c := d.start("copy_parts", threads, blocksFor(longest), len(some), 1).noted()
		var all [mostParts]part
		copy(all[:], some)
		for _, p := range all {
			c.ptr(p.to, p.from).int(p.n)
		}
	}
}

// smallCopies are copies within the GPU that are made together, before the next command or upload.
type smallCopies struct {
	parts []part
	at    string // the node of the first
}

const smallCopy = 1 << 14 // words, at most

// overlap reports whether a words at p and b words at q overlap.
func overlap(p driver.Ptr, a int, q driver.Ptr, b int) bool { return p < at(q, b) && q < at(p, a) }

// add takes a small copy, and reports whether it did. Copies wait together only if none reads or writes what another
// one writes.
func (s *smallCopies) add(d *dev, dst, src driver.Ptr, n int) bool {
	if n == 0 || n > smallCopy || len(d.uploads.parts) > 0 {
		return false
	}
	if len(s.parts) == mostParts || slices.ContainsFunc(s.parts, func(p part) bool {
		return overlap(p.to, p.n, dst, n) || overlap(p.to, p.n, src, n) || overlap(p.from, p.n, dst, n)
	}) {
		s.deliver(d)
	}
	d.reads(src)
	d.changed(dst, n)
	if len(s.parts) == 0 {
		s.at = d.at
	}
	s.parts = append(s.parts, part{dst, src, n})
	return true
}

// deliver makes the copies that wait.
func (s *smallCopies) deliver(d *dev) {
	parts, now := s.parts, d.at
	s.parts, d.at = nil, s.at // so that next does not deliver again
	if p := parts[0]; len(parts) == 1 {
		c := d.next()
		c.kind, c.dst, c.src, c.bytes = commandCopy, p.to, p.from, 4*p.n
	} else {
		d.copyParts(parts)
	}
	s.parts, d.at = parts[:0], now
}

// uploads are small uploads that are made together before the next command: copy_parts moves each to its place. A step
// has about ten inputs of a few kilobytes, each of which would otherwise need a copy and an event.
type uploads struct {
	words  []int32
	parts  []part     // from is the byte of words
	packed driver.Ptr // smallBytes
}

// add takes a small upload, and reports whether it did.
func (u *uploads) add(d *dev, dst driver.Ptr, src unsafe.Pointer, n int) bool {
	if 4*n > smallBytes || d.full != nil {
		return false
	}
	if len(d.small.parts) > 0 { // they may read what is uploaded
		d.small.deliver(d)
	}
	if 4*(len(u.words)+n) > smallBytes || slices.ContainsFunc(u.parts, func(p part) bool {
		return overlap(p.to, p.n, dst, n) // the later one must win
	}) {
		d.deliver()
	}
	u.parts = append(u.parts, part{dst, driver.Ptr(4 * len(u.words)), n})
	u.words = append(u.words, unsafe.Slice((*int32)(src), n)...)
	return true
}

// drop forgets the uploads that wait.
func (u *uploads) drop() { u.parts, u.words = u.parts[:0], u.words[:0] }

// deliver sends the uploads that wait.
func (d *dev) deliver() {
	u := &d.uploads
	parts := u.parts
	u.parts = nil // so that next does not deliver again
	to := parts[0].to
	if len(parts) > 1 {
		to = u.packed
	}
	c := d.next()
	c.kind, c.dst, c.host, c.bytes = commandUpload, to, unsafe.Pointer(unsafe.SliceData(u.words)), 4*len(u.words)
	d.wait() // until the words are read
	if len(parts) > 1 {
		for i := range parts {
			parts[i].from += to
		}
		d.copyParts(parts)
	}
	u.parts = parts
	u.drop()
}
