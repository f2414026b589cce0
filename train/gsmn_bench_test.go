package train

import (
	"testing"

	"vsetrain/data"
	"vsetrain/internal/device/cpu"
	"vsetrain/internal/philox"
	"vsetrain/loss"
	"vsetrain/models"
)

// BenchmarkGSMN is the training step of GSMN at full size: batch 64, 36x2048 features, LMH, captions of 6 to 25 words.
func BenchmarkGSMN(b *testing.B) {
	for _, precision := range []string{cpu.FP32, cpu.BF16} {
		b.Run(precision, func(b *testing.B) {
			const n, longest = 64, 25
			o := models.DefaultOptions()
			o.Network, o.TextEncoder = models.GSMN, "bigru"
			m, err := models.NewModel(newDevice(b, precision), o, models.Dims{Regions: 36, Feature: 2048, Vocab: 8481})
			if err != nil {
				b.Fatal(err)
			}
			m.Init(1, nil)
			s, err := NewStep(m, loss.DefaultOptions(), DefaultOptimOptions())
			if err != nil {
				b.Fatal(err)
			}
			batch := &data.Batch{N: n, L: longest}
			r := philox.NewKey(1, "bench").Stream(0)
			for range n * 36 * 2048 {
				batch.Images = append(batch.Images, float32(r.Float64()))
			}
			for range n * 36 * 2 {
				x, y := float32(r.Float64()), float32(r.Float64())
				batch.Boxes = append(batch.Boxes, x, y, x+0.1, y+0.1)
			}
			batch.Boxes = batch.Boxes[:n*36*4]
			for i := range n {
				batch.Lengths = append(batch.Lengths, int32(longest-i*20/n))
				batch.ImageIDs = append(batch.ImageIDs, int32(i))
				for range longest {
					batch.Words = append(batch.Words, int32(4+r.IntN(8000)))
				}
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
		})
	}
}
