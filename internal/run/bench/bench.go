// Package bench times training steps and their kernels.
package bench

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"vsetrain/batch"
	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/gemm"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/compute/philox"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/placement"
	"vsetrain/internal/run/records"
	"vsetrain/models"
)

// Request asks for the time of training steps.
type Request struct {
	Config        *config.Config
	BLAS          string
	Steps, Warmup int
	// WithData times batches of the data set of the configuration, including the loader. Otherwise the batches are
	// synthetic and have these sizes.
	WithData bool
	// Regions and Feature 0 take the number in the data set if there is one, otherwise Flickr30K's; Vocab 0 takes the
	// size in Flickr30K, or in bert-base-uncased.
	Regions, Feature, Vocab int
	// Lengths are the caption lengths, including <start> and <end>, from which synthetic batches draw; nil takes the
	// lengths in Flickr30K.
	Lengths []int32
	// Stream sends the features of synthetic batches to a GPU in every step; otherwise they stay there. With a data set
	// device.resident decides.
	Stream     bool
	Now        func() time.Time
	PeakMemory func() int64 // bytes, 0 when unknown
	Progress   func(done, total int)
}

// Spread summarises the times of the steps in Milliseconds.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	Max    float64 `json:"max"`
	Mean   float64 `json:"mean"`
}

// Where the features of a benchmark are.
const (
	featuresHost     = "host"     // of the processor, which computes on them there
	featuresResident = "resident" // on the GPU since before the first step, as in training if they fit
	featuresStreamed = "streamed" // sent to the GPU with every step
)

// Report is the outcome of a benchmark; its JSON is one line.
type Report struct {
	Network     string   `json:"network"`
	Loss        string   `json:"loss"`
	Device      string   `json:"device"`
	Choice      string   `json:"choice,omitempty"` // how device.kind auto chose
	Warnings    []string `json:"warnings,omitempty"`
	Precision   string   `json:"precision"`
	BLAS        string   `json:"cublas,omitempty"` // version of what computes products on a GPU; else vsetrain's own
	Threads     int      `json:"threads"`
	Batch       int      `json:"batch"`
	MicroBatch  int      `json:"micro_batch,omitempty"`
	Data        string   `json:"data"`     // folder, or "synthetic"
	Features    string   `json:"features"` // host, resident or streamed
	Regions     int      `json:"regions"`
	Feature     int      `json:"feature_dim"`
	Steps       int      `json:"steps"`
	Warmup      int      `json:"warmup"`
	FirstStepMS float64  `json:"first_step_ms"` // graph building included
	// StepMS is the time from the batch in host memory to the updated parameters. On a GPU, where steps are started
	// ahead, it is the time between the results of two steps and includes the wait for the loader.
	StepMS       Spread                `json:"step_ms"`
	LastLoss     float64               `json:"last_loss"` // of the last step
	CaptionsPerS float64               `json:"captions_per_s"`
	DataWaitMS   float64               `json:"data_wait_ms"` // median wait for the loader; 0 with synthetic batches
	GFlop        float64               `json:"gflop_per_step"`
	GFlops       float64               `json:"gflops"`
	Peak         float64               `json:"gemm_peak_gflops"` // best square product in this process and precision; 0 on a GPU
	Share        float64               `json:"fraction_of_gemm_peak"`
	MemoryMB     float64               `json:"peak_memory_mb"`
	GPUMemory    *placement.MemoryPlan `json:"gpu_memory,omitempty"`
	GPUUsedMB    float64               `json:"gpu_used_mb,omitempty"` // of the GPU's memory at the end, by all its programs
	// Recorded counts the steps that were recorded as CUDA graphs, including the warm-up, and Replayed those that ran
	// as graphs.
	Recorded int `json:"recorded"`
	Replayed int `json:"replayed"`
}

// Run times training steps of a configuration on synthetic batches, or on its data set where data.dir is given.
func Run(ctx context.Context, r Request) (Report, error) {
	b := newBench(r)
	defer b.Close()
	memory, err := b.open(ctx)
	if err != nil {
		return Report{}, placement.Explain(err, r.Config.Device, "no step had been done")
	}
	rep, err := b.run(ctx, memory)
	return rep, placement.Explain(err, r.Config.Device, "no step had been done")
}

type bench struct {
	placement.Setup
	r       Request
	rep     Report
	watch   *stopwatch                    // of the kernels, nil for times of whole steps
	batches []*data.Batch                 // synthetic
	opener  func() (device.Device, error) // of the device, where the configuration does not choose it
	next    int
}

func newBench(r Request) *bench { return &bench{r: r, Setup: placement.Setup{Cfg: r.Config}} }

// Next and Release make the synthetic batches a source.
func (b *bench) Next() (*data.Batch, error) {
	if b.Loader != nil {
		return b.Loader.Next()
	}
	b.next++
	return b.batches[b.next%len(b.batches)], nil
}

