package search

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/run/pretrained"
	"vsetrain/internal/system/options"
)

// Options say what Open opens. Checkpoints is required; the zero value of every other field is usable.
type Options struct {
	// run directories or checkpoint files, as evaluation takes them; several are an ensemble: the mean of their scores
	Checkpoints []string
	Set         []string // options of their networks, "model.scan.lambda=9", that a file of a repository does not tell
	// Shortlist is the checkpoint of an embedder. Where it is given, it picks Depth candidates for each query and the
	// checkpoints above score those alone. "" scores every candidate.
	Shortlist string
	Depth     int              // length of the shortlist; 0 is 100
	Data      string           // folder of the data set; "" is the one the first run was trained on
	PerImage  options.PerSplit // captions of an image that the files must bear out; "" is the run's setting
	Vocab     string           // vocabulary file; "" is the file of the run, or of the data set
	Split     string           // "" is test
	Batch     int              // images or captions encoded at a time; 0 is 128; does not change the result
	// Cache is a folder where encodings are kept between sessions, under a name that depends on weights, features,
	// captions and precision. "" keeps nothing.
	Cache string
	// CacheLimit, where it is above 0, bounds a cache that nobody asked for: it holds that many bytes at most, the
	// encodings that were used least recently are removed, no scores are kept in it, and a folder that cannot be
	// written is a warning.
	CacheLimit int64
	// Device: the zero value is device.DefaultOptions. With precision auto everything is computed in fp32, except for
	// typed queries: PrepareBatches chooses bf16 for them where the device multiplies bf16 faster than float32 and
	// M-Recall of the dev split of the data set changes by less than 0.1.
	Device device.Options
	Chosen func(QueryPrecision) // is told of a choice that PrepareBatches did not wait for; may be nil
	BLAS   string               // matrix product of the CPU; "" is the fastest
	Warn   func(error)          // what a person should know; may be nil
	// Progress is told of every phase ("encode images inf-lseh", "score gsmn") from the goroutine that called Prepare
	// or Outcomes, or asked a query that needs encodings; nil reports nothing.
	Progress func(phase string, done, total int)
	choose   bool          // the precision of queries
	wait     time.Duration // for that choice; 0 is 2 s
}

const (
	defaultSplit = "test"
	defaultDepth = 100
	defaultBatch = 128
)

// Validate returns an error for the first option that cannot be used.
func (o *Options) Validate() error {
	if len(o.Checkpoints) == 0 {
		return errors.New("no checkpoint; name a run directory or a checkpoint file")
	}
	if o.Depth < 0 {
		return fmt.Errorf("shortlist of %d candidates; expected at least 1", o.Depth)
	}
	if o.Batch < 0 {
		return fmt.Errorf("batch %d; expected at least 1", o.Batch)
	}
	if o.Device == (device.Options{}) {
		return nil
	}
	return o.Device.Validate()
}

// trained is the request for one checkpoint.
func (o *Options) trained(checkpoint string) pretrained.Request {
	return pretrained.Request{Checkpoint: checkpoint, Set: o.Set, Data: o.Data, PerImage: o.PerImage, Vocab: o.Vocab,
		Split: o.Split, Partial: true, Device: o.Device, BLAS: o.BLAS, Warn: o.Warn}
}

func (o *Options) warn(err error) {
	if o.Warn != nil {
		o.Warn(err)
	}
}

// setDefaults fills in zero values.
func (o *Options) setDefaults() {
	o.Split = cmp.Or(o.Split, defaultSplit)
	o.Depth = cmp.Or(o.Depth, defaultDepth)
	o.Batch = cmp.Or(o.Batch, defaultBatch)
	o.wait = cmp.Or(o.wait, 2*time.Second)
	if o.Device == (device.Options{}) {
		o.Device = device.DefaultOptions()
	}
	if o.Device.Precision == device.PrecisionAuto {
		o.Device.Precision, o.choose = cpu.FP32, true
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
}
