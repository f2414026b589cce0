package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"vsetrain/internal/run/bench"
)

// runProfile prints where the time of a step goes. scripts/gpu-check-steps.sh reads its tables.
func (o *benchOptions) runProfile(ctx context.Context, a *app, bars *phases) error {
	p, err := bench.Profile(ctx, o.request)
	bars.close()
	if err != nil {
		return err
	}
	if o.JSON {
		return json.NewEncoder(a.Raw()).Encode(p)
	}
	c := o.request.Config
	a.Printf("%s, loss %s, batch %d, %s: a training step on %s\n\n", c.Model.Network, c.Loss.Name, c.Train.Batch,
		c.Device.Precision, p.Device)
	w := tabwriter.NewWriter(a.Raw(), 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "kernel\tcalls\tMB\tGFLOP\t% of limit\tms\t")
	for _, k := range append(p.Kernels, p.Sum) {
		fmt.Fprintf(w, "%s\t%d\t%.2f\t%.3f\t%.0f\t%.3f\t\n", k.Name, k.Calls, k.Bytes/1e6, k.Flop/1e9,
			100*k.Share, k.MS)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(p.Launches) > 0 {
		fmt.Fprintln(w, "\nkernel of the GPU\tcalls\tfor\tus each\t% of sum\tms\t")
		for _, l := range p.Launches {
			fmt.Fprintf(w, "%s\t%d\t%s\t%.1f\t%.1f\t%.3f\t\n", l.Name, l.Calls, cmp.Or(l.Kernel, "-"),
				1e3*l.MS/float64(max(1, l.Calls)), 100*l.MS/p.Sum.MS, l.MS)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	a.Printf("\nThe step took %.1f ms, mean of %d. MB counts the values that a kernel is given, GFLOP the arithmetic "+
		"of its\nproducts. The limits were measured before: %.0f GB/s of memory copied, %.0f GFLOP/s of a large "+
		"product.\n", p.StepMS, o.Steps, p.Memory/1e9, p.Products/1e9)
	return nil
}
