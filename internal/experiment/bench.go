package experiment

import (
	"context"
	"fmt"
	"slices"
	"time"

	"vsetrain/data"
	"vsetrain/internal/config"
	"vsetrain/internal/gemm"
	"vsetrain/internal/par"
	"vsetrain/loss"
	"vsetrain/models"
	"vsetrain/train"
)

// BenchRequest asks for the time of training steps.
type BenchRequest struct {
	Config        *config.Config
	BLAS          string
	Steps, Warmup int
	// WithData times batches of the data set of the configuration, loader included; otherwise they are synthetic, of these sizes.
	WithData                bool
	Regions, Feature, Vocab int // Vocab 0: that of Flickr30K, or of bert-base-uncased
	Now                     func() time.Time
	PeakMemory              func() int64 // bytes, 0 when unknown
	Progress                func(done, total int)
}

// Spread summarises the times of the steps in milliseconds.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	Max    float64 `json:"max"`
}

// BenchReport is the outcome of a benchmark; its JSON is one line.
type BenchReport struct {
	Network      string      `json:"network"`
	Loss         string      `json:"loss"`
	Device       string      `json:"device"`
	Precision    string      `json:"precision"`
	Threads      int         `json:"threads"`
	Batch        int         `json:"batch"`
	Data         string      `json:"data"` // folder, or "synthetic"
	Steps        int         `json:"steps"`
	FirstStepMS  float64     `json:"first_step_ms"` // graph building included
	StepMS       Spread      `json:"step_ms"`       // batch in host memory to parameters updated
	CaptionsPerS float64     `json:"captions_per_s"`
	DataWaitMS   float64     `json:"data_wait_ms"` // median wait for the loader; 0 with synthetic batches
	GFlop        float64     `json:"gflop_per_step"`
	GFlops       float64     `json:"gflops"`
	Peak         float64     `json:"gemm_peak_gflops"` // best square product in this process and precision; 0 on a GPU
	Share        float64     `json:"fraction_of_gemm_peak"`
	MemoryMB     float64     `json:"peak_memory_mb"`
	GPUMemory    *MemoryPlan `json:"gpu_memory,omitempty"`
}

// Bench times training steps of a configuration on synthetic batches, or on its data set where data.dir is given.
func Bench(ctx context.Context, r BenchRequest) (BenchReport, error) {
	b := &bench{BenchRequest: r}
	defer b.close()
	memory, err := b.open(ctx)
	if err != nil {
		return BenchReport{}, explainDevice(err, r.Config.Device, "no step had been done")
	}
	rep, err := b.run(ctx, memory)
	return rep, explainDevice(err, r.Config.Device, "no step had been done")
}

type bench struct {
	BenchRequest
	training
	batches []*data.Batch // synthetic
	next    int
}

// Next and Release make the synthetic batches a source.
func (b *bench) Next() (*data.Batch, error) {
	if b.loader != nil {
		return b.loader.Next()
	}
	b.next++
	return b.batches[b.next%len(b.batches)], nil
}

func (b *bench) Release(x *data.Batch) {
	if b.loader != nil {
		b.loader.Release(x)
	}
}

const (
	syntheticBatches, semanticDim = 4, 400
	flickrWords, bertPieces       = 8481, 30522
)

