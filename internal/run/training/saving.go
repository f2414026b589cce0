package training

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/disk"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/pretrained"
	"vsetrain/models"
	"vsetrain/train"
)

// save is the loop's hook. Checkpoints are written from a copy of the state while the next steps run. Without one
// the training stands meanwhile: so it does at the end of a training or session, which has nothing else to do, and for
// the first checkpoint of several ranks, which cannot wait (background.first) within a step.
func (t *archive) save(p train.Position, v *train.ValidationInfo) error {
	if err := t.background.settle(true); err != nil {
		return err
	}
	memory, first := t.background.memory, t.saved == 0
	if _, ranks := device.RankOf(t.Device); v == nil || t.Cfg.Train.Finished(&p) || ranks > 1 && first {
		memory = nil
	}
	from, err := t.Step.Snapshot(memory)
	if err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	state := &pretrained.State{State: train.State{Position: p, Seed: t.Cfg.Seed}, Captions: t.Train.NumCaptions(),
		Counted: t.logs.Counted()}
	if memory == nil {
		return t.write(from, state, v)
	}
	t.background.begin(first, func() error { return t.write(from, state, v) })
	return nil
}

// write saves the state after the validation v, which may be nil: first the weights, then the state for resuming.
// Checkpoints that are not kept are removed last. After a kill in between, the steps since the earlier state are
// repeated and lead to the same files.
func (t *archive) write(from *train.Snapshot, state *pretrained.State, v *train.ValidationInfo) (err error) {
	if err := t.logs.Sync(); err != nil { // before the checkpoints, which count its lines
		return err
	}
	p := state.Position
	if err := t.saveBest(from, p, v); err != nil {
		return err
	}
	if state.Kept, err = t.saveKept(from, p, v); err != nil {
		return err
	}
	score := 0.0 // of these weights
	if v != nil {
		score = v.Score
	}
	if err := state.NameParts(t.run.Path(), t.named); err != nil {
		return err
	}
	err = t.run.WriteFile(runfs.CheckpointsName+"/"+runfs.LastName, func(w io.Writer) error {
		return from.WriteState(w, t.info(p, score), state)
	})
	if err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	t.kept = state.Kept
	t.savedAt(p.Step)
	return t.removeOthers(p)
}

func (t *archive) info(p train.Position, score float64) models.Info {
	return models.Info{Vocabulary: t.Tokenizer.Hash(), Step: p.Step, Epoch: float64(p.Step) / float64(t.perEpoch),
		Score: score}
}

// saveWeights writes the weights, or their average, into a checkpoint.
func (t *archive) saveWeights(from *train.Snapshot, name string, info models.Info) error {
	err := t.run.WriteFile(runfs.CheckpointsName+"/"+name, func(w io.Writer) error {
		return from.WriteWeights(w, info, name == runfs.AverageName)
	})
	if err != nil {
		return fmt.Errorf("save the checkpoint %s: %w", name, err)
	}
	return nil
}

// saveBest writes the weights and the averaged weights if they are the best so far.
func (t *archive) saveBest(from *train.Snapshot, p train.Position, v *train.ValidationInfo) error {
	if v != nil && v.Better {
		if best, _ := t.stepOfBest(); best > p.Step { // a broken one is replaced
			return fmt.Errorf("%s is of step %d and is not replaced by the weights of step %d: move it away, "+
				"or let the run go on to step %[2]d (train.max_steps, train.epochs), and continue with --resume",
				t.run.Path(runfs.CheckpointsName, runfs.BestName), best, p.Step)
		}
		if err := t.saveWeights(from, runfs.BestName, t.info(p, p.Best)); err != nil {
			return err
		}
	}
	if v != nil && v.Average != nil && v.Average.Better {
		return t.saveWeights(from, runfs.AverageName, t.info(p, p.BestAverage))
	}
	return nil
}

// stepOfBest is the step of the best checkpoint on disk, 0 if there is none. A session that was killed while it saved
// may have written one of a later step than the position of the run, which determines the best one.
func (t *archive) stepOfBest() (int64, error) {
	path := t.run.Path(runfs.CheckpointsName, runfs.BestName)
	if there, err := runfs.Exists(path); err != nil || !there {
		return 0, err
	}
	info, err := models.ReadInfo(path)
	return info.Step, err
}

// saveKept writes the weights after a validation that is among the best train.keep ones, and returns those to keep, the
// best first. Of equal scores the earlier is the better.
func (t *archive) saveKept(from *train.Snapshot, p train.Position, v *train.ValidationInfo) ([]pretrained.Kept,
	error) {
	if t.Cfg.Train.Keep < 2 || v == nil {
		return t.kept, nil
	}
	kept := append(slices.Clone(t.kept), pretrained.Kept{Step: p.Step, Score: v.Score})
	slices.SortStableFunc(kept, func(a, b pretrained.Kept) int { return cmp.Compare(b.Score, a.Score) })
	kept = kept[:min(len(kept), t.Cfg.Train.Keep)]
	if !slices.ContainsFunc(kept, func(k pretrained.Kept) bool { return k.Step == p.Step }) {
		return kept, nil
	}
	return kept, t.saveWeights(from, pretrained.Kept{Step: p.Step}.Name(), t.info(p, v.Score))
}

// removeOthers removes the checkpoints of steps up to a position that are not kept. Checkpoints of later steps come
// from a killed session and will be written again.
func (t *archive) removeOthers(p train.Position) error {
	if t.Cfg.Train.Keep < 2 {
		return nil
	}
	files, err := filepath.Glob(t.run.Path(runfs.CheckpointsName, "step-*.safetensors"))
	if err != nil {
		return err
	}
	for _, f := range files {
		var step int64
		if _, err := fmt.Sscanf(filepath.Base(f), "step-%d.safetensors", &step); err != nil ||
			filepath.Base(f) != (pretrained.Kept{Step: step}).Name() || step > p.Step ||
			slices.ContainsFunc(t.kept, func(k pretrained.Kept) bool { return k.Step == step }) {
			continue
		}
		if err := disk.Now().Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a checkpoint that is no longer among the best: %w", err)
		}
	}
	return nil
}
