package eval

import "golang.org/x/sys/cpu"

var (
	hasAVX512 = cpu.X86.HasAVX512F
	hasAVX2   = cpu.X86.HasAVX2 && cpu.X86.HasFMA
)

// dotPanelsAVX512 computes the block for dim > 0.
//
//go:noescape
func dotPanelsAVX512(out *float64, a *float64, b *float32, dim int)

// dotPanelsAVX2 computes the block for dim > 0.
//
//go:noescape
func dotPanelsAVX2(out *float64, a *float64, b *float32, dim int)

func dotPanels(out *[panelI * panelC]float64, a []float64, b []float32, dim int) {
	a, b = a[:dim*panelI], b[:dim*panelC]
	switch {
	case hasAVX512:
		dotPanelsAVX512(&out[0], &a[0], &b[0], dim)
	case hasAVX2:
		dotPanelsAVX2(&out[0], &a[0], &b[0], dim)
	default:
		dotPanelsGo(out, a, b, dim)
	}
}
