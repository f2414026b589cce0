package models

import (
	"testing"

	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/try"
)

// BenchmarkScorePairs scores a tile of 64 images and 64 captions of 9 to 21 words at full size.
func BenchmarkScorePairs(b *testing.B) {
	for _, network := range []string{SAF, SGR} {
		for _, precision := range []string{cpu.FP32, cpu.BF16} {
			b.Run(network+"/"+precision, func(b *testing.B) {
				o := DefaultOptions()
				o.Network, o.TextEncoder = network, "bigru"
				d := Dims{Regions: 36, Feature: 64, Vocab: 100}
				m := try.Get(NewModel(newDevice(b, precision), o, d))(b)
				m.Init(1, nil)
				const n = 64
				lengths := make([]int, n) // 15.4 words on average, as in Flickr30K
				for i := range lengths {
					lengths[i] = 21 - i*12/(n-1)
				}
				im, text := drawn("bench", d, n, lengths...)
				var images, captions EncodedSet
				run := NewRunner(m, nil).Pairs
				try.Do(b, run.AppendImages(&images, im, n))
				try.Do(b, run.AppendCaptions(&captions, text, n))
				out := make([]float32, n*n)
				for b.Loop() {
					try.Do(b, run.Score(out, &images, 0, n, &captions, 0, n, captions.First[n]))
				}
				b.ReportMetric(float64(n*n*b.N)/b.Elapsed().Seconds(), "pairs/s")
			})
		}
	}
}
