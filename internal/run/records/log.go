package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/files/tfevents"
	"vsetrain/internal/run/config"
	"vsetrain/train"
)

// Kinds of lines in metrics.jsonl.
const (
	KindStep       = "train"
	KindValidation = "val"
)

// validationTags is the prefix of the names of validation curves in TensorBoard.
const validationTags = "val/"

// Log writes the records of a session to metrics.jsonl and, if enabled, to TensorBoard event files.
type Log struct {
	every   int // steps between logged steps, 0 none
	metrics *runfs.Log
	events  *tfevents.Writer // nil without TensorBoard
	now     func() time.Time
}

// StepRecord is a line of metrics.jsonl about a training step.
type StepRecord struct {
	Kind  string  `json:"kind"` // "train"
	Step  int64   `json:"step"`
	Epoch float64 `json:"epoch"` // epochs done, with fraction
	// UTC, to the millisecond; zero in lines of earlier versions.
	Time         time.Time `json:"time,omitzero"`
	Loss         float64   `json:"loss"`
	LossCaption  float64   `json:"loss_caption"`              // caption retrieval (rows)
	LossImage    float64   `json:"loss_image"`                // image retrieval (columns)
	Captioning   float64   `json:"loss_captioning,omitempty"` // of a captioning branch
	LearningRate float64   `json:"lr"`
	GradNorm     float64   `json:"grad_norm"` // before clipping
	StepMS       float64   `json:"step_ms"`
	DataWaitMS   float64   `json:"data_wait_ms"`
	CaptionsPerS float64   `json:"captions_per_s"`
	// Learned are the scalar parameters of the loss after the step; absent if it has none.
	Learned map[string]float64 `json:"learned,omitempty"`
	// Usage of the GPU by all programs, as reported by NVML; absent without NVML.
	GPUMemoryMB      *float64 `json:"gpu_memory_mb,omitempty"` // in use
	GPUMemoryTotalMB *float64 `json:"gpu_memory_total_mb,omitempty"`
	GPUBusy          *float64 `json:"gpu_busy,omitempty"` // per cent of the last second, of steps alone
	GPUWatts         *float64 `json:"gpu_watts,omitempty"`
	GPUCelsius       *float64 `json:"gpu_celsius,omitempty"`
	// Different captions among the hard negatives of all images (train.Negatives).
	HardCaptions int `json:"hard_captions"`
	HardImages   int `json:"hard_images"` // different images among the images of all captions
	// The same for those that violate their margin. Earlier runs counted these in HardCaptions and HardImages, plus one
	// if an anchor had no violation.
	ActiveCaptions *int `json:"hard_captions_active,omitempty"`
	ActiveImages   *int `json:"hard_images_active,omitempty"`
	// Percentage of the hard negatives, and of all negatives in the batch, that are false negatives (FalseNegatives);
	// absent without semantic vectors.
	HardFalse *float64 `json:"hard_false,omitempty"`
	AllFalse  *float64 `json:"all_false,omitempty"`
	// Number of consecutive steps, including this one, whose scores were all alike (train.Position); absent in runs of
	// earlier versions.
	Collapsed *int `json:"collapsed,omitempty"`
}

// Pairs is the number of pairs in the batch, derived from the speed; 1 if unknown.
func (r *StepRecord) Pairs() float64 { return max(1, math.Round(r.CaptionsPerS*r.StepMS/1000)) }

// ValidationRecord is a line of metrics.jsonl about a validation.
type ValidationRecord struct {
	Kind  string    `json:"kind"` // "val"
	Step  int64     `json:"step"`
	Epoch float64   `json:"epoch"`
	Time  time.Time `json:"time,omitzero"` // as in a step
	Measured
	Seconds float64   `json:"seconds"`
	Average *Measured `json:"average,omitempty"` // with the averaged weights (optim.ema); absent without
}

// Measured holds the measures of a validation for one set of weights.
type Measured struct {
	I2T     eval.Recalls `json:"i2t"`
	T2I     eval.Recalls `json:"t2i"`
	RSum    float64      `json:"rsum"`
	MRecall float64      `json:"m_recall"`
	Best    bool         `json:"best"` // the best so far
}

func measured(m eval.Metrics, better bool) Measured {
	return Measured{I2T: m.I2T, T2I: m.T2I, RSum: m.RSum, MRecall: m.MRecall, Best: better}
}

