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

// Options are the options of Open. Checkpoints is required; the zero value of every other field is usable.
type Options struct {
	// Checkpoints are run directories or checkpoint files, as evaluation takes them. The scores of several are
	// averaged.
	Checkpoints []string
	Set         []string // options that a reference checkpoint does not hold, such as "model.scan.lambda=9"
	// Shortlist is the checkpoint of an embedder that picks Depth candidates for each query; the networks of
	// Checkpoints score only these. "" scores every candidate.
	Shortlist string
	Depth     int              // length of the shortlist; 0 is 100
	Data      string           // folder of the data set; "" is the one the run was trained on
	PerImage  options.PerSplit // captions of an image, checked against the files; "" is the run's setting
	Vocab     string           // vocabulary file; "" is the file of the run, or of the data set
	Split     string           // "" is test
	Batch     int              // images or captions encoded at a time; 0 is 128; does not change the result
	// Cache is a folder that keeps encodings between sessions. Their names depend on weights, features, captions and
	// precision. "" keeps nothing.
	Cache string
	// CacheLimit is the size in bytes of a default cache; 0 is a cache that the user named. A default cache keeps no
	// scores and removes the least recently used encodings, and a folder that is not writable is only a warning.
	CacheLimit int64
	// Device is device.DefaultOptions if it is zero. With precision auto everything is computed in fp32, except for
	// typed queries: PrepareBatches chooses bf16 for them if the device multiplies bf16 faster than float32 and
	// M-Recall of the dev split changes by less than 0.1.
	Device device.Options
	Chosen func(QueryPrecision) // receives a choice that PrepareBatches did not wait for; may be nil
	BLAS   string               // matrix product of the CPU; "" is the fastest
	Warn   func(error)          // receives warnings; may be nil
	// Progress receives every phase ("encode images inf-lseh", "score gsmn") on the goroutine that called Prepare,
	// Outcomes or a query that needs encodings; may be nil.
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

func (o *Options) trained(checkpoint string) pretrained.Request {
	return pretrained.Request{Checkpoint: checkpoint, Set: o.Set, Data: o.Data, PerImage: o.PerImage, Vocab: o.Vocab,
		Split: o.Split, Partial: true, Device: o.Device, BLAS: o.BLAS, Warn: o.Warn}
}

func (o *Options) warn(err error) {
	if o.Warn != nil {
		o.Warn(err)
	}
}

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
