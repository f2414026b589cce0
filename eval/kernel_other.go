//go:build !amd64

package eval

func dotPanels(out *[panelI * panelC]float64, a []float64, b []float32, dim int) {
	dotPanelsGo(out, a, b, dim)
}
