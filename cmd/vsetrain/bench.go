package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/internal/apps/report"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/run/bench"
	"vsetrain/internal/run/config"
	"vsetrain/loss"
)

type benchOptions struct {
	configFlags
	Steps        int  `flag:"steps" default:"20" min:"1" usage:"steps to time"`
	Warmup       int  `flag:"warmup" default:"3" min:"0" usage:"steps to run before timing"`
	JSON         bool `flag:"json" usage:"print one JSON line"`
	benchBatches `group:"Batches"`
	Profile      bool `flag:"profile" usage:"time every kernel of a step, and show what it moves and computes" group:"Kernels"`
	benchSamples `group:"Computation time"`
	cpuProfile   `group:"CPU profile"`

	request bench.Request
}

// benchBatches describes the batches.
type benchBatches struct {
	WithData bool   `flag:"with-data" usage:"take batches from the configuration's data set"`
	Stream   bool   `flag:"stream" usage:"send the features of synthetic batches to the GPU in every step, instead of keeping them there"`
	Regions  int    `flag:"regions" min:"0" usage:"regions of a synthetic image; 0 takes the data set's, or 36"`
	Feature  int    `flag:"feature-dim" min:"0" usage:"size of a synthetic region feature; 0 takes the data set's, or 2048"`
	Vocab    int    `flag:"vocab-size" min:"0" usage:"words of the synthetic vocabulary, at least 10; 0 takes Flickr30K's or bert-base-uncased's"`
	Lengths  string `flag:"lengths" arg:"N|FILE" not:"with-data" usage:"words in every caption, including <start> and <end>, or a FILE of captions to draw lengths from; by default as in Flickr30K"`
}

// captionLengths returns the lengths of synthetic captions that --lengths asks for, nil without --lengths.
func (o *benchBatches) captionLengths(a *app) (lengths []int32, err error) {
	const shortest, longest = 3, 1024
	if o.Lengths == "" {
		return nil, nil
	}
	if n, err := strconv.Atoi(o.Lengths); err == nil {
		if n < shortest || n > longest {
			return nil, usagef("--lengths: expected %d to %d words, or a file of captions, found %d", shortest, longest,
				n)
		}
		return []int32{int32(n)}, nil
	}
	captions, err := data.ReadCaptions(o.Lengths, a.warn)
	if err != nil {
		return nil, err
	}
	words, err := text.BuildVocabulary(slices.Values(captions), 1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Lengths, err)
	}
	encoder, ids := words.NewEncoder(), []int32(nil)
	for i, caption := range captions {
		if ids, _, _ = encoder.Append(ids[:0], caption); len(ids) > longest {
			return nil, fmt.Errorf("%s:%d: expected a caption of at most %d words, found %d", o.Lengths, i+1, longest,
				len(ids))
		}
		lengths = append(lengths, int32(max(len(ids), shortest)))
	}
	return lengths, nil
}

// benchSamples measures computation time over the number of samples.
type benchSamples struct {
	Samples    string   `flag:"samples" arg:"FILE" usage:"time epochs over growing subsets of the data set, into FILE"`
	Losses     []string `flag:"losses" list:"," key:"loss.name" usage:"losses that --samples compares"`
	Subsets    int      `flag:"subsets" default:"10" min:"2" with:"samples" usage:"number of subsets"`
	StepImages int      `flag:"step-images" min:"0" with:"samples" usage:"images that each subset adds to the one before; 0 divides all images evenly"`
}

func (o *benchSamples) Defaults() { o.Losses = loss.Compared() }

func newCmdBench(a *app) *cobra.Command {
	return a.command(&benchOptions{}, &cobra.Command{
		Use:   "bench",
		Short: "Time the training step of a configuration",
		Long: `Time training steps: forward, loss, backward, clipping and update of a whole
batch. --profile times each kernel; --samples times epochs over growing subsets
of the data.

The batches are synthetic: caption lengths as in Flickr30K, feature sizes as in the configuration's data set or,
without one, 36 regions of 2048 values. A GPU receives the next step before it finishes the last one, as in
training, so the time of a step is the time from one result to the next. The first step, which builds the graph, is
reported separately. The share of the peak compares the network's arithmetic with the fastest large matrix product
in the same process.

--profile prints what each kernel moves and computes, and its share of what the device was measured to reach.

--samples times one epoch over each of ten growing subsets of the training images, for several losses, and the time
spent in the loss alone.`,
		Example: `  vsetrain bench --config vsepp/f30k-lseh
  vsetrain bench --config vsepp/f30k-lseh --set device.precision=bf16 --json
  vsetrain bench --config vsepp/f30k-lseh --set data.dir=data/f30k --with-data
  vsetrain bench --config sgr/f30k-lseh --profile --steps 3
  vsetrain bench --config scan/f30k-benchmark-ti-lse --lengths 40
  vsetrain bench --config vseinf/f30k-lseh-bigru --samples times.json --step-images 100`,
	})
}

func (o *benchOptions) run(ctx context.Context, a *app) error {
	if o.Vocab != 0 && o.Vocab < 10 {
		return usagef("--vocab-size: expected 0, or a whole number >= 10, found %d", o.Vocab)
	}
	cfg, err := o.load(a)
	if err != nil {
		return err
	}
	if o.Samples != "" {
		return o.runSamples(ctx, a, cfg)
	}
	lengths, err := o.captionLengths(a)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	bars := phases{app: a}
	o.request = bench.Request{Config: &cfg.Config, BLAS: a.getenv("VSETRAIN_BLAS"), Steps: o.Steps, Warmup: o.Warmup,
		WithData: o.WithData, Regions: o.Regions, Feature: o.Feature, Vocab: o.Vocab, Lengths: lengths,
		Stream: o.Stream, Now: a.Now, PeakMemory: peakMemory,
		Progress: func(done, total int) { bars.show("bench", done, total) }}
	if o.Profile {
		return o.runProfile(ctx, a, &bars)
	}
	r, err := bench.Run(ctx, o.request)
	bars.close()
	if err != nil {
		return err
	}
	for _, w := range r.Warnings {
		a.warn(errors.New(w))
	}
	if r.Recorded > 0 && r.Replayed == 0 || r.GPUMemory != nil && r.GPUMemory.CallByCall != "" &&
		cfg.Device.Capture != "never" {
		a.warn(errors.New("no step ran as a recorded CUDA graph, so its time includes starting every kernel: " +
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

// runSamples measures computation time over the number of samples.
func (o *benchOptions) runSamples(ctx context.Context, a *app, cfg *config.Resolved) error {
	if err := canWrite(o.Samples); err != nil {
		return err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	bars := phases{app: a}
	r, err := bench.Samples(ctx, bench.SamplesRequest{Config: &cfg.Config, BLAS: a.getenv("VSETRAIN_BLAS"),
		Warn: a.warn, Losses: o.Losses, Subsets: o.Subsets, StepImages: o.StepImages, Now: a.Now,
		Progress: bars.show})
	bars.close()
	if err != nil {
		return err
	}
	if err := atomicfile.WriteFile(o.Samples, indented(r)); err != nil {
		return err
	}
	_, t := report.Timing(&r)
	a.Print(t.Text(nil))
	a.Printf("\n%s: draw it with 'vsetrain report --timing %s --html times.html'\n", o.Samples, o.Samples)
	return nil
}

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
