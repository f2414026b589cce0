package philox

// Draws in bulk, sixteen blocks at a time where the processor can.

const (
	groupBlocks = 16
	groupWords  = 4 * groupBlocks
)

// Words fills dst with the words of a step from number first on, word i being the one of Block(step, i/4) at i mod 4.
func (k Key) Words(dst []uint32, step, first uint64) {
	if at := first % 4; at != 0 && len(dst) > 0 {
		b := k.Block(step, first/4)
		n := copy(dst, b[at:])
		dst, first = dst[n:], first+uint64(n)
	}
	index := first / 4
	n := k.fill(dst, step, index)
	dst, index = dst[4*n:], index+uint64(n)
	if len(dst) > groupWords/4 && len(dst) < groupWords { // the rest as part of a group
		var group [groupWords]uint32
		if k.fill(group[:], step, index) > 0 {
			copy(dst, group[:])
			return
		}
	}
	for len(dst) > 0 {
		b := k.Block(step, index)
		dst, index = dst[copy(dst, b[:]):], index+1
	}
}
