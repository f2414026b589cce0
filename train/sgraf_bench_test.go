package train

import (
	"testing"

	"vsetrain/data"
	"vsetrain/internal/device/cpu"
	"vsetrain/internal/philox"
	"vsetrain/loss"
	"vsetrain/models"
)

// BenchmarkPairStep is the training step of SAF and SGR at full size: 36x2048 features, captions of 10 to 19 words.
func BenchmarkPairStep(b *testing.B) {
	for _, network := range []string{models.SAF, models.SGR} {
		for _, precision := range []string{cpu.FP32, cpu.BF16} {
			b.Run(network+"/"+precision, func(b *testing.B) {
				const n, words = 128, 19
				o := models.DefaultOptions()
				o.Network, o.TextEncoder = network, "bigru"
				m, err := models.NewModel(newDevice(b, precision), o, models.Dims{Regions: 36, Feature: 2048, Vocab: 8481})
				if err != nil {
					b.Fatal(err)
				}
				m.Init(1, nil)
				s, err := NewStep(m, loss.DefaultOptions(), DefaultOptimOptions())
				if err != nil {
					b.Fatal(err)
				}
				batch := &data.Batch{N: n, L: words}
				r := philox.NewKey(1, "bench").Stream(0)
				for range n * 36 * 2048 {
					batch.Images = append(batch.Images, float32(r.Float64()))
				}
				for i := range n {
					batch.Lengths = append(batch.Lengths, int32(words-i*10/n))
					for range words {
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
}
