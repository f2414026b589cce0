package bench

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"vsetrain/internal/run/config"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
	"vsetrain/train"
)

// BenchmarkLossesBeside compares the step times of the losses with the step times with LMH, for each network at its
// published size: every round does one step with each loss, in turn, on one batch and one model, whose weights stay as
// drawn: the learning rate is 0. "lseh-%" is the median over rounds of LSEH's time in percent of LMH's, "lseh-±" the
// standard error of that median (1.25 σ/√n, σ from the quartiles).
func BenchmarkLossesBeside(b *testing.B) {
	names := []string{loss.LMH, loss.LSH, loss.LSEH, loss.LUWM}
	for _, v := range []struct {
		network, text string
		batch         int
	}{
		{models.VSEPP, "gru", 128}, {models.VSRN, "gru", 128}, {models.VSEInf, "bigru", 128},
		{models.VSEInf, models.TextBert, 128},
		{models.SAF, "bigru", 128}, {models.SGR, "bigru", 128}, {models.GSMN, "bigru", 64},
	} {
		for _, precision := range []string{"fp32", "bf16"} {
			b.Run(v.network+"/"+v.text+"/"+precision, func(b *testing.B) {
				c := config.Default()
				c.Model.Network, c.Model.TextEncoder, c.Model.Bert.Init = v.network, v.text, models.BertRandom
				if v.network == models.VSRN {
					c.Model.EmbedDim = 2048
				}
				c.Loss.Name, c.Train.Batch, c.Device.Precision = loss.LSEH, v.batch, precision
				x := newBench(Request{Config: &c, Regions: 36, Feature: 2048})
				defer x.Close()
				try.Get(x.open(context.Background()))(b)
				compareLosses(b, x, names)
			})
		}
	}
}

func compareLosses(b *testing.B, x *bench, names []string) {
	steps := make([]*train.Step, len(names))
	for i, name := range names {
		l := x.Cfg.Loss
		l.Name = name
		s := try.Get(train.NewStep(x.Model, l, x.Cfg.Optim))(b)
		steps[i] = s
	}
	run := func(s *train.Step) float64 {
		start := time.Now()
		try.Get(s.Run(x.batches[0], 0, false))(b)
		return time.Since(start).Seconds()
	}
	for _, s := range steps {
		run(s)
	}
	ratios, times := make([][]float64, len(names)), make([]float64, len(names))
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
}
