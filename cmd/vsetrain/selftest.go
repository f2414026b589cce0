package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/flags"
	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/lab/selftest"
)

type selftestOptions struct {
	Kind      string   `flag:"device" enum:"cuda|cpu" default:"cuda" usage:"device to test"`
	Families  []string `flag:"family" arg:"FAMILIES" list:"," usage:"test only these kernel FAMILIES"`
	Variants  []string `flag:"variant" arg:"VARIANTS" list:"," usage:"test only these VARIANTS: fp32, tf32, bf16, bf16-copies, own-fp32, own-tf32, own-bf16, own-bf16-copies, own-tf32-steps, own-bf16-steps, own-fp32-ranks, own-bf16-ranks; on the CPU fp64, fp32-ranks"`
	JSON      bool     `flag:"json" usage:"print JSON"`
	InProcess bool     `flag:"in-process" usage:"test everything in this process, which a GPU failure ends"`
	Events    bool     `flag:"events" hidden:"yes" usage:"print a line of JSON for each event, for the process that started this one"`
}

func newCmdSelftest(a *app) *cobra.Command {
	return a.command(&selftestOptions{}, &cobra.Command{
		Use:   "selftest",
		Short: "Compare every GPU kernel with its reference",
		Long: `Run every kernel family and every form of matrix product of a device on random
data, and compare the results with references in float64. It takes a minute or
two.

A line for each family shows the largest difference relative to its bound. Every array is surrounded by NaN, which
must neither leak in nor change. The exit code is 1 if a family failed or, in a whole selftest, if a kernel for this
GPU was never launched.`,
		Example: `  vsetrain selftest
  vsetrain selftest --device cpu --variant fp32 --family Gemm,GRU
  compute-sanitizer --tool memcheck vsetrain selftest --in-process --variant own-fp32`,
	}, flags.Words{"family": selftest.Families()})
}

func (o *selftestOptions) request() selftest.Request {
	return selftest.Request{Kind: o.Kind, Families: o.Families, Variants: o.Variants}
}

func (o *selftestOptions) check(*app) error {
	known := selftest.Variants(o.Kind)
	for _, v := range o.Variants {
		if !slices.Contains(known, v) {
			return usagef("--variant %q of device %s: expected %s", v, o.Kind, strings.Join(known, ", "))
		}
	}
	return nil
}

// selftestReport collects the events of a selftest. It is the JSON of --json.
type selftestReport struct {
	Devices map[string]string `json:"devices"` // by variant
	Skipped map[string]string `json:"skipped,omitempty"`
	Results []selftest.Result `json:"results"`
	Failed  int               `json:"failed"`
	Kernels int               `json:"kernels,omitempty"` // of this GPU
	Never   []string          `json:"never,omitempty"`   // kernels of this GPU that were not launched
	Barred  map[string]string `json:"barred,omitempty"`  // kernels that this machine does not start, with the reason

	options *selftestOptions
	app     *app
	never   map[string]bool // kernels of this GPU that were not launched so far
}

func (o *selftestOptions) run(ctx context.Context, a *app) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	if o.Events {
		return o.report(ctx, a)
	}
	r := newSelftestReport(o, a)
	var err error
	if o.InProcess || o.Kind == "cpu" {
		err = selftest.Run(ctx, o.request(), r.opened, r.begin, r.each)
	} else {
		err = r.inProcesses(ctx)
	}
	return r.end(err)
}

func newSelftestReport(o *selftestOptions, a *app) *selftestReport {
	return &selftestReport{Devices: map[string]string{}, Skipped: map[string]string{}, Barred: map[string]string{},
		options: o, app: a, never: map[string]bool{}}
}

func (r *selftestReport) opened(d selftest.Device) {
	if d.Skipped != "" {
		r.Skipped[d.Variant] = d.Skipped
		d.Name = "skipped: " + d.Skipped
	} else if r.Devices[d.Variant] != "" { // opened again after a failure
		return
	} else {
		r.Devices[d.Variant] = d.Name
	}
	if r.Kernels == 0 {
		r.Kernels = len(d.Kernels)
		for _, name := range d.Kernels {
			r.never[name] = true
		}
	}
	if !r.options.JSON {
		r.app.Printf("%s %s\n", r.app.Paint(ui.Bold, d.Variant+":"), d.Name)
	}
}

// begin prints a family before it is tested, so that it is known if the GPU hangs.
func (r *selftestReport) begin(family string) {
	if !r.options.JSON {
		r.app.Printf("  %-18s ", family)
	}
}

func (r *selftestReport) each(x selftest.Result) {
	r.Results = append(r.Results, x)
	if len(x.Failures) > 0 {
		r.Failed++
	}
	for _, name := range x.Kernels {
		delete(r.never, name)
	}
	maps.Copy(r.Barred, x.Barred)
	if !r.options.JSON {
		printFamily(r.app, x)
	}
}

// end prints the result of a selftest that ended with err, or returns why it failed. A whole selftest must have
// launched every kernel that this machine starts.
func (r *selftestReport) end(err error) error {
	o, a := r.options, r.app
	tests, whole := len(r.Results), len(o.Families) == 0 && len(o.Variants) == 0
	maps.DeleteFunc(r.Barred, func(name, _ string) bool { return !r.never[name] })
	barred := slices.Sorted(maps.Keys(r.Barred))
	for name := range r.Barred {
		delete(r.never, name)
	}
	r.Never = slices.Sorted(maps.Keys(r.never))
	if o.JSON {
		if err := printJSON(a, r); err != nil {
			return err
		}
	}
	covered := fmt.Sprintf("%d of %d kernels for this GPU were launched", r.Kernels-len(r.Never)-len(barred), r.Kernels)
	if whole && len(r.Never) > 0 {
		covered += ", never: " + strings.Join(r.Never, ", ")
	}
	switch {
	case err != nil:
		return err
	case r.Failed > 0:
		return fmt.Errorf("selftest: %d of %d tests of kernel families failed", r.Failed, tests)
	case tests == 0 && len(r.Skipped) > 0:
		return fmt.Errorf("selftest: nothing was tested: all variants were skipped")
	case tests == 0:
		return fmt.Errorf("selftest: nothing was tested: none of the chosen variants has any of these families")
	case whole && len(r.Never) > 0:
		return fmt.Errorf("selftest: %s", covered)
	case o.JSON:
		return nil
	}
	a.Printf("%s\n", a.Paint(ui.Green, fmt.Sprintf("%d tests of kernel families passed", tests)))
	if r.Kernels > 0 {
		a.Printf("%s\n", covered)
	}
	for _, name := range barred {
		a.Printf("  not %s: %s\n", name, r.Barred[name])
	}
	return nil
}

func printFamily(a *app, x selftest.Result) {
	verdict := a.Paint(ui.Green, "ok")
	if len(x.Failures) > 0 {
		verdict = a.Paint(ui.Red, "FAILED")
	}
	if x.Comparisons == 0 {
		a.Printf("%s\n", verdict)
	} else {
		a.Printf("%5d comparisons   largest difference %-8.2g of %-8.2g allowed   %s\n", x.Comparisons, x.Difference,
			x.Allowed, verdict)
	}
	for _, f := range x.Failures {
		a.Printf("    %s\n", f)
	}
}
