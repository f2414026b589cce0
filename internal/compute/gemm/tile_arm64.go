package gemm

//go:noescape
func tileNEON(t *tile)

//go:noescape
func tileBF16NEON(t *tile)

var kernelNEON = &kernel{
	name: "neon", mr: 12, nr: 8, kc: 256, kUnit: 1, rows: 168,
	packA: packAGo, packB: packBGo(8),
	run: func(w *worker) { runPadded(w, 8, tileNEON) },
}

var kernelBF16NEON = &kernel{
	name: "neonbf16", bf16: true, parts: 1, mr: 12, nr: 8, kc: 512, kUnit: 4, square: true, rows: 336,
	packA: packABF16NEON, packB: packBBF16NEON,
	run: func(w *worker) { runPadded(w, 8, tileBF16NEON) },
}

// available lists the float32 kernels of this CPU, best first. Every arm64 has NEON.
func available() []*kernel { return []*kernel{kernelNEON, kernelGeneric} }

// availableBF16 lists the bf16 kernels of this CPU, best first.
func availableBF16() []*kernel {
	if HasBF16() {
		return []*kernel{kernelBF16NEON}
	}
	return nil
}

func splitting() *kernel { return nil }
func fixing() *kernel    { return nil }

// bestInt16 is nil: no kernel for products in Int16.
func bestInt16() *kernel { return nil }
