package train

import (
	"math"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/device/cpu"
	"vsetrain/internal/philox"
	"vsetrain/loss"
	"vsetrain/models"
)

// BenchmarkStep is the training step of VSE++ at full size: batch 128, 36x2048 features, LSEH, captions of 15 words.
func BenchmarkStep(b *testing.B) {
	for _, v := range []struct {
		name, precision string
		stored          bool // the gradient of the image projection is stored, not kept as a product
	}{{"fp32", cpu.FP32, false}, {"bf16", cpu.BF16, false}, {"fp32/stored", cpu.FP32, true}, {"bf16/stored", cpu.BF16, true}} {
		b.Run(v.name, func(b *testing.B) {
			const n, words = 128, 15
			m, err := models.NewModel(newDevice(b, v.precision), models.DefaultOptions(), models.Dims{Regions: 36, Feature: 2048, Vocab: 8481})
			if err != nil {
				b.Fatal(err)
			}
			m.Init(1, nil)
			l := loss.DefaultOptions()
			l.Name = loss.LSEH
			s, err := NewStep(m, l, DefaultOptimOptions())
			if err != nil {
				b.Fatal(err)
			}
			if v.stored {
				s.factorFrom = math.MaxInt
			}
			batch := &data.Batch{N: n, L: words, SemanticDim: 400}
			r := philox.NewKey(1, "bench").Stream(0)
			for range n * 36 * 2048 {
				batch.Images = append(batch.Images, float32(r.Float64()))
			}
			for i := range n {
				batch.Lengths = append(batch.Lengths, words)
				batch.ImageIDs = append(batch.ImageIDs, int32(i))
				for range words {
					batch.Words = append(batch.Words, int32(4+r.IntN(8000)))
				}
			}
			for range n * 400 {
				batch.Semantics = append(batch.Semantics, float32(r.Norm()))
			}
			step := func() {
				if _, err := s.Run(batch, 1e-4, false); err != nil {
					b.Fatal(err)
				}
			}
			step()
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "captions/s")
		})
	}
}
