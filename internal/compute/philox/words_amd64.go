package philox

import "golang.org/x/sys/cpu"

// words512 writes groups of sixteen blocks from a counter on, whose low word must not overflow; keys are the keys of
// the ten rounds.
//
//go:noescape
func words512(dst *uint32, groups int, keys *[2 * rounds]uint32, counter *[4]uint32)

var wide = cpu.X86.HasAVX512F

// fill writes whole groups of blocks to dst and returns how many blocks it wrote.
func (k Key) fill(dst []uint32, step, index uint64) int {
	groups := len(dst) / groupWords
	if left := (1<<32 - index&0xffffffff) / groupBlocks; uint64(groups) > left {
		groups = int(left)
	}
	if !wide || groups == 0 {
		return 0
	}
	var keys [2 * rounds]uint32
	for r := range rounds {
		keys[2*r], keys[2*r+1] = uint32(uint64(k.K0)+uint64(r)*weyl0), uint32(uint64(k.K1)+uint64(r)*weyl1)
	}
	words512(&dst[0], groups, &keys, &[4]uint32{uint32(index), uint32(index >> 32), uint32(step), uint32(step >> 32)})
	return groups * groupBlocks
}
