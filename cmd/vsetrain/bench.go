package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/run/bench"
	"vsetrain/loss"
)

type benchOptions struct {
	configFlags
	bench.Request
	JSON bool

	Profile bool

	Samples             string
	Losses              []string
	Subsets, StepImages int
}

func newCmdBench(a *app) *cobra.Command {
	o := &benchOptions{Request: bench.Request{Steps: 20, Warmup: 3}}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Time the training step of a configuration",
		Long: `Time training steps: forward, loss, backward, clipping and update of a whole batch. The batches
are synthetic, with the caption lengths of Flickr30K and the feature sizes of the configuration's data set if it
exists, otherwise 36 regions of 2048 values; with --with-data they come from the data set of the configuration,
and the time spent waiting for them is measured too. On a GPU the features are resident, as in training if they
fit; --stream copies them with every step. A GPU is given the next step before it has finished the last one, as
in training, so the time of a step is that from one result to the next. The first step, which builds the graph,
stands apart. The share of the peak compares the arithmetic of the network with the fastest large matrix product
in the same process.

With --profile it times the kernels of a step one by one, and prints what each moves and computes beside its
share of what the device was measured to reach.

With --samples it measures computation time over the number of samples in place of the step: one epoch over each
of ten growing subsets of the training images, for each of several losses, and the time in the loss alone.
'vsetrain report --timing' draws it.`,
		Example: `  vsetrain bench --config vsepp/f30k-lseh
  vsetrain bench --config vsepp/f30k-lseh --set device.precision=bf16 --json
  vsetrain bench --config vsepp/f30k-lseh --set data.dir=data/f30k --with-data
  vsetrain bench --config sgr/f30k-lseh --profile --steps 3
  vsetrain bench --config vseinf/f30k-lseh-bigru --samples times.json --step-images 100`,
		RunE: a.runs(o),
	}
	o.addTo(c)
	f := c.Flags()
	f.IntVar(&o.Steps, "steps", o.Steps, "steps to time")
	f.IntVar(&o.Warmup, "warmup", o.Warmup, "steps before them")
	f.IntVar(&o.Regions, "regions", o.Regions,
		"regions of a synthetic image; 0 is those of the data set of the configuration, or 36 where it is not there")
	f.IntVar(&o.Feature, "feature-dim", o.Feature,
		"size of a synthetic region feature; 0 is that of the data set, or 2048")
	f.IntVar(&o.Vocab, "vocab-size", o.Vocab, "words of the synthetic vocabulary; 0 is that of Flickr30K, or of "+
		"bert-base-uncased")
	f.BoolVar(&o.WithData, "with-data", false, "take the batches from the data set of the configuration")
	f.BoolVar(&o.Stream, "stream", false, "send the features of synthetic batches to the GPU with every step; "+
		"otherwise they stay there")
	f.StringVar(&o.Samples, "samples", "", "measure epochs over growing subsets of the data set and write them to "+
		"`FILE`")
	f.StringSliceVar(&o.Losses, "losses", loss.Compared(), "losses that --samples compares")
	f.IntVar(&o.Subsets, "subsets", 10, "subsets of --samples")
	f.IntVar(&o.StepImages, "step-images", 0, "images that each subset has more than the one before; 0 shares all out")
	f.BoolVar(&o.Profile, "profile", false, "time every kernel of a step, beside what it moves and computes")
	f.BoolVar(&o.JSON, "json", false, "print one JSON line")
	return c
}

func (o *benchOptions) run(ctx context.Context, a *app) error {
	if o.Steps < 1 || o.Warmup < 0 || o.Regions < 0 || o.Feature < 0 || o.Vocab != 0 && o.Vocab < 10 {
		return usagef("expected --steps >= 1, --warmup >= 0, --regions >= 0, --feature-dim >= 0 and --vocab-size 0 " +
			"or >= 10")
	}
	cfg, err := o.load(a)
	if err != nil {
		return err
	}
	if o.Samples != "" {
		return o.runSamples(ctx, a, cfg)
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	bars := phases{app: a}
	o.Config, o.BLAS, o.Now, o.PeakMemory = &cfg.Config, a.getenv("VSETRAIN_BLAS"), a.Now, peakMemory
	o.Progress = func(done, total int) { bars.show("bench", done, total) }
	if o.Profile {
		return o.runProfile(ctx, a, &bars)
	}
	r, err := bench.Run(ctx, o.Request)
	bars.close()
	if err != nil {
		return err
	}
	for _, w := range r.Warnings {
		a.warn(errors.New(w))
	}
	if r.Recorded > 0 && r.Replayed == 0 || r.GPUMemory != nil && r.GPUMemory.CallByCall != "" &&
		cfg.Device.Capture != "never" {
		a.warn(errors.New("no step ran as a recorded CUDA graph, so its time is that of starting every kernel: " +
			r.GPUMemory.CallByCall))
	}
	if o.JSON {
		return json.NewEncoder(a.Raw()).Encode(r)
	}
	features := ""
	if r.GPUMemory != nil {
		features = ", features " + r.Features
	}
	micro := ""
	if r.MicroBatch > 0 {
		micro = fmt.Sprintf(" in micro-batches of %d", r.MicroBatch)
	}
	a.Printf("%s, loss %s, batch %d%s, %s data of %d x %d%s, %s\n", r.Network, r.Loss, r.Batch, micro, r.Data,
		r.Regions, r.Feature, features, r.Device)
	if r.Choice != "" {
		a.Printf("%s\n", r.Choice)
	}
	a.Printf("step        median %.1f ms   min %.1f   90 %% %.1f   max %.1f   first %.0f\n",
		r.StepMS.Median, r.StepMS.Min, r.StepMS.P90, r.StepMS.Max, r.FirstStepMS)
	a.Printf("captions    %.0f a second\n", r.CaptionsPerS)
	a.Printf("data wait   %s\n", dataWait(r))
	peak := ""
	if r.Peak > 0 {
		peak = fmt.Sprintf(": %.0f %% of the %.0f GFLOP/s of a large product (%s, %s)", 100*r.Share, r.Peak,
			ui.Count(r.Threads, "thread"), r.Precision)
	}
	a.Printf("arithmetic  %.1f GFLOP a step, %.0f GFLOP/s%s\n", r.GFlop, r.GFlops, peak)
	a.Printf("memory      %.0f MB at most\n", r.MemoryMB)
	if r.GPUMemory != nil {
		a.Printf("%s\n%s: %d recorded, %d replays\n", r.GPUMemory, r.GPUMemory.Steps(), r.Recorded, r.Replayed)
	}
	return nil
}

func dataWait(r bench.Report) string {
	if r.Data == "synthetic" {
		return "not measured: batches are synthetic (--with-data measures it)"
	}
	return fmt.Sprintf("%.2f ms, %.2f %% of the step", r.DataWaitMS, 100*r.DataWaitMS/(r.StepMS.Median+r.DataWaitMS))
}
