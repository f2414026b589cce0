package gemm

import "golang.org/x/sys/cpu"

//go:noescape
func tileAVX512(t *tile)

//go:noescape
func tileBF16AVX512(t *tile)

//go:noescape
func tileWidenAVX512(t *tile)

//go:noescape
func tileInt16VNNI(t *tile)

//go:noescape
func tileAVX2(t *tile)

//go:noescape
func tileAMX(t *tile)

//go:noescape
func tileFewAMX(t *tile)

//go:noescape
func tileSplitAMX(t *tile)

var kernelAVX512 = &kernel{
	name: "avx512", mr: 14, nr: 32, kc: 512, kUnit: 1, rows: 168,
	packA: packA512, packB: packBWith(1, copyPanels512, transpose512), inPlace: true, byRows: true,
	run: func(w *worker) { tileAVX512(&w.t) },
}

var kernelAVX2 = &kernel{
	name: "avx2", mr: 6, nr: 16, kc: 256, kUnit: 1, rows: 168,
	packA: packAGo, packB: packBGo(16),
	run: func(w *worker) { runPadded(w, 16, tileAVX2) },
}

var kernelAVX512BF16 = &kernel{
	name: "avx512bf16", bf16: true, parts: 1, mr: 14, nr: 32, kc: 512, kUnit: 2, rows: 336,
	packA: packABF16, packB: packBWith(2, pairPanels512, roundTranspose512), byRows: true,
	run: func(w *worker) { tileBF16AVX512(&w.t) },
}

// kernelWiden multiplies values that are rounded to bf16 as float32. Processors of Intel multiply pairs at half the
// speed, so it is the faster one there, and it reads half the bytes of B that float32 does.
var kernelWiden = &kernel{
	name: "avx512", bf16: true, parts: 1, widens: true, mr: 14, nr: 32, kc: 512, kUnit: 2, rows: 168,
	packA: packAWiden, packB: packBWith(2, pairPanels512, roundTranspose512),
	run: func(w *worker) { tileWidenAVX512(&w.t) },
}

var kernelInt16VNNI = &kernel{
	name: "avx512vnni", parts: 1, mr: 14, nr: 32, kc: 512, kUnit: 2, rows: 336,
	packA: packAInt16, packB: packBInt16(32),
	run: func(w *worker) { tileInt16VNNI(&w.t) },
}

var kernelAMX = &kernel{
	name: "amx", bf16: true, parts: 1, mr: 32, nr: 32, kc: 2048, kUnit: 32, square: true, tall: true, rows: 256,
	packA: packAAMX(1), packB: packBAMX(1), setRowsA: setRowsAAMX(1), setRowsB: setRowsBAMX(1),
	run: func(w *worker) {
		if w.t.m > 16 && w.t.m <= 32 {
			tileFewAMX(&w.t)
			return
		}
		tileAMX(&w.t)
	},
}

// kernelSplit computes float32 products as six products of bf16 parts (../asmgen/amx.go, splitTerms).
var kernelSplit = &kernel{
	name: "amx", parts: 3, mr: 32, nr: 32, kc: 1024, kUnit: 32, square: true, tall: true, rows: 128,
	packA: packAAMX(3), packB: packBAMX(3), setRowsA: setRowsAAMX(3), setRowsB: setRowsBAMX(3),
	run: func(w *worker) { tileSplitAMX(&w.t) },
}

func hasAVX512() bool {
	return cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL &&
		cpu.X86.HasBMI2 && cpu.X86.HasFMA
}

func hasAMX() bool {
	return hasAVX512() && cpu.X86.HasAVX512BF16 && cpu.X86.HasAVX512VBMI && cpu.X86.HasAMXTile && cpu.X86.HasAMXBF16 &&
		permitAMX()
}

// available lists the float32 kernels of this CPU, best first.
func available() []*kernel {
	var ks []*kernel
	if hasAVX512() {
		ks = append(ks, kernelAVX512)
	}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		ks = append(ks, kernelAVX2)
	}
	return append(ks, kernelGeneric)
}

// availableBF16 lists the bf16 kernels of this CPU, best first.
func availableBF16() []*kernel {
	var ks []*kernel
	if hasAMX() {
		ks = append(ks, kernelAMX)
	}
	if hasAVX512() && cpu.X86.HasAVX512BF16 {
		if intel() {
			return append(ks, kernelWiden, kernelAVX512BF16)
		}
		return append(ks, kernelAVX512BF16, kernelWiden)
	}
	return ks
}

// bestInt16 is the kernel of products in Int16, nil where this CPU has none.
func bestInt16() *kernel {
	if hasAVX512() && cpu.X86.HasAVX512VNNI {
		return kernelInt16VNNI
	}
	return nil
}

// intel reports whether the processor is one of Intel.
func intel() bool {
	b, d, c := vendor()
	return b == 0x756e6547 && d == 0x49656e69 && c == 0x6c65746e // "Genu", "ineI", "ntel"
}

// vendor returns registers BX, DX and CX of CPUID leaf 0.
func vendor() (b, d, c uint32)

// splitting is the kernel of float32 products in bf16 parts, nil where this CPU has none.
func splitting() *kernel {
	if hasAMX() {
		return kernelSplit
	}
	return nil
}
