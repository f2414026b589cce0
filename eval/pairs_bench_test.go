package eval

import (
	"testing"

	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/philox"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// gsmnBench is a GSMN of the published size with encoded images and captions of 12 to 19 words.
func gsmnBench(b *testing.B, precision string, ni, nc int) (p *models.PairRunner, images, captions *models.EncodedSet) {
	const regions, embed = 36, 1024
	dev := try.Get(cpu.New(cpu.Options{Precision: precision}))(b)
	b.Cleanup(func() { dev.Close() })
	o := models.DefaultOptions()
	o.Network, o.TextEncoder = models.GSMN, "bigru"
	m := try.Get(models.NewModel(dev, o, models.Dims{Regions: regions, Feature: 16, Vocab: 10}))(b)
	m.Init(1, nil)
	r := philox.NewKey(1, "bench").Stream(0)
	rows := func(n, width int) models.Rows {
		x := models.Rows{Width: width}
		for range n * width {
			x.Data = append(x.Data, float32(r.Norm()+0.5)/40)
		}
		return x
	}
	images = &models.EncodedSet{N: ni, Values: []models.Rows{rows(ni, regions*embed), rows(ni, regions*8)}}
	captions = &models.EncodedSet{N: nc, First: []int{0}}
	for i := range nc {
		captions.Length = append(captions.Length, int32(19-i*8/nc))
		captions.First = append(captions.First, captions.First[i]+int(captions.Length[i]))
	}
	captions.Words = []models.Rows{rows(captions.First[nc], embed)}
	return models.NewRunner(m, nil).Pairs, images, captions
}

// BenchmarkGSMNPairs scores a tile of pairs, as evaluation does; it reports pairs/s.
func BenchmarkGSMNPairs(b *testing.B) {
	for _, precision := range []string{cpu.FP32, cpu.BF16} {
		b.Run(precision, func(b *testing.B) {
			ni, nc := usualPairs().images, usualPairs().captions
			m, images, captions := gsmnBench(b, precision, ni, nc)
			capacity := captions.First[nc]
			out := make([]float32, ni*nc)
			score := func() {
				try.Do(b, m.Score(out, images, 0, ni, captions, 0, nc, capacity))
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
