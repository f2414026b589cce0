package experiment

import (
	"fmt"
	"io"
	"reflect"

	"vsetrain/internal/config"
	"vsetrain/internal/runfs"
	"vsetrain/models"
	"vsetrain/train"
)

// Names of a run's files beside those of runfs.
const (
	vocabName = "vocab.json"
	lastName  = "last.safetensors"
	bestName  = "best.safetensors"
)

// openRun locks the run directory and writes what a new run starts with. A directory that holds a run already is
// refused unless it is resumed with the same configuration.
func (t *training) openRun() (*runfs.Dir, error) {
	dir, err := runfs.Open(t.RunDir, runfs.Owner{PID: t.Env.PID, Host: t.Env.Host})
	if err != nil {
		return nil, err
	}
	if err := t.prepareRun(dir); err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

func (t *training) prepareRun(dir *runfs.Dir) error {
	exists, err := dir.Has(runfs.ConfigName)
	if err != nil {
		return err
	}
	switch {
	case exists && !t.Resume:
		return fmt.Errorf("%s holds a run already; continue it with --resume, or choose another directory with --run", dir.Path())
	case !exists && t.Resume:
		return fmt.Errorf("%s: %w: the directory holds no run", dir.Path(), errNoRun)
	case exists:
		earlier, err := config.Load(config.Request{File: dir.Path(runfs.ConfigName)})
		if err != nil {
			return fmt.Errorf("resume: %w", err)
		}
		if err := sameRun(&earlier.Config, t.cfg); err != nil {
			return fmt.Errorf("resume %s: %w", dir.Path(), err)
		}
	}
	if err := t.vocab.Save(dir.Path(vocabName)); err != nil {
		return err
	}
	return dir.WriteFile(runfs.ConfigName, func(w io.Writer) error {
		_, err := w.Write(config.Marshal(t.cfg))
		return err
	})
}

// sameRun refuses to resume with a configuration that would make it another run. Device, run directory, and how long and
// how often to look may change.
func sameRun(earlier, now *config.Config) error {
	a, b := *earlier, *now
	for _, c := range []*config.Config{&a, &b} {
		c.Device, c.Run = config.Default().Device, config.Default().Run
		c.Train.Epochs, c.Train.EarlyStop, c.Train.MaxSteps, c.Train.LogStep, c.Train.CollapseSteps = 1, 0, 0, 0, 0
	}
	for _, s := range []struct {
		key  string
		a, b any
	}{{"seed", a.Seed, b.Seed}, {"data", a.Data, b.Data}, {"model", a.Model, b.Model}, {"loss", a.Loss, b.Loss},
		{"optim", a.Optim, b.Optim}, {"train", a.Train, b.Train}} {
		if !reflect.DeepEqual(s.a, s.b) {
			return fmt.Errorf("the configuration differs from the one the run started with in section %s: was %+v, is %+v; "+
				"start a new run with another --run to change it", s.key, s.a, s.b)
		}
	}
	if earlier.Device.Precision != now.Device.Precision {
		return fmt.Errorf("the run started in precision %s and cannot continue in %s", earlier.Device.Precision, now.Device.Precision)
	}
	return nil
}

// save is the loop's hook: the best weights first, then the state to resume from. A kill in between repeats the steps since
// the earlier state and arrives at the same files.
func (t *training) save(p train.Position, better bool) error {
	info := models.Info{Vocabulary: t.vocab.Hash(), Step: p.Step, Epoch: float64(p.Step) / float64(t.loop.Batches), Score: p.Best}
	if better {
		err := t.run.WriteFile(runfs.CheckpointsName+"/"+bestName, func(w io.Writer) error {
			return models.WriteCheckpoint(w, t.model, info, nil)
		})
		if err != nil {
			return fmt.Errorf("save best checkpoint: %w", err)
		}
	}
	if err := t.logs.sync(); err != nil {
		return err
	}
	err := t.run.WriteFile(runfs.CheckpointsName+"/"+lastName, func(w io.Writer) error {
		return t.step.WriteState(w, info, t.cfg.Seed, p)
	})
	if err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	return nil
}
