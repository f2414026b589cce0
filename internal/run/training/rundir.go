package training

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/tracking"
)

// locate makes the relative paths of a resumed run usable, even in another working directory than the original one. A
// new run resolves them in the working directory.
func (t *training) locate() (err error) {
	if !t.Resume {
		return nil
	}
	if t.started, err = inputs.StartedIn(t.RunDir); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	c := *t.Cfg
	t.Cfg = &c
	return inputs.LocateRun(t.RunDir, t.Cfg)
}

// openRun locks the run directory. A directory that already holds a run is an error unless the run is resumed with the
// same configuration and vocabulary. Nothing is written yet.
func (t *training) openRun() error {
	if t.Resume {
		if _, err := inputs.RunConfig(t.RunDir); err != nil { // before the directory is made
			return err
		}
	}
	err := runfs.Unclaimed(t.RunDir, inputs.DataName, t.ownNames()...)
	if err != nil {
		return err
	}
	if t.run, err = runfs.Open(t.RunDir, runfs.Owner{PID: t.Env.PID, Host: t.Env.Host, Since: t.Now()}); err != nil {
		return err
	}
	exists, err := t.run.Has(runfs.ConfigName)
	if err != nil {
		return err
	}
	if !exists {
		return t.holdsNoCheckpoint()
	}
	if !t.Resume {
		return fmt.Errorf("%s holds a run already; continue it with --resume, or choose another directory with --run",
			t.RunDir)
	}
	earlier, err := config.Load(config.Request{File: t.run.Path(runfs.ConfigName)})
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	if err := inputs.LocateRun(t.RunDir, &earlier.Config); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	if t.Cfg.Device.Precision == device.PrecisionAuto { // which was chosen when the run began
		t.Cfg = t.Cfg.WithPrecision(earlier.Config.Device.Precision)
		t.named = t.named.WithPrecision(earlier.Config.Device.Precision)
	}
	if err := sameRun(&earlier.Config, t.Cfg); err != nil {
		return fmt.Errorf("resume %s: %w", t.RunDir, err)
	}
	if err := t.sameData(); err != nil {
		return err
	}
	return t.sameVocabulary()
}

// ownNames are the file names that a run uses in its directory, except for the name of the fingerprint.
func (t *archive) ownNames() []string {
	names := []string{runfs.EnvName, runfs.MetricsName, runfs.TestName, tracking.StateName}
	for _, f := range t.Tokenizer.Files() {
		names = append(names, f.Name)
	}
	return names
}

// sameData returns an error if a run is resumed with other data than it started with.
func (t *archive) sameData() error {
	for _, s := range []*data.Split{t.Train, t.Val} {
		changed, err := inputs.ChangedData(t.dir, s)
		if err != nil {
			return fmt.Errorf("resume: %w", err)
		}
		if len(changed) > 0 {
			return fmt.Errorf("resume %s: the data set has changed since the run began: %s of %s; bring back what it "+
				"had, or start a new run with another --run", t.dir, strings.Join(changed, ", "), s.Dir())
		}
	}
	return nil
}

// holdsNoCheckpoint returns an error for a directory that has checkpoints of a run but no configuration.
func (t *archive) holdsNoCheckpoint() error {
	for _, name := range []string{runfs.LastName, runfs.BestName, runfs.AverageName} {
		there, err := t.run.Has(filepath.Join(runfs.CheckpointsName, name))
		if err != nil {
			return err
		}
		if there {
			return fmt.Errorf("%s holds checkpoints but no %s: bring that back to continue the run, "+
				"or choose another directory with --run", t.dir, runfs.ConfigName)
		}
	}
	return nil
}

// sameVocabulary returns an error if a run is resumed with another vocabulary than it started with.
func (t *archive) sameVocabulary() error {
	path := t.run.Path(t.Tokenizer.FileName())
	began, err := inputs.LoadLexicon(path, &t.Cfg.Model)
	if errors.Is(err, fs.ErrNotExist) { // interrupted before it was written
		return nil
	}
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	if began.Hash() != t.Tokenizer.Hash() {
		return fmt.Errorf("resume %s: the vocabulary of the data set has changed since the run began: %s has %d "+
			"words, the data set's has %d; "+
			"continue with the run's own, --set data.vocab=%s, or start a new run with another --run", t.dir, path,
			began.Len(), t.Tokenizer.Len(), path)
	}
	return nil
}

// record writes the files that a run starts with: the fingerprint of the data, the vocabulary and the configuration.
// The configuration is written last, because it makes the directory a run.
func (t *archive) record() error {
	if kept, err := t.run.Has(inputs.DataName); err != nil {
		return err
	} else if !kept {
		marks, err := inputs.Fingerprint(t.Cfg.Data.Dir)
		if err != nil {
			return err
		}
		features, err := inputs.FeaturesOf(t.Cfg.Data.Dir, "train", t.Train.Regions(), t.Train.Dim())
		if err != nil {
			return err
		}
		if err := t.run.WriteJSON(inputs.DataName, inputs.WithFeatures(marks, features)); err != nil {
			return err
		}
	}
	if err := text.SaveTokenizer(t.run.Path(""), t.Tokenizer); err != nil {
		return err
	}
	return t.run.WriteText(runfs.ConfigName, config.Marshal(t.named))
}

// sameRun returns an error if a run is resumed with a configuration that would make it another run.
func sameRun(earlier, now *config.Config) error {
	changed := config.IdentityOf(earlier).Differences(config.IdentityOf(now))
	if len(changed) == 0 {
		return nil
	}
	return fmt.Errorf("the configuration is not the one the run began with: %s; leave it as it was, or start a new "+
		"run with another --run", strings.Join(changed, ", "))
}