func (b *bench) Release(x *data.Batch) {
	if b.Loader != nil {
		b.Loader.Release(x)
	}
}

func (b *bench) open(ctx context.Context) (memory *placement.MemoryPlan, err error) {
	dims := b.sizes()
	if b.r.WithData {
		if err = b.OpenTrain(); err != nil {
			return nil, err
		}
		dims = inputs.Dims(b.Train, b.Tokenizer)
	}
	dev, choice, err := b.openDevice()
	if err != nil {
		return nil, err
	}
	b.Warnings = choice.Warnings
	// the images of a micro-batch serve all others
	if n := b.Cfg.Train.MicroBatch; n > 0 && b.Cfg.Model.Traits().Embeds && !b.r.WithData {
		size := dims.Regions * dims.Feature
		table := placement.SyntheticBatch(b.Cfg.Seed, n, dims.Regions, dims.Feature, dims.Vocab, 0, nil).Features
		b.Features = func(dst []float32, row int) error {
			copy(dst, table[row%n*size:])
			return nil
		}
	}
	if err = b.Build(dev, choice.Precision, dims); err != nil {
		return nil, err
	}
	b.Model.Init(b.Cfg.Seed, b.Pool)
	c := b.Cfg
	b.rep = Report{Network: c.Model.Network, Loss: c.Loss.Name, Device: b.Device.Name(), Choice: choice.Reason,
		Precision: c.Device.Precision, Batch: c.Train.Batch, MicroBatch: c.Train.MicroBatch,
		Steps: b.r.Steps, Warmup: b.r.Warmup, Data: "synthetic", Features: featuresHost}
	if d, ok := device.As[cuda.Multiplier](b.Device); ok {
		_, b.rep.BLAS = d.BLAS()
	}
	b.rep.Regions, b.rep.Feature = dims.Regions, dims.Feature
	if memory, err = b.PlanMemory(ctx); err != nil {
		return nil, err
	}
	if b.r.WithData {
		b.Loader, err = data.NewLoader(b.Train, b.Tokenizer, b.Streamed(memory,
			data.LoaderOptions{Batch: c.Train.Batch, Seed: c.Seed, Shuffle: true, DropLast: true}))
		return memory, err
	}
	return memory, b.draw(memory, dims)
}

// openDevice starts the device of the request.
func (b *bench) openDevice() (d device.Device, choice placement.Choice, err error) {
	if b.opener != nil {
		d, err = b.opener()
	} else {
		d, choice, err = placement.Choose(b.Cfg.Device, b.r.BLAS)
	}
	if b.watch != nil && err == nil {
		d = b.watch.around(d)
	}
	return d, choice, err
}

// sizes are the sizes of the synthetic batches: what the request does not say is taken from the features of the
// configuration's data set if they exist, and is 36 regions of 2048 channels otherwise.
func (b *bench) sizes() models.Dims {
	d := models.Dims{Regions: b.r.Regions, Feature: b.r.Feature, Vocab: b.r.Vocab}
	regions, feature := flickrRegions, flickrFeature
	if f, err := npy.Open(filepath.Join(b.Cfg.Data.Dir, "train_ims.npy")); err == nil && b.Cfg.Data.Dir != "" {
		switch s := f.Shape; len(s) {
		case 2:
			regions, feature = 1, s[1]
		case 3:
			regions, feature = s[1], s[2]
		}
		f.Close()
	}
	d.Regions = cmp.Or(d.Regions, regions)
	d.Feature = cmp.Or(d.Feature, feature)
	if d.Vocab == 0 {
		if d.Vocab = flickrWords; b.Cfg.Model.TextEncoder == models.TextBert {
			d.Vocab = bertPieces
		}
	}
	return d
}

// lengths draws the lengths of the captions of a synthetic batch; nil if the request does not give any.
func (b *bench) lengths(seed uint64) (drawn []int32) {
	s := philox.NewKey(seed, "bench/lengths").Stream(0)
	for n := len(b.r.Lengths); n > 0 && len(drawn) < b.Cfg.Train.Batch; {
		drawn = append(drawn, b.r.Lengths[s.IntN(n)])
	}
	return drawn
}