// Open opens the records of a run on a host. lines is the number of lines of metrics.jsonl up to a position, runfs.All
// if unknown. Lines and events of later steps are removed, because those steps will run again.
func Open(run *runfs.Dir, c *config.Config, p train.Position, lines int, host string, now func() time.Time) (*Log,
	error) {
	l := &Log{every: c.Train.LogStep, now: now}
	var err error
	if l.metrics, err = runfs.OpenLog(run.Path(runfs.MetricsName), lines); err != nil {
		return nil, err
	}
	err = l.metrics.TruncateAfter(p.Step, Undone(p)...)
	there := curves{tags: map[string]uint{}, steps: map[int64]uint64{}}
	if err == nil {
		err = tfevents.Truncate(run.Path(), func(e tfevents.Event) bool {
			stays := e.Step <= p.Step && !(p.Pending && e.Step == p.Step && strings.HasPrefix(e.Tag, validationTags))
			if stays {
				there.add(e.Tag, e.Step)
			}
			return stays
		})
	}
	if err == nil && c.Run.TensorBoard {
		err = l.openEvents(run, host, p.Step, c, there)
	}
	if err != nil {
		l.metrics.Close()
		return nil, err
	}
	return l, nil
}

// Undone lists the kinds of lines at a position that will be written again.
func Undone(p train.Position) []string {
	if p.Pending { // interrupted before the validation of the step; a killed session may have logged it
		return []string{KindValidation}
	}
	return nil
}

// curves are the points of the curves in event files.
type curves struct {
	tags  map[string]uint  // bit of each curve; the curves after the first 64 are treated as complete
	steps map[int64]uint64 // the curves that have a point at a step
}

func (c *curves) add(tag string, step int64) {
	bit, ok := c.tags[tag]
	if !ok {
		bit = uint(len(c.tags))
		c.tags[tag] = bit
	}
	c.steps[step] |= 1 << bit
}

func (c *curves) has(tag string, step int64) bool {
	bit, ok := c.tags[tag]
	return ok && (bit >= 64 || c.steps[step]>>bit&1 != 0)
}

// openEvents starts the event file of a session that continues after the given step. The file starts with the settings
// of the run, and with the points of metrics.jsonl that the event files lack: their end may have been lost in a power
// failure.
func (l *Log) openEvents(run *runfs.Dir, host string, step int64, c *config.Config, there curves) error {
	now := l.now()
	w, err := tfevents.Create(run.Path(), now, host)
	if err != nil {
		return err
	}
	if err = w.HParams(now, config.Settings(c)); err == nil && step > 0 {
		if err = restoreCurves(w, run.Path(runfs.MetricsName), now, there); err == nil {
			err = w.Start(step+1, now)
		}
	}
	if err == nil {
		err = w.Sync() // a session with nothing left to do saves nothing
	}
	if err != nil {
		w.Close()
		return err
	}
	l.events = w
	return nil
}

