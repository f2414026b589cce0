package eval

import (
	"math/rand/v2"
	"testing"
)

func TestKernelsAgreeBitForBit(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	kernels := map[string]func(*float64, *float64, *float32, int){}
	if hasAVX2 {
		kernels["avx2"] = dotPanelsAVX2
	}
	if hasAVX512 {
		kernels["avx512"] = dotPanelsAVX512
	}
	if len(kernels) == 0 {
		t.Skip("this processor has neither AVX2 with FMA nor AVX-512")
	}
	for _, dim := range []int{1, 2, 3, 17, 256} {
		a, b := make([]float64, dim*panelI), make([]float32, dim*panelC)
		for j := range a {
			a[j] = float64(float32(rng.NormFloat64() * 1e3))
		}
		for j := range b {
			b[j] = float32(rng.NormFloat64())
		}
		b[rng.IntN(len(b))] = 1e-42 // a subnormal
		var want [panelI * panelC]float64
		dotPanelsGo(&want, a, b, dim)
		for name, f := range kernels {
			got := [panelI*panelC + 1]float64{panelI * panelC: 77}
			f(&got[0], &a[0], &b[0], dim)
			if [panelI * panelC]float64(got[:panelI*panelC]) != want {
				t.Errorf("%s, %d components: differs from Go", name, dim)
			}
			if got[panelI*panelC] != 77 {
				t.Errorf("%s wrote behind the block", name)
			}
		}
	}
}