func (b *bench) open(ctx context.Context) (memory *MemoryPlan, err error) {
	c := b.BenchRequest.Config
	b.cfg = c
	bert := c.Model.TextEncoder == models.TextBert
	if b.Vocab == 0 {
		if b.Vocab = flickrWords; bert {
			b.Vocab = bertPieces
		}
	}
	dims := models.Dims{Regions: b.Regions, Feature: b.Feature, Vocab: b.Vocab}
	if b.WithData {
		if b.vocab, err = OpenLexicon(c.Data, &c.Model); err != nil {
			return nil, err
		}
		if err = b.openTrain(); err != nil {
			return nil, err
		}
		dims = dimsOf(b.train, b.vocab)
	}
	if b.dev, err = OpenDevice(c.Device, b.BenchRequest.BLAS); err != nil {
		return nil, err
	}
	if b.model, err = models.NewModel(b.dev, c.Model, dims); err != nil {
		return nil, err
	}
	b.pool = par.New(c.Device.Threads)
	b.model.Init(c.Seed, b.pool)
	if b.step, err = train.NewStep(b.model, c.Loss, c.Optim); err != nil {
		return nil, err
	}
	b.step.Seed = c.Seed
	if memory, err = b.place(ctx); err != nil {
		return nil, err
	}
	if b.WithData {
		b.loader, err = data.NewLoader(b.train, b.vocab, b.inPlace(data.LoaderOptions{Batch: c.Train.Batch, Seed: c.Seed, Shuffle: true, DropLast: true}))
		return memory, err
	}
	for i := range syntheticBatches {
		sem := 0
		if c.Loss.Name == loss.LSEH {
			sem = semanticDim
		}
		x := syntheticBatch(c.Seed+uint64(i), c.Train.Batch, dims.Regions, dims.Feature, dims.Vocab, sem)
		if c.Model.NeedsBoxes() {
			addBoxes(x, c.Seed+uint64(i))
		}
		if c.Model.Augments() {
			augment(x, c.Seed+uint64(i), dims.Vocab, bert)
		}
		b.batches = append(b.batches, x)
	}
	return memory, nil
}

func (b *bench) run(ctx context.Context, memory *MemoryPlan) (BenchReport, error) {
	c := b.cfg
	rep := BenchReport{Network: c.Model.Network, Loss: c.Loss.Name, Device: b.dev.Name(), Precision: c.Device.Precision,
		Batch: c.Train.Batch, Steps: b.Steps, Data: "synthetic", GPUMemory: memory}
	if b.WithData {
		rep.Data = c.Data.Dir
	}
	var times, waits []float64
	var flops, seconds float64
	for i := range b.Warmup + b.Steps {
		if err := ctx.Err(); err != nil {
			return rep, err
		}
		x, err := b.Next()
		if err != nil {
			return rep, err
		}
		start := b.BenchRequest.Now()
		if _, err := b.step.Run(x, c.Optim.LR, false); err != nil {
			return rep, fmt.Errorf("step %d: %w", i+1, err)
		}
		d := b.BenchRequest.Now().Sub(start)
		if i == 0 {
			rep.FirstStepMS = milliseconds(d)
		}
		if i >= b.Warmup {
			words := 0
			for _, n := range x.Lengths {
				words += int(n)
			}
			times, waits = append(times, milliseconds(d)), append(waits, milliseconds(x.Wait))
			flops += b.model.Network.StepFlops(x.N, words)
			seconds += d.Seconds()
		}
		b.Release(x)
		if b.Progress != nil {
			b.Progress(i+1, b.Warmup+b.Steps)
		}
	}
	slices.Sort(times)
	slices.Sort(waits)
	n := len(times)
	rep.StepMS = Spread{Min: times[0], Median: times[n/2], P90: times[min(n-1, n*9/10)], Max: times[n-1]}
	rep.DataWaitMS = waits[n/2]
	rep.CaptionsPerS = float64(c.Train.Batch) / (rep.StepMS.Median + rep.DataWaitMS) * 1000
	rep.GFlop = flops / float64(n) / 1e9
	rep.GFlops = rep.GFlop / rep.StepMS.Median * 1000
	if b.PeakMemory != nil {
		rep.MemoryMB = float64(b.PeakMemory()) / (1 << 20)
	}
	if memory != nil { // the products of the CPU say nothing about a GPU
		return rep, nil
	}
	var err error
	if rep.Peak, rep.Threads, err = gemmPeak(c.Device.Threads, c.Device.Precision, b.BenchRequest.BLAS); err != nil {
		return rep, err
	}
	rep.Share = rep.GFlops / rep.Peak
	return rep, nil
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
