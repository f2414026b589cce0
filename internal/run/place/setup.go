package place

import (
	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/inputs"
	"vsetrain/models"
	"vsetrain/semantic"
	"vsetrain/train"
)

// Setup is a configuration with its data, and a network for them on a device: what a training and a benchmark share.
// What is nil is not closed, and a benchmark of synthetic batches has no data.
type Setup struct {
	Cfg       *config.Config // with the precision that is computed in, when the network is there
	Warnings  []error        // that wait until somebody looks
	Lexicon   text.Lexicon
	Train     *data.Split
	Val       *data.Split
	Semantics *semantic.Store // of the training captions
	Loader    *data.Loader    // of batches of the training split

	Device     device.Device
	Pool       *par.Pool // of the host
	Model      *models.Model
	Step       *train.Step
	Validation *models.Runner        // of Model
	Copying    func(done, total int) // rows of features copied to the GPU; may be nil

	resident *models.Resident // what of the training split is on the device; may be nil
}

// OpenTrain opens the lexicon and the training split, with its semantic vectors where the loss needs them.
func (s *Setup) OpenTrain() (err error) {
	if s.Lexicon, err = inputs.OpenLexicon(s.Cfg.Data, &s.Cfg.Model); err != nil {
		return err
	}
	if s.Train, err = inputs.OpenSplit(s.Cfg.Data, s.Cfg.Model, "train"); err != nil || !s.Cfg.Loss.NeedsSemantics() {
		return err
	}
	s.Semantics, err = inputs.AttachSemantics(s.Train, s.Cfg.Data, &s.Cfg.Loss, s.Warn)
	return err
}

// Warn keeps what a person should know.
func (s *Setup) Warn(err error) { s.Warnings = append(s.Warnings, err) }

// Build makes the network of some sizes, and its training step, on a device. The parameters are not set.
func (s *Setup) Build(dev device.Device, precision string, d models.Dims) (err error) {
	s.Device, s.Cfg = dev, s.Cfg.WithPrecision(precision)
	s.Pool = par.New(s.Cfg.Device.Threads)
	if s.Model, err = models.NewModel(dev, s.Cfg.Model, d); err != nil {
		return err
	}
	if s.Step, err = train.NewStep(s.Model, s.Cfg.Loss, s.Cfg.Optim); err != nil {
		return err
	}
	s.Step.Seed = s.Cfg.Seed
	s.readFrom(nil, nil)
	return nil
}

// Close closes what is open.
func (s *Setup) Close() {
	if s.Loader != nil {
		s.Loader.Close()
	}
	if s.Semantics != nil {
		s.Semantics.Close()
	}
	for _, x := range []*data.Split{s.Train, s.Val} {
		if x != nil {
			x.Close()
		}
	}
	if s.Device != nil {
		s.Device.Close()
	}
	if s.Pool != nil {
		s.Pool.Close()
	}
}
