package main

import "fmt"

// evex encodes a register form of a 512-bit instruction of map 0F38, W0: op zd, zv, zm (Intel order).
// pp: 2 for F3, 3 for F2.
func evex(pp, op byte, d, v, m int) []byte {
	inv := func(x, bit int) byte { return byte(^x>>bit) & 1 }
	p0 := inv(d, 3)<<7 | inv(m, 4)<<6 | inv(m, 3)<<5 | inv(d, 4)<<4 | 2
	p1 := byte(^v&15)<<3 | 1<<2 | pp
	p2 := byte(2<<5) | inv(v, 4)<<3
	return []byte{0x62, p0, p1, p2, op, 0xc0 | byte(d&7)<<3 | byte(m&7)}
}

// dpbf16 accumulates pairs: Z[acc] (16 float32) += pairs of Z[x] * pairs of Z[y].
func (g *file) dpbf16(acc, x, y int) {
	g.bytes(fmt.Sprintf("VDPBF16PS Z%d, Z%d, Z%d", y, x, acc), evex(2, 0x52, acc, x, y)...)
}

// cvt2bf16 rounds 32 float32 to bf16: low half of Z[d] from Z[lo], high half from Z[hi].
func (g *file) cvt2bf16(d, hi, lo int) {
	g.bytes(fmt.Sprintf("VCVTNE2PS2BF16 Z%d, Z%d, Z%d", lo, hi, d), evex(3, 0x72, d, hi, lo)...)
}

// AMX. Registers are given by their hardware number.
const (
	regAX = 0
	regCX = 1
	regDX = 2
	regBX = 3
	regSI = 6
	regDI = 7
)

func (g *file) ldtilecfgAX() { g.bytes("LDTILECFG (AX)", 0xc4, 0xe2, 0x78, 0x49, 0x00) }
func (g *file) tilerelease() { g.bytes("TILERELEASE", 0xc4, 0xe2, 0x78, 0x49, 0xc0) }
func (g *file) tilezero(t int) {
	g.bytes(fmt.Sprintf("TILEZERO T%d", t), 0xc4, 0xe2, 0x7b, 0x49, 0xc0|byte(t)<<3)
}

func tileMem(pp byte, t, base, index, disp int) []byte {
	return []byte{0xc4, 0xe2, 0x78 | pp, 0x4b, 0x84 | byte(t)<<3, byte(index)<<3 | byte(base),
		byte(disp), byte(disp >> 8), byte(disp >> 16), byte(disp >> 24)}
}

// tileload reads a tile whose rows start at base + disp, index bytes apart.
func (g *file) tileload(t, base, index, disp int) {
	g.bytes(fmt.Sprintf("TILELOADD %d(r%d)(r%d), T%d", disp, base, index, t), tileMem(3, t, base, index, disp)...)
}

func (g *file) tilestore(t, base, index, disp int) {
	g.bytes(fmt.Sprintf("TILESTORED T%d, %d(r%d)(r%d)", t, disp, base, index), tileMem(2, t, base, index, disp)...)
}

// tdpbf16: tile acc += tile a (rows x pairs) * tile b (pairs x columns).
func (g *file) tdpbf16(acc, a, b int) {
	g.bytes(fmt.Sprintf("TDPBF16PS T%d, T%d, T%d", b, a, acc),
		0xc4, 0xe2, byte(^b&15)<<3|2, 0x5c, 0xc0|byte(acc)<<3|byte(a))
}

// tdpbssd: tile acc += tile a (rows x groups of four signed bytes) * tile b (groups x columns), in int32.
func (g *file) tdpbssd(acc, a, b int) {
	g.bytes(fmt.Sprintf("TDPBSSD T%d, T%d, T%d", b, a, acc),
		0xc4, 0xe2, byte(^b&15)<<3|3, 0x5e, 0xc0|byte(acc)<<3|byte(a))
}
