package device

import "fmt"

// Packing is the layout of a batch of sequences without padding: time-major, longest sequence first. Step t holds the
// word t of the first Active(t) sequences; its rows start at Start(t).
//
//	lengths 4 2 1:   step 0: rows 0 1 2 · step 1: rows 3 4 · step 2: row 5 · step 3: row 6
//
// It is the layout of PyTorch's pack_padded_sequence.
type Packing struct {
	active []int // sequences alive at each step
	start  []int // first row of each step, and the total at the end
}

// Pack fills the packing for lengths in descending order, each at least 1, reusing its memory.
func (p *Packing) Pack(lengths []int32) {
	p.active, p.start = p.active[:0], p.start[:0]
	if len(lengths) == 0 {
		p.start = append(p.start, 0)
		return
	}
	row, alive := 0, len(lengths)
	for i, n := range lengths {
		if n < 1 || i > 0 && n > lengths[i-1] {
			panic(fmt.Sprintf("device: length %d of sequence %d: lengths must be positive and descending", n, i))
		}
	}
	for t := int32(0); t < lengths[0]; t++ {
		for lengths[alive-1] <= t {
			alive--
		}
		p.active = append(p.active, alive)
		p.start = append(p.start, row)
		row += alive
	}
	p.start = append(p.start, row)
}

// Steps returns the longest length.
func (p *Packing) Steps() int { return len(p.active) }

// Active returns the number of sequences that have a word at step t.
func (p *Packing) Active(t int) int { return p.active[t] }

// Start returns the first packed row of step t; Start(Steps()) is the total number of rows.
func (p *Packing) Start(t int) int { return p.start[t] }

// Rows returns the total number of words.
func (p *Packing) Rows() int { return p.start[len(p.active)] }

// Layout caches the packing of an input for all kernels that read the input.
type Layout struct {
	packing Packing
	made    bool
}

// Reset drops the packing, because the input has new values.
func (l *Layout) Reset() { l.made = false }

// Packing returns the layout of sequences with these lengths (Host), which must be in descending order.
func (x Ints) Packing() *Packing {
	l := x.Layout
	if l == nil {
		l = &Layout{}
	}
	if !l.made {
		l.packing.Pack(x.Host)
		l.made = true
	}
	return &l.packing
}

// squares returns the sum of the squares of lengths with the given sum, or a bound of it if the lengths are Bounded.
func (x *Ints) squares(sum int) (n int) {
	longest := 0
	for _, l := range x.Host {
		n += int(l) * int(l)
		longest = max(longest, int(l))
	}
	if x.Bounded {
		return longest * sum
	}
	return n
}
