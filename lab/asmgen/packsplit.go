package main

import "fmt"

// Registers and distances of split.
const (
	splitWord  = 24   // the register that holds a part
	splitTmp   = 25   // scratch
	splitFirst = 28   // constants, see splitOrders
	splitLast  = 29   // constants
	splitPart  = 2048 // bytes between the parts of 32 values of k in a panel
	splitRows  = 4    // rows of A split together
)

// packsSplit writes the packing routines of float32 as three bf16 parts, x = x0 + x1 + x2: x0 is x rounded to bf16, x1
// what remains rounded to bf16, x2 the rest, which is exact.
func packsSplit() string {
	g := new(file)
	copyPanels(g, "splitPanels512", true, 3)
	splitRow(g, "splitRow512", 1)
	splitRow(g, "splitRows512", splitRows)
	splitTranspose(g)
	splitPairs(g)
	splitData(g)
	return g.String()
}

// splitData writes the orders of bytes of splitOrders.
func splitData(g *file) {
	order := func(name, comment string, at func(i int) [4]int) {
		g.raw("\n// " + comment)
		for i := 0; i < 16; i += 2 {
			v := uint64(0)
			for b, x := range append(sliceOf(at(i)), sliceOf(at(i+1))...) {
				v |= uint64(x) << (8 * b)
			}
			g.data(name, 4*i, 8, fmt.Sprintf("%#x", v))
		}
		g.globl(name, 64)
	}
	order("pairs", "Order of bytes that interleaves the words of two halves.", func(i int) [4]int {
		return [4]int{2 * i, 2*i + 1, 32 + 2*i, 33 + 2*i}
	})
	order("low", "Order of bytes that makes float32 of the bf16 of the low half, the lower two of four left out.",
		func(i int) [4]int {
			return [4]int{0, 0, 2 * i, 2*i + 1}
		})
	order("high", "The same of the high half.", func(i int) [4]int { return [4]int{0, 0, 32 + 2*i, 33 + 2*i} })
}

func sliceOf(x [4]int) []int { return x[:] }

// splitOrders loads the constants of split.
func splitOrders(g *file, interleave bool) {
	if interleave {
		g.ins("VMOVDQU64 pairs<>(SB), Z%d", splitFirst)
		g.ins("VPTERNLOGD $0xff, Z%d, Z%d, Z%d\n\tVPSLLD $16, Z%d, Z%d", splitLast, splitLast, splitLast, splitLast,
			splitLast)
		return
	}
	g.ins("VMOVDQU64 low<>(SB), Z%d\n\tVMOVDQU64 high<>(SB), Z%d", splitFirst, splitLast)
	g.ins("MOVQ $0xcccccccccccccccc, BX\n\tKMOVQ BX, K7")
}

// split rounds Z[lo], Z[hi] (32 values of float32) to bf16 in Z[splitWord], three times, each time what the parts
// before leave; store takes each. Its words are the words of lo and then the words of hi, or with interleave one of
// each in turn. It clobbers both and Z[splitTmp]. It needs splitOrders.
func split(g *file, lo, hi int, interleave bool, store func(part int)) {
	for part := range 3 {
		g.cvt2bf16(splitWord, hi, lo)
		if interleave {
			g.ins("VPERMB Z%d, Z%d, Z%d", splitWord, splitFirst, splitWord)
		}
		store(part)
		if part == 2 {
			break
		}
		for i, x := range []int{lo, hi} {
			switch {
			case !interleave:
				g.ins("VPERMB.Z Z%d, Z%d, K7, Z%d", splitWord, splitFirst+i, splitTmp)
			case i == 0:
				g.ins("VPSLLD $16, Z%d, Z%d", splitWord, splitTmp)
			default:
				g.ins("VPANDD Z%d, Z%d, Z%d", splitWord, splitLast, splitTmp)
			}
			g.ins("VSUBPS Z%d, Z%d, Z%d", splitTmp, x, x)
		}
	}
}

