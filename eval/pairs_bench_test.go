package eval

import (
	"testing"

	"vsetrain/internal/device/cpu"
	"vsetrain/internal/philox"
	"vsetrain/models"
)

// BenchmarkGSMNPairs scores tiles of encoded images and captions of 12 to 19 words, as evaluation does; it reports pairs/s.
func BenchmarkGSMNPairs(b *testing.B) {
	for _, precision := range []string{cpu.FP32, cpu.BF16} {
		b.Run(precision, func(b *testing.B) {
			const regions, embed = 36, 1024
			dev, err := cpu.New(cpu.Options{Precision: precision})
			if err != nil {
				b.Fatal(err)
			}
			defer dev.Close()
			o := models.DefaultOptions()
			o.Network, o.TextEncoder = models.GSMN, "bigru"
			m, err := models.NewModel(dev, o, models.Dims{Regions: regions, Feature: 16, Vocab: 10})
			if err != nil {
				b.Fatal(err)
			}
			m.Init(1, nil)
			r := philox.NewKey(1, "bench").Stream(0)
			rows := func(n, width int) models.Rows {
				x := models.Rows{Width: width}
				for range n * width {
					x.Data = append(x.Data, float32(r.Norm()+0.5)/40)
				}
				return x
			}
			images := &models.EncodedSet{N: pairImages, Values: []models.Rows{rows(pairImages, regions*embed), rows(pairImages, regions*8)}}
			captions := &models.EncodedSet{N: pairCaptions, First: []int{0}}
			for i := range pairCaptions {
				captions.Length = append(captions.Length, int32(19-i*8/pairCaptions))
				captions.First = append(captions.First, captions.First[i]+int(captions.Length[i]))
			}
			room := captions.First[pairCaptions]
			captions.Words = []models.Rows{rows(room, embed)}
			out := make([]float32, pairImages*pairCaptions)
			score := func() {
				if err := m.ScorePairs(out, images, 0, pairImages, captions, 0, pairCaptions, room); err != nil {
					b.Fatal(err)
				}
			}
			score()
			b.ReportAllocs()
			for b.Loop() {
				score()
			}
			b.ReportMetric(float64(b.N*len(out))/b.Elapsed().Seconds(), "pairs/s")
		})
	}
}
