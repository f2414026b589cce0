package train

import (
	"math"
	"slices"
	"testing"
	"time"

	"vsetrain/data"
	"vsetrain/internal/device/cpu"
	"vsetrain/internal/philox"
	"vsetrain/loss"
	"vsetrain/models"
)

// BenchmarkStep is the training step of a network at full size: batch 128, 36x2048 features, captions of 15 words, LSEH.
func BenchmarkStep(b *testing.B) {
	for _, v := range []struct {
		name, network, precision string
		stored                   bool // the gradient of VSE++'s image projection is stored, not kept as a product
	}{
		{"vsepp/fp32", models.VSEPP, cpu.FP32, false}, {"vsepp/bf16", models.VSEPP, cpu.BF16, false},
		{"vsepp/fp32/stored", models.VSEPP, cpu.FP32, true}, {"vsepp/bf16/stored", models.VSEPP, cpu.BF16, true},
		{"vseinf/fp32", models.VSEInf, cpu.FP32, false}, {"vseinf/bf16", models.VSEInf, cpu.BF16, false},
		{"vsrn/fp32", models.VSRN, cpu.FP32, false}, {"vsrn/bf16", models.VSRN, cpu.BF16, false},
	} {
		b.Run(v.name, func(b *testing.B) {
			l := loss.DefaultOptions()
			l.Name = loss.LSEH
			s, batch := fullSize(b, v.network, v.precision, l)
			if v.stored {
				s.factorFrom = math.MaxInt
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
			b.ReportMetric(float64(batch.N*b.N)/b.Elapsed().Seconds(), "captions/s")
		})
	}
}

// fullSize returns a step of a network at its published sizes, and a batch for it.
func fullSize(b *testing.B, network, precision string, l loss.Options) (*Step, *data.Batch) {
	const n, words, regions, feature = 128, 15, 36, 2048
	o := models.DefaultOptions()
	o.Network = network
	switch network {
	case models.VSEInf:
		o.TextEncoder = "bigru"
	case models.VSRN:
		o.EmbedDim = 2048
	}
	m, err := models.NewModel(newDevice(b, precision), o, models.Dims{Regions: regions, Feature: feature, Vocab: 8481})
	if err != nil {
		b.Fatal(err)
	}
	m.Init(1, nil)
	s, err := NewStep(m, l, DefaultOptimOptions())
	if err != nil {
		b.Fatal(err)
	}
	batch := &data.Batch{N: n, L: words, SemanticDim: 400}
	r := philox.NewKey(1, "bench").Stream(0)
	for range n * regions * feature {
		batch.Images = append(batch.Images, float32(r.Float64()))
	}
	rows := 0
	for i := range n {
		batch.Lengths = append(batch.Lengths, words)
		batch.ImageIDs = append(batch.ImageIDs, int32(i))
		if o.Augments() {
			batch.RegionCounts = append(batch.RegionCounts, int32(25+i%9)) // 29 of 36 regions, as augmentation leaves
			rows += 25 + i%9
		}
		for range words {
			batch.Words = append(batch.Words, int32(4+2.7*(math.Pow(8000/2.7, r.Float64())-1))) // about 1/(rank + 2.7)
		}
	}
	if o.Augments() {
		batch.Images = batch.Images[:rows*feature]
	}
	for range n * 400 {
		batch.Semantics = append(batch.Semantics, float32(r.Norm()))
	}
	return s, batch
}

// BenchmarkLossesBeside compares the step times of the losses with that of LMH: every round does one step with each on the same
// batch and parameters, in turn. "lseh-%" is the median over rounds of LSEH's time in percent of LMH's, "lseh-±" the standard error of
// that median (1.25 σ/√n, σ from the quartiles). Run it with -benchtime 40x or so.
func BenchmarkLossesBeside(b *testing.B) {
	names := []string{loss.LMH, loss.LSH, loss.LSEH, loss.LUWM}
	for _, v := range []struct{ network, precision string }{{models.VSEInf, cpu.BF16}, {models.VSEInf, cpu.FP32}, {models.VSRN, cpu.BF16}, {models.VSEPP, cpu.BF16}} {
		b.Run(v.network+"/"+v.precision, func(b *testing.B) {
			first, batch := fullSize(b, v.network, v.precision, loss.DefaultOptions())
			var steps []*Step // of one model and optimiser
			for _, n := range names {
				s := *first
				s.loss.Name, s.programs = n, map[shape]*program{}
				steps = append(steps, &s)
			}
			run := func(s *Step) float64 {
				start := time.Now()
				if _, err := s.Run(batch, 1e-4, false); err != nil {
					b.Fatal(err)
				}
				return time.Since(start).Seconds()
			}
			for _, s := range steps {
				run(s)
			}
			ratios := make([][]float64, len(names))
			times := make([]float64, len(names))
			for round := 0; b.Loop(); round++ {
				for i := range steps {
					k := (i + round) % len(steps)
					times[k] = run(steps[k])
				}
				for i, t := range times {
					ratios[i] = append(ratios[i], 100*t/times[0])
				}
			}
			for i, r := range ratios[1:] {
				slices.Sort(r)
				n := len(r)
				b.ReportMetric(r[n/2], names[i+1]+"-%")
				b.ReportMetric(1.25*(r[3*n/4]-r[n/4])/1.349/math.Sqrt(float64(n)), names[i+1]+"-±")
			}
		})
	}
}
