package main

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"vsetrain/internal/compute/device/cuda/model"
	"vsetrain/internal/run/bench"
)

// runProfile prints the table of the kernels of a step.
func (o *benchOptions) runProfile(ctx context.Context, a *app) error {
	predict, what := func() (*model.Table, error) {
		return bench.Profile(ctx, o.request, o.Profile)
	}, "a training step"
	if o.Eval {
		predict = func() (*model.Table, error) { return bench.PredictEvaluation(ctx, o.request) }
		what = fmt.Sprintf("an evaluation of %d images and %d captions", bench.EvalImages, bench.EvalCaptions)
	}
	t, err := predict()
	if err != nil {
		return err
	}
	if o.JSON {
		return json.NewEncoder(a.Raw()).Encode(t)
	}
	c := o.request.Config
	a.Printf("%s, loss %s, batch %d, %s: %s on %s\n\n", c.Model.Network, c.Loss.Name, c.Train.Batch,
		c.Device.Precision, what, t.GPU)
	w := tabwriter.NewWriter(a.Raw(), 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "kernel\tcalls\tMB\tGFLOP\tpredicted ms\t%s\n", measuredHead(o.Profile))
	t.Sum.Name = "sum"
	for _, l := range append(t.Lines, t.Sum) {
		measured := ""
		if o.Profile {
			measured = fmt.Sprintf("%.3f\t", l.Measured)
		}
		fmt.Fprintf(w, "%s\t%d\t%.2f\t%.3f\t%.3f\t%s\n", l.Name, l.Calls, l.Bytes/1e6, l.Flop/1e9, l.Predicted,
			measured)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	a.Printf("\nA prediction rests on data sheets and on assumptions; on an NVIDIA H100 80GB HBM3 (2026-11-27)\n" +
		"steps in bf16 took 1.1 to 1.9 times as long: docs/gpu-model.md\n")
	return nil
}

func measuredHead(measured bool) string {
	if measured {
		return "measured ms\t"
	}
	return ""
}
