package training

import (
	"fmt"
	"os"
	"path/filepath"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/runfs"
	"vsetrain/train"
)

// checkpointSizes returns the sizes in bytes of the checkpoints of a run: of the weights alone (best, averaged and kept
// ones), and of last, which includes the state of the optimizer.
func (t *archive) checkpointSizes() (weights, last int64) {
	element := int64(4)
	if t.Device.Float64() {
		element = 8
	}
	params := t.Model.Instance.Params
	best := element * int64(params.Count())
	last = best + 2*element*int64(params.OptimisedSize())
	weights = best
	if t.Step.Averages() {
		last += element * int64(params.OptimisedSize())
		weights += best
	}
	if k := t.Cfg.Train.Keep; k > 1 {
		weights += int64(k) * best
	}
	return weights, last
}

// checkMemory warns if main memory cannot hold what every step needs, on a device that computes there: the weights, two
// moments for each optimized weight, and their average if there is one. Values and inputs of a step come on top.
func (t *training) checkMemory() {
	if _, own := device.As[device.Resident](t.Device); own || t.FreeMemory == nil {
		return
	}
	free := t.FreeMemory()
	_, need := t.checkpointSizes() // last holds just these
	if free > 0 && need > free {
		t.Warnings = append(t.Warnings, fmt.Errorf("weights and optimiser alone need %s of memory, and %s are "+
			"available: the run may be ended by the system; free some memory, or train a smaller network "+
			"(model.embed_dim, model.word_dim)", device.FormatBytes(need), device.FormatBytes(free)))
	}
}

// makeRoom allocates the memory for a copy of the state at the first step of a session, unless the only validation left
// is the last one. If main memory cannot hold that much twice, it warns.
func (t *training) makeRoom() {
	_, validations := t.Cfg.Train.Planned(t.perEpoch)
	if t.background.looked || validations < 2 {
		return
	}
	t.background.looked = true
	free := int64(0)
	if t.FreeMemory != nil {
		free = t.FreeMemory()
	}
	_, need := t.checkpointSizes()
	if free == 0 || free >= 2*need {
		var err error
		if t.background.memory, err = train.NewCopy(t.Step); err == nil {
			return
		}
		t.background.memory = nil
	}
	t.Observer.Warning(fmt.Errorf("training stands while a checkpoint is written: to go on meanwhile takes twice %s "+
		"of main memory, and %s are available", device.FormatBytes(need), device.FormatBytes(free)))
}

// freeDisk returns the bytes that can still be written to the run directory, or to the folder in which it will be made;
// 0 means unknown.
func (t *training) freeDisk() (int64, error) {
	if t.FreeDisk == nil {
		return 0, nil
	}
	dir := filepath.Clean(t.RunDir)
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	return t.FreeDisk(dir)
}

// checkDisk compares the size of the checkpoints with the free space on the disk before anything is computed. It
// returns an error if the first checkpoints cannot be written, and warns if later ones cannot: these are written beside
// those they replace.
func (t *training) checkDisk() error {
	free, err := t.freeDisk()
	if err != nil || free == 0 { // unknown
		return nil
	}
	weights, last := t.checkpointSizes()
	first := int64(0)
	for _, f := range []struct {
		name string
		size int64
	}{{runfs.BestName, weights}, {runfs.LastName, last}} {
		there, err := runfs.Exists(filepath.Join(t.RunDir, runfs.CheckpointsName, f.name))
		if err != nil {
			return err
		}
		if !there {
			first += f.size
		}
	}
	say := func(need int64, what string) error {
		return fmt.Errorf("%s has %s free, %s need %s (weights %s, last with the state of the optimiser %s): "+
			"free some space, or choose a directory on another disk with --run",
			t.RunDir, device.FormatBytes(free), what, device.FormatBytes(need), device.FormatBytes(weights),
			device.FormatBytes(last))
	}
	switch most := max(first, last); {
	case free < most:
		return say(most, "the checkpoints of the run")
	case free < first+last:
		t.Warnings = append(t.Warnings, say(first+last, "the checkpoints and a new one beside them"))
	}
	return nil
}
