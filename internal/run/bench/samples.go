package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"vsetrain/data"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/placement"
	"vsetrain/loss"
	"vsetrain/train"
)

// SamplesRequest asks for the time of an epoch over growing subsets of the training images, the LSEH paper's
// measure of what a loss costs.
type SamplesRequest struct {
	Config     *config.Config
	BLAS       string
	Losses     []string // names of losses; empty is loss.Compared
	Subsets    int      // 0 is 10
	StepImages int      // images by which each subset grows; 0 divides all images evenly
	Now        func() time.Time
	Progress   func(phase string, done, total int) // batches of a loss; nil reports nothing
	Warn       func(error)                         // receives warnings; may be nil
}

// SamplesReport is the outcome.
type SamplesReport struct {
	Network    string         `json:"network"`
	Data       string         `json:"data"`
	Device     string         `json:"device"`
	Precision  string         `json:"precision"`
	Batch      int            `json:"batch"`
	StepImages int            `json:"step_images"`
	Points     []SamplesPoint `json:"points"`
}

// SamplesPoint is the measurement of one epoch.
type SamplesPoint struct {
	Loss        string  `json:"loss"`
	Subset      int     `json:"subset"` // n: the first n·StepImages images
	Images      int     `json:"images"`
	Captions    int     `json:"captions"`
	Steps       int     `json:"steps"`
	Seconds     float64 `json:"seconds"`      // loading, forward, loss, backward and update of all batches
	LossSeconds float64 `json:"loss_seconds"` // the loss alone, run once more for every batch and not part of Seconds
}

// Losses returns the names of the losses in the order in which they were measured.
func (r *SamplesReport) Losses() (names []string) {
	for _, p := range r.Points {
		if !slices.Contains(names, p.Loss) {
			names = append(names, p.Loss)
		}
	}
	return names
}

// Samples measures, for each loss, one training epoch over each subset. The graphs are built, and the smallest subset
// is trained on once, before the clock starts.
func Samples(ctx context.Context, r SamplesRequest) (SamplesReport, error) {
	r.Subsets = cmp.Or(r.Subsets, 10)
	if len(r.Losses) == 0 {
		r.Losses = loss.Compared()
	}
	c := r.Config
	rep := SamplesReport{Network: c.Model.Network, Data: c.Data.Dir, Precision: c.Device.Precision,
		Batch: c.Train.Batch}
	all, err := inputs.OpenSplit(c.Data, c.Model, "train", data.OpenOptions{})
	if err != nil {
		return rep, err
	}
	images := all.NumImages()
	all.Close()
	r.StepImages = cmp.Or(r.StepImages, images/r.Subsets)
	if r.StepImages < 1 || r.StepImages*r.Subsets > images {
		return rep, fmt.Errorf("%s: %d images do not make %d subsets that grow by %d; ask for fewer subsets or a "+
			"smaller step", c.Data.Dir, images, r.Subsets, r.StepImages)
	}
	rep.StepImages = r.StepImages
	for _, name := range r.Losses {
		if err := r.measure(ctx, name, &rep); err != nil {
			return rep, fmt.Errorf("loss %s: %w", name, err)
		}
	}
	return rep, nil
}

// measure runs all subsets with one loss.
func (r *SamplesRequest) measure(ctx context.Context, name string, rep *SamplesReport) (err error) {
	c := *r.Config
	c.Loss.Name, c.Loss.WarmupEpochs = name, 0 // time the loss itself, not its warm-up
	if err := c.Loss.Validate(); err != nil {
		return err
	}
	t := &epochs{placement.Setup{Cfg: &c}}
	defer t.Close()
	if err = t.OpenTrain(); err != nil {
		return err
	}
	dev, err := placement.Open(c.Device, r.BLAS, r.Warn)
	if err != nil {
		return err
	}
	rep.Device, rep.Precision = dev.Name(), placement.Precision(dev, c.Device)
	if err = t.Build(dev, rep.Precision, inputs.Dims(t.Train, t.Tokenizer)); err != nil {
		return err
	}
	t.Model.Init(c.Seed, t.Pool)
	own := t.Train.Groups()
	total, done := 0, 0
	size := func(n int) int { return own.First(n * r.StepImages) }
	for n := range r.Subsets + 1 {
		total += (size(max(1, n)) + c.Train.Batch - 1) / c.Train.Batch
	}
	timer := train.NewLossTimer(t.Step)
	for n := range r.Subsets + 1 { // the first pass warms up
		p, err := t.timeEpoch(ctx, timer, size(max(1, n)), r.Now, func() {
			if done++; r.Progress != nil {
				r.Progress("bench "+name, done, total)
			}
		})
		if err != nil {
			return err
		}
		if n > 0 {
			p.Loss, p.Subset = name, n
			rep.Points = append(rep.Points, p)
		}
	}
	return nil
}

// epochs is a setup whose epochs are timed.
type epochs struct{ placement.Setup }

// timeEpoch trains on the first captions of the training split once.
func (t *epochs) timeEpoch(ctx context.Context, timer *train.LossTimer, captions int, now func() time.Time,
	done func()) (p SamplesPoint, err error) {
	c := t.Cfg
	l, err := data.NewLoader(t.Train, t.Tokenizer, t.WithFields(data.LoaderOptions{Batch: c.Train.Batch,
		Captions: captions,
		Seed:     c.Seed, Shuffle: true, Epochs: 1}))
	if err != nil {
		return p, err
	}
	defer l.Close()
	p.Captions, p.Images = captions, t.Train.ImageOf(captions-1)+1
	var inLoss time.Duration
	start := now()
	for {
		if err := ctx.Err(); err != nil {
			return p, err
		}
		b, err := l.Next()
		if errors.Is(err, io.EOF) {
			p.LossSeconds = inLoss.Seconds()
			p.Seconds = now().Sub(start).Seconds()
			return p, nil
		}
		if err != nil {
			return p, err
		}
		if _, err := t.Step.Run(b, c.Optim.LR, false); err != nil {
			return p, err
		}
		again := now()
		d, err := timer.Time(b.SemanticDim, now)
		if err != nil {
			return p, err
		}
		inLoss += d
		start = start.Add(now().Sub(again)) // not part of the epoch
		l.Release(b)
		p.Steps++
		done()
	}
}
