package training

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"vsetrain/data"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/pretrained"
	"vsetrain/internal/run/records"
	"vsetrain/models"
	"vsetrain/train"
)

// restore reads the last checkpoint, and checks that it belongs to this run and that the other files fit it.
func (t *archive) restore(path string) (train.Position, error) {
	c, err := models.OpenCheckpoint(path)
	if err != nil {
		return train.Position{}, fmt.Errorf("resume: %w", err)
	}
	defer c.Close()
	if c.Info.Vocabulary != t.Tokenizer.Hash() {
		return train.Position{}, fmt.Errorf("resume: %s was trained with another vocabulary than %s", path,
			t.run.Path(t.Tokenizer.FileName()))
	}
	if err := t.samePairs(c); err != nil {
		return train.Position{}, err
	}
	var st pretrained.State
	if err := t.Step.RestoreState(c, &st); err != nil {
		return st.Position, fmt.Errorf("resume: %w", err)
	}
	if n := t.Train.NumCaptions(); st.Captions != 0 && st.Captions != n {
		return st.Position, fmt.Errorf("resume: the run began with %d training captions, %s has %d now", st.Captions,
			t.Cfg.Data.Dir, n)
	}
	batches, err := t.batches()
	if err != nil {
		return st.Position, err
	}
	if err := st.Position.Check(batches); err != nil {
		return st.Position, fmt.Errorf("resume: %s: broken training state: %w", path, err)
	}
	if err := t.bestFits(st.Position, batches); err != nil {
		return st.Position, err
	}
	t.kept = st.Kept
	return st.Position, t.logFits(&st)
}

// samePairs returns an error if a run would be resumed with other wrong captions or other mined negatives than its
// checkpoint has.
func (t *archive) samePairs(c *models.Checkpoint) error {
	if c.Info.Mined != t.Mined {
		return fmt.Errorf("resume: %s was trained with mined negatives of SHA-256 %.12q, data.mined is %.12q; bring "+
			"the file of the run back, or start a new run with another --run", c.Path, c.Info.Mined, t.Mined)
	}
	if err := sameNoise(c, t.Noise); err != nil {
		return fmt.Errorf("resume: %w; bring that of the run back, or start a new run with another --run", err)
	}
	return nil
}

// sameNoise returns an error if the noise index of a checkpoint differs from the noise index of the run.
func sameNoise(c *models.Checkpoint, now *runfs.NoiseIndex) error {
	began := c.Info.Noise
	if began == nil && now == nil || began != nil && now != nil && began.SHA256 == now.SHA256 {
		return nil
	}
	name := func(n *runfs.NoiseIndex) string {
		if n == nil {
			return "no noise index"
		}
		return n.String()
	}
	return fmt.Errorf("%s was trained with %s, and data.noise_index is another with %s", c.Path, name(began), name(now))
}

// remember gives the loss what it learned about each caption in an earlier run with the same captions.
func (t *archive) remember(path string) error {
	c, err := models.OpenCheckpoint(path)
	if err != nil {
		return err
	}
	defer c.Close()
	var st pretrained.State
	if len(c.Info.Train) == 0 {
		return fmt.Errorf("%s holds weights only; name the %s of the earlier run", path, runfs.LastName)
	}
	if err := json.Unmarshal(c.Info.Train, &st); err != nil {
		return fmt.Errorf("%s: broken training state: %w", path, err)
	}
	if n := t.Train.NumCaptions(); st.Captions != n {
		return fmt.Errorf("%s was trained with %d captions, %s has %d; name a run on the same data", path, st.Captions,
			t.Cfg.Data.Dir, n)
	}
	if err := sameNoise(c, t.Noise); err != nil {
		return fmt.Errorf("%w; name a run with the noise index of this one", err)
	}
	return train.Remember(t.Step, c)
}

// batches returns the number of batches of an epoch.
func (t *archive) batches() (int, error) {
	o := t.Cfg.Train
	s, err := data.NewSampler(t.Train.NumCaptions(), o.Batch, t.Cfg.Seed, o.Shuffle, o.DropLast)
	if err != nil {
		return 0, err
	}
	return s.BatchesPerEpoch(), nil
}

// bestFits checks the best checkpoint of a run at a position. A session that was killed while it saved may have left
// one of the next validation. One of a later step belongs to a last checkpoint that is missing.
func (t *archive) bestFits(p train.Position, batches int) error {
	path := t.run.Path(runfs.CheckpointsName, runfs.BestName)
	best, err := t.stepOfBest()
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	if best == 0 && p.BestStep > 0 {
		t.Warnings = append(t.Warnings, fmt.Errorf("%s, the best weights so far, of step %d, is missing: bring it "+
			"back if there is a copy; "+
			"without one it is there again when a validation scores above %.2f", path, p.BestStep, p.Best))
	}
	if best > t.Cfg.Train.NextValidation(&p, batches) {
		return fmt.Errorf("resume: %s is of step %d, but %s of step %d: it is an older one; bring back the one that "+
			"belongs to the run, "+
			"or move %s away and resume, which repeats the steps since %d", path, best, runfs.LastName, p.Step,
			runfs.BestName, p.Step)
	}
	return nil
}

// logFits returns an error for a log that has lost lines since the checkpoint was written. A missing log is only a
// warning: whoever deletes it wants to continue without it.
func (t *archive) logFits(st *pretrained.State) error {
	path := t.run.Path(runfs.MetricsName)
	if t.counted = st.Lines; t.counted == 0 {
		t.counted = runfs.All // unknown
	}
	n, err := st.Check(path, runfs.UpTo(path, st.Position.Step, records.Undone(st.Position)...))
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("resume: %w", err)
	case n == 0 && st.Lines > 0:
		t.Warnings = append(t.Warnings, fmt.Errorf("%s has lost its %d lines up to step %d: its curves begin there",
			path, st.Lines, st.Position.Step))
	case n < st.Lines:
		return fmt.Errorf("resume: %s has %d lines up to step %d, where the checkpoint was written after %d: it was "+
			"cut off; "+
			"bring the whole file back, or remove it to go on without the curves so far", path, n, st.Position.Step,
			st.Lines)
	}
	return nil
}

// neverSaved returns an error if a run without a last checkpoint once had one: it went beyond its first validation.
// Before that, the log has at most one validation, at its end, and no best checkpoint is of a later step. The log may
// be shorter than that checkpoint implies, because a session that starts over truncates it.
func (t *archive) neverSaved() error {
	var last, validation int64 // steps
	validations := 0
	path := t.run.Path(runfs.MetricsName)
	_, err := runfs.ReadLog(path, t.counted, func(line []byte, number int) (bool, error) {
		var at struct {
			Kind string
			Step int64
		}
		if err := json.Unmarshal(line, &at); err != nil {
			return false, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		last = max(last, at.Step)
		if at.Kind == records.KindValidation {
			validation = at.Step
			validations++
		}
		return true, nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("resume: %w", err)
	}
	best, err := t.stepOfBest()
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	batches, err := t.batches()
	if err != nil {
		return err
	}
	first := max(validation, t.Cfg.Train.NextValidation(&train.Position{}, batches))
	if (validations == 0 || validations == 1 && last == validation) && best <= first {
		return nil
	}
	remedy := "start a new run with another --run"
	if best > 0 {
		remedy = "start a new run from its best weights with another --run and --set train.init_from=" +
			t.run.Path(runfs.CheckpointsName, runfs.BestName)
	}
	return fmt.Errorf("resume: %s is missing, though the run had come to step %d: bring it back, or %s",
		t.run.Path(runfs.CheckpointsName, runfs.LastName), max(last, best), remedy)
}