func restoreCurves(w *tfevents.Writer, path string, now time.Time, there curves) error {
	_, err := runfs.ReadLog(path, runfs.All, func(line []byte, number int) (bool, error) {
		r, err := Read(line)
		if err != nil {
			return false, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		if r.Time.IsZero() {
			r.Time = now
		}
		for _, tag := range slices.Sorted(maps.Keys(r.Scalars)) {
			if there.has(tag, r.Step) {
				continue
			}
			if err := w.Scalar(tag, r.Step, r.Time, float32(r.Scalars[tag])); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	return err
}

// Milliseconds is a duration as records contain it.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Due reports whether a step is logged.
func (l *Log) Due(step int64) bool { return l.every > 0 && step%int64(l.every) == 0 }

// Step writes the record of a step.
func (l *Log) Step(i train.StepInfo, hard train.Negatives, similar *train.FalseNegatives,
	learned map[string]float64) error {
	now := l.now()
	r := StepRecord{Kind: KindStep, Time: stamp(now), Step: i.Position.Step, Epoch: i.EpochPosition,
		Loss: i.StepResult.Loss, LossCaption: i.StepResult.LossCaption, LossImage: i.StepResult.LossImage,
		Captioning: i.StepResult.LossCaptioning, LearningRate: i.StepResult.LearningRate,
		GradNorm: i.StepResult.GradNorm, StepMS: Milliseconds(i.Duration), DataWaitMS: Milliseconds(i.DataWait),
		CaptionsPerS: float64(i.Batch) / i.Duration.Seconds(), HardCaptions: hard.Captions, HardImages: hard.Images,
		ActiveCaptions: &hard.ActiveCaptions, ActiveImages: &hard.ActiveImages, Collapsed: &i.Position.Collapsed,
		Learned: learned}
	if similar != nil {
		r.HardFalse, r.AllFalse = &similar.HardFalse, &similar.AllFalse
	}
	r.gpu(i.Usage)
	return l.write(r, now, r.Step, r.scalars())
}

// gpu stores the usage of the device.
func (r *StepRecord) gpu(u *device.Usage) {
	if u == nil {
		return
	}
	keep := func(to **float64, v float64) {
		if v >= 0 {
			*to = &v
		}
	}
	keep(&r.GPUMemoryMB, float64(u.Used>>20))
	keep(&r.GPUMemoryTotalMB, float64(u.Total>>20))
	keep(&r.GPUBusy, float64(u.Busy))
	keep(&r.GPUWatts, u.Watts)
	keep(&r.GPUCelsius, float64(u.Celsius))
}

// scalars returns the values of a step by their names in TensorBoard and MLflow.
func (r *StepRecord) scalars() map[string]float64 {
	s := map[string]float64{"train/loss": r.Loss, "train/loss_caption": r.LossCaption,
		"train/loss_image": r.LossImage, "train/lr": r.LearningRate, "train/grad_norm": r.GradNorm,
		"time/step_ms": r.StepMS, "time/data_wait_ms": r.DataWaitMS, "time/captions_per_s": r.CaptionsPerS,
		"train/epoch":         r.Epoch,
		"train/hard_captions": float64(r.HardCaptions), "train/hard_images": float64(r.HardImages)}
	if r.ActiveCaptions != nil && r.ActiveImages != nil {
		s["train/hard_captions_active"] = float64(*r.ActiveCaptions)
		s["train/hard_images_active"] = float64(*r.ActiveImages)
	}
	for name, v := range map[string]*float64{"gpu/memory_mb": r.GPUMemoryMB, "gpu/busy": r.GPUBusy,
		"gpu/watts": r.GPUWatts, "gpu/celsius": r.GPUCelsius} {
		if v != nil {
			s[name] = *v
		}
	}
	for name, v := range r.Learned {
		s["train/"+name] = v
	}
	if r.Captioning != 0 {
		s["train/loss_captioning"] = r.Captioning
	}
	if r.HardFalse != nil && r.AllFalse != nil {
		s["train/hard_false"], s["train/all_false"] = *r.HardFalse, *r.AllFalse
	}
	return s
}

// stamp is a time as metrics.jsonl contains it.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// Validation writes the record of a validation.
func (l *Log) Validation(i train.ValidationInfo) error {
	now := l.now()
	r := ValidationRecord{Kind: KindValidation, Time: stamp(now), Step: i.Position.Step, Epoch: i.EpochPosition,
		Measured: measured(i.Metrics, i.Better), Seconds: i.Duration.Seconds()}
	if a := i.Average; a != nil {
		r.Average = new(measured(a.Metrics, a.Better))
	}
	return l.write(r, now, r.Step, r.scalars())
}

// scalars returns the values of a validation by their names in TensorBoard and MLflow.
func (r *ValidationRecord) scalars() map[string]float64 {
	s := map[string]float64{"val/i2t_r1": r.I2T.R1, "val/i2t_r5": r.I2T.R5, "val/i2t_r10": r.I2T.R10,
		"val/t2i_r1": r.T2I.R1, "val/t2i_r5": r.T2I.R5, "val/t2i_r10": r.T2I.R10, "val/i2t_medr": r.I2T.MedR,
		"val/t2i_medr": r.T2I.MedR, "val/i2t_meanr": r.I2T.MeanR, "val/t2i_meanr": r.T2I.MeanR, "val/rsum": r.RSum,
		"val/m_recall": r.MRecall}
	if a := r.Average; a != nil {
		s["val/average_rsum"], s["val/average_m_recall"] = a.RSum, a.MRecall
	}
	return s
}

func (l *Log) write(line any, now time.Time, step int64, scalars map[string]float64) error {
	if err := l.metrics.Append(line); err != nil {
		return err
	}
	if l.events == nil {
		return nil
	}
	for _, tag := range slices.Sorted(maps.Keys(scalars)) {
		if err := l.events.Scalar(tag, step, now, float32(scalars[tag])); err != nil {
			return err
		}
	}
	return l.events.Flush()
}

// Sync makes everything written so far safe from a power failure.
func (l *Log) Sync() error {
	err := l.metrics.Sync()
	if err == nil && l.events != nil {
		err = l.events.Sync()
	}
	return err
}

// Record is a line of metrics.jsonl of either kind.
type Record struct {
	Kind    string
	Step    int64
	Time    time.Time
	Scalars map[string]float64 `json:"-"` // its values, by the names that they have in TensorBoard and MLflow
}

// Read reads a line of metrics.jsonl.
func Read(line []byte) (r Record, err error) {
	if err = json.Unmarshal(line, &r); err != nil {
		return r, err
	}
	var values interface{ scalars() map[string]float64 } = new(StepRecord)
	if r.Kind == KindValidation {
		values = new(ValidationRecord)
	}
	if err = json.Unmarshal(line, values); err == nil {
		r.Scalars = values.scalars()
	}
	return r, err
}

// Counted is the number and checksum of the lines of metrics.jsonl.
func (l *Log) Counted() runfs.Counted { return l.metrics.Counted() }

// Close closes what is open.
func (l *Log) Close() error {
	err := l.metrics.Close()
	if l.events != nil {
		err = errors.Join(err, l.events.Close())
	}
	return err
}