// draw makes the synthetic batches. What training would make resident is copied to the GPU, except with Stream.
func (b *bench) draw(memory *placement.MemoryPlan, dims models.Dims) error {
	c := b.Cfg
	semantic := 0
	if c.Loss.NeedsSemantics() {
		semantic = placement.SemanticDim
	}
	resident, err := newResident(&b.Setup, memory, semantic, b.r.Stream)
	if err != nil {
		return err
	}
	var stages []batch.Stage
	if resident == nil && memory != nil {
		stages = b.Stages(syntheticBatches, false, memory)
	}
	feature := dims.Feature
	if b.Features != nil {
		feature = 0
	}
	for i := range syntheticBatches {
		seed := c.Seed + uint64(i)
		x := placement.SyntheticBatch(seed, c.Train.Batch, dims.Regions, feature, dims.Vocab, semantic, b.lengths(seed))
		if c.Model.Traits().Boxes {
			placement.AddBoxes(x, seed)
		}
		if resident != nil {
			resident.store(x, i)
		}
		if c.Model.Traits().SizeAugment {
			augment(x, seed, dims.Vocab, c.Model.TextEncoder == models.TextBert)
		}
		if resident != nil {
			resident.number(x, i)
		}
		if stages != nil {
			x.Stage = stages[i]
			copy(x.Stage.Floats(), x.Features)
			x.Features = nil
		}
		b.batches = append(b.batches, x)
	}
	if resident == nil {
		return nil
	}
	if resident.starts != nil {
		if resident.Words, err = b.Ints(resident.words); err != nil {
			return err
		}
		if resident.Starts, err = b.Ints(resident.starts); err != nil {
			return err
		}
	}
	b.Step.ReadFrom(&resident.Resident)
	return b.Device.Sync()
}

func (b *bench) run(ctx context.Context, memory *placement.MemoryPlan) (Report, error) {
	c, rep := b.Cfg, &b.rep
	rep.GPUMemory = memory
	for _, w := range b.Warnings {
		rep.Warnings = append(rep.Warnings, w.Error())
	}
	if b.r.WithData {
		rep.Data = c.Data.Dir
	}
	if memory != nil {
		if rep.Features = featuresStreamed; memory.Resident {
			rep.Features = featuresResident
		}
		if !b.r.WithData { // the first step of a shape is started call by call, the second recorded
			b.r.Warmup = max(b.r.Warmup, 2*syntheticBatches)
			rep.Warmup = b.r.Warmup
		}
	}
	t := stepTimer{step: b.Step, lr: c.Optim.LR, now: b.r.Now}
	var waits []float64
	var flops float64
	for i := range b.r.Warmup + b.r.Steps {
		if err := ctx.Err(); err != nil {
			return *rep, err
		}
		x, err := b.Next()
		if err != nil {
			return *rep, err
		}
		if err := t.do(x, b.Release); err != nil {
			return *rep, fmt.Errorf("step %d: %w", i+1, err)
		}
		if i >= b.r.Warmup {
			waits = append(waits, records.Milliseconds(x.Wait))
			flops += b.Step.Flops()
		}
		if i == 0 || i == b.r.Warmup-1 || i == b.r.Warmup+b.r.Steps-1 {
			if err := t.finish(); err != nil {
				return *rep, fmt.Errorf("step %d: %w", i+1, err)
			}
		}
		if b.r.Progress != nil {
			b.r.Progress(i+1, b.r.Warmup+b.r.Steps)
		}
	}
	rep.FirstStepMS, rep.LastLoss = t.times[0], t.last.Loss
	times := t.times[b.r.Warmup:]
	n, sum := len(times), 0.0
	for _, ms := range times {
		sum += ms
	}
	slices.Sort(times)
	slices.Sort(waits)
	rep.StepMS = Spread{Min: times[0], Median: times[n/2], P90: times[min(n-1, n*9/10)], Max: times[n-1],
		Mean: sum / float64(n)}
	rep.DataWaitMS = waits[n/2]
	rep.CaptionsPerS = float64(c.Train.Batch) / (rep.StepMS.Median + rep.DataWaitMS) * 1000
	rep.GFlop = flops / float64(n) / 1e9
	rep.GFlops = rep.GFlop / rep.StepMS.Median * 1000
	if b.r.PeakMemory != nil {
		rep.MemoryMB = float64(b.r.PeakMemory()) / (1 << 20)
	}
	var err error
	if memory != nil { // the products of the CPU say nothing about a GPU
		rep.CaptionsPerS = float64(c.Train.Batch) / rep.StepMS.Mean * 1000
		rep.Recorded, rep.Replayed = b.Step.Recordings()
		memory.CallByCall = b.Step.CallByCall() // the device may not have been able to record after all
		resident, _ := device.As[device.Resident](b.Device)
		free, total, err := resident.FreeMemory()
		rep.GPUUsedMB = float64(total-free) / (1 << 20)
		return *rep, err
	}
	if rep.Peak, rep.Threads, err = gemmPeak(c.Device.Threads, c.Device.Precision, b.r.BLAS); err != nil {
		return *rep, err
	}
	rep.Share = rep.GFlops / rep.Peak
	return *rep, nil
}

// gemmPeak measures the rate of a large square product, as the peer does.
func gemmPeak(threads int, precision, blas string) (gflops float64, used int, err error) {
	pool := par.New(threads)
	defer pool.Close()
	e, err := gemm.New(pool, gemm.Options{Kernel: blas})
	if err != nil {
		return 0, 0, err
	}
	p := gemm.Float32
	if precision == "bf16" {
		p = gemm.BF16
	}
	const n = 2048
	return gemm.Measure(e, n, n, n, false, true, p, time.Second), pool.Threads(), nil
}
