package training

import (
	"fmt"

	"vsetrain/data/text"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/placement"
	"vsetrain/internal/run/pretrained"
	"vsetrain/internal/run/records"
	"vsetrain/internal/run/tracking"
	"vsetrain/train"
)

// training is a session of a run.
type training struct {
	Request
	archive
	started    []string // working directories of earlier sessions
	loop       *train.Loop
	tracker    *tracking.Tracker // nil without a server
	doubts     []error           // about settings that do not go together (config.Together)
	untracked  bool              // the user has been told that it does not answer
	warned     bool
	gauge      gauge
	attention  attention
	coverage   [2]text.Coverage // see Plan
	callByCall string           // what the plan said
}

func newTraining(r Request) *training {
	c := *r.Config
	c.Optim.Settle(c.Train.Epochs)
	if r.Observer == nil || !r.first() {
		r.Observer = Unobserved{}
	}
	return &training{Request: r, archive: archive{dir: r.RunDir, resume: r.Resume, told: r.Saved, named: &c,
		Setup: placement.Setup{Cfg: &c, Copying: r.Copying}}}
}

// archive is the run directory of a training.
type archive struct {
	placement.Setup
	named      *config.Config // as it was given; Cfg has the paths of a resumed run located
	run        *runfs.Dir
	logs       *records.Log
	perEpoch   int // batches
	dir        string
	resume     bool
	told       func(step int64)  // Request.Saved
	saved      int64             // step of the last checkpoint, 0 without one
	counted    int               // lines of the log that the last checkpoint counts, 0 without one
	kept       []pretrained.Kept // checkpoints of the best validations so far (train.keep)
	background background
}

// savedAt records that the state at a step is safe on disk.
func (t *archive) savedAt(step int64) {
	t.saved = step
	if t.told != nil {
		t.told(step)
	}
}

// survives describes which part of a run is safe on disk, and how to continue from there.
func (t *archive) survives() string {
	if t.saved == 0 {
		return "no checkpoint had been written yet: start the run again"
	}
	return fmt.Sprintf("the checkpoint of step %d is saved: go on with vsetrain train --resume --run %s", t.saved,
		t.run.Path())
}

func (t *archive) close() {
	t.Setup.Close()
	t.background.close()
	if t.run != nil {
		t.run.Close()
	}
}