// splitRow splits one row, or n of them pkLD bytes apart, and writes 32 values of each part every pkNext bytes, zeros
// after their end, and the values of the next row 64 bytes on.
func splitRow(g *file, name string, n int) {
	packHead(g, name)
	splitOrders(g, false)
	g.ins("MOVQ %d(AX), R12\n\tLEAQ (R8)(R8*2), R13", pkK)
	rows := func(load string) {
		for r, at := range []string{"(SI)", "(SI)(R8*1)", "(SI)(R8*2)", "(SI)(R13*1)"}[:n] {
			g.ins(load, at, at)
			g.ins("PREFETCHT0 1024%s\n\tPREFETCHT0 1088%s", at, at)
			split(g, 0, 1, false, func(part int) { g.ins("VMOVUPS Z%d, %d(DI)", splitWord, splitPart*part+64*r) })
		}
	}
	g.label("block")
	g.ins("CMPQ R12, $32\n\tJLT part")
	rows("VMOVUPS %s, Z0\n\tVMOVUPS 64%s, Z1")
	g.ins("ADDQ R11, DI\n\tADDQ $128, SI\n\tSUBQ $32, R12")
	g.ins("SUBQ $16, CX\n\tJG block\n\tVZEROUPPER\n\tRET")
	g.label("part")
	lanes(g, "R12", 1, 2)
	rows("VMOVUPS.Z %s, K1, Z0\n\tVMOVUPS.Z 64%s, K2, Z1")
	g.ins("VZEROUPPER\n\tRET")
}

// toScratch splits 16 rows of 16 pairs into scratch memory [part][16 rows][16 pairs] at R13: load brings a row to Z0
// and Z1, from pointers that are at AX and take some bytes.
func toScratch(g *file, pointers int, interleave bool, load func()) {
	g.ins("LEAQ 1024(R13), R14")
	g.label("row")
	load()
	split(g, 0, 1, interleave, func(part int) { g.ins("VMOVUPS Z%d, %d(R13)", splitWord, 1024*part) })
	g.ins("ADDQ $%d, AX\n\tADDQ $64, R13\n\tCMPQ R13, R14\n\tJNE row", pointers)
	g.ins("SUBQ $%d, AX\n\tSUBQ $1024, R13", 16*pointers)
}

// turnScratch writes the transposes of the parts in scratch memory to DI, which it moves after them.
func turnScratch(g *file) {
	g.ins("MOVQ R13, SI\n\tMOVQ $3, BX")
	g.label("turn")
	for r := range 16 {
		g.ins("VMOVUPS %d(SI), Z%d", 64*r, r)
	}
	turn16(g)
	for r := range 16 {
		g.ins("VMOVUPS Z%d, %d(DI)", r, 64*r)
	}
	g.ins("ADDQ $1024, SI\n\tADDQ $%d, DI\n\tDECQ BX\n\tJNZ turn", splitPart)
}

// splitTranspose turns 16 source rows (pointers) into 16 rows of 16 lanes for each 32 values and part.
func splitTranspose(g *file) {
	packHead(g, "splitTranspose512")
	g.ins("MOVQ %d(AX), R12\n\tMOVQ %d(AX), R13", pkK, pkTmp)
	g.ins("XORQ DX, DX")
	g.label("block")
	splitOrders(g, false)
	g.ins("MOVL $32, R9\n\tCMPQ R12, R9\n\tCMOVQLT R12, R9")
	lanes(g, "R9", 1, 2)
	toScratch(g, 8, false, func() {
		g.ins("MOVQ %d(AX), BX", pkPtr)
		g.ins("VMOVUPS.Z (BX)(DX*1), K1, Z0\n\tPREFETCHT0 %d(BX)(DX*1)", prefetch)
		g.ins("VMOVUPS.Z 64(BX)(DX*1), K2, Z1\n\tPREFETCHT0 %d(BX)(DX*1)", prefetch+64)
	})
	turnScratch(g)
	g.ins("ADDQ $128, DX\n\tSUBQ $32, R12\n\tJG block")
	g.ins("VZEROUPPER\n\tRET")
}

// splitPairs turns 32 source rows of at most 16 columns into 16 rows of 16 bf16 pairs for each part.
func splitPairs(g *file) {
	packHead(g, "splitPairs512")
	g.ins("MOVQ %d(AX), R13", pkTmp)
	lanes(g, "R9", 1, 2)
	splitOrders(g, true)
	toScratch(g, 16, true, func() {
		g.ins("MOVQ %d(AX), BX\n\tMOVQ %d(AX), DX", pkPtr, pkPtr+8)
		g.ins("VMOVUPS.Z (BX), K1, Z0\n\tVMOVUPS.Z (DX), K1, Z1")
	})
	turnScratch(g)
	g.ins("VZEROUPPER\n\tRET")
}
