package placement

import (
	"errors"

	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/system/options"
	"vsetrain/models"
	"vsetrain/semantic"
	"vsetrain/train"
)

// Setup is a configuration with its data and a network on a device, as training and benchmarks need them. Close skips
// nil fields; a benchmark of synthetic batches has no data.
type Setup struct {
	Cfg       *config.Config // with the precision of computation, once the network exists
	Warnings  []error        // kept until the caller reports them
	Tokenizer text.Tokenizer
	Train     *data.Split
	Noise     *runfs.NoiseIndex // of Train; nil without one
	Mined     string            // SHA-256 of its file of mined negatives, "" if there is none
	Val       *data.Split
	Semantics *semantic.Store // of the training captions
	Loader    *data.Loader    // of batches of the training split

	Device     device.Device
	Pool       *par.Pool // of the host
	Model      *models.Model
	Step       *train.Step
	Validation *models.Runner        // of Model
	Copying    func(done, total int) // rows of features copied to the GPU; may be nil
	// Features reads a row for micro-batches if there is no data set.
	Features func(dst []float32, row int) error

	resident *models.Resident // parts of the training split on the device; may be nil
}

// OpenTrain opens the tokenizer and the training split with its noise index and mined negatives, and its semantic
// vectors if the loss needs them.
func (t *Setup) OpenTrain() (err error) {
	if t.Tokenizer, err = inputs.OpenLexicon(t.Cfg.Data, &t.Cfg.Model); err != nil {
		return err
	}
	if t.Train, err = inputs.OpenSplit(t.Cfg.Data, t.Cfg.Model, "train", data.OpenOptions{Warn: t.Warn}); err != nil {
		return err
	}
	if err := data.OddDependencies(t.Train, t.Tokenizer); err != nil {
		t.Warn(err)
	}
	if path := t.Cfg.Data.NoiseIndex; path != "" {
		if t.Noise, err = data.AttachNoise(t.Train, path); err != nil {
			return err
		}
	}
	if path := t.Cfg.Data.Mined; path != "" {
		if t.Mined, err = data.AttachMined(t.Train, path, t.Noise); err != nil {
			return err
		}
	}
	if !t.Cfg.Loss.NeedsSemantics() {
		return nil
	}
	t.Semantics, err = inputs.AttachSemantics(t.Train, t.Cfg.Data, &t.Cfg.Loss, t.Warn)
	return err
}

// Warn keeps a warning for the user.
func (t *Setup) Warn(err error) { t.Warnings = append(t.Warnings, err) }

// Build makes a network of the given sizes, and its training step, on a device. The parameters are not initialised.
func (t *Setup) Build(dev device.Device, precision string, d models.Dims) (err error) {
	t.Device, t.Cfg = dev, t.Cfg.WithPrecision(precision)
	t.Pool = par.New(t.Cfg.Device.Threads)
	if t.Model, err = train.NewModel(dev, t.Cfg.Model, d, &t.Cfg.Loss); err != nil {
		if e, ok := errors.AsType[*options.Error](err); ok {
			err = config.Mistakef("%w", options.Under("model", e))
		}
		return err
	}
	if t.Step, err = train.NewStep(t.Model, t.Cfg.Loss, t.Cfg.Optim); err != nil {
		return err
	}
	t.Step.Seed = t.Cfg.Seed
	read := t.Features
	if t.Train != nil {
		read = t.Train.ReadImage
	}
	if err = train.Divide(t.Step, t.Cfg.Train.MicroBatch, read); err != nil {
		return err
	}
	t.readFrom(nil, nil)
	return nil
}

// Close closes what is open.
func (t *Setup) Close() {
	if t.Loader != nil {
		t.Loader.Close()
	}
	if t.Semantics != nil {
		t.Semantics.Close()
	}
	for _, x := range []*data.Split{t.Train, t.Val} {
		if x != nil {
			x.Close()
		}
	}
	if t.Device != nil {
		t.Device.Close()
	}
	t.Pool.Close()
}

// readFrom tells the networks which parts of the training and the validation split are on the device.
func (t *Setup) readFrom(train, val *models.Resident) {
	t.resident = train
	t.Step.ReadFrom(train)
	t.Validation = models.NewRunner(t.Model, val)
}
