package sweep

import (
	"context"
	"errors"
	"os/exec"
	"sync"
	"time"

	"vsetrain/internal/files/atomicfile"
)

// ExitInterrupted is the exit code of a process that saved its state and can be started again (EX_TEMPFAIL of
// sysexits.h).
const ExitInterrupted = 75

// ExitLocked is the exit code of the process of a trial whose directory another process has locked, perhaps for a
// worker whose disk hangs. The trial continues later.
const ExitLocked = 76

// ErrInterrupted is returned by Worker.Run if ctx ends. Started trials are saved and continue at the next start.
var ErrInterrupted = errors.New("sweep interrupted; start it again to continue the trials from their saved state")

// Worker works on the trials of a sweep until none is left for it. Any number of workers on any number of machines may
// share the folder.
type Worker struct {
	Plan     *Plan
	Store    *Store
	Parallel int   // trials at the same time
	Threads  int   // CPU threads of a trial
	GPUs     []int // divided among the slots; an empty list hides no GPUs
	Each     int   // GPUs of a slot; 0 is one
	Index    int   // number of the only trial to work on; negative is all
	Job      string
	// Child returns the process that trains a trial. When its standard input ends, it ends with ExitInterrupted.
	Child  func(dir string, epochs, threads int) *exec.Cmd
	Report func(Event)
	Now    func() time.Time
	Beat   time.Duration // between heartbeats
	Poll   time.Duration // between checks for new jobs

	start  func(slot int, job Job) (training, error) // of a trial; nil starts Child
	mu     sync.Mutex                                // of taking a job, and of report
	killed map[string]int
}

// Event is an event of a trial.
type Event struct {
	Kind   string // Started, Finished, Failed, Stopped
	Slot   int
	Job    Job
	Result Result  // of Finished
	Fail   Failure // of Failed
}

// Kinds of events, in addition to the state Stopped.
const (
	Started  = "started"
	Finished = "finished"
	Failed   = "failed"
)

// Run works until every trial is done or failed. If ctx ends first, the error is ErrInterrupted.
func (w *Worker) Run(ctx context.Context) error {
	w.killed = map[string]int{}
	if err := atomicfile.MkdirAll(w.Store.Dir); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for slot := range w.Parallel {
		all.Go(func() {
			if err := w.slot(ctx, slot); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	switch err := context.Cause(ctx); {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return ErrInterrupted
	default:
		return err
	}
}

func (w *Worker) slot(ctx context.Context, slot int) error {
	for ctx.Err() == nil {
		job, claim, wait, err := w.take()
		switch {
		case err != nil:
			return err
		case job != nil:
			err := w.work(ctx, slot, *job, claim)
			if e := claim.release(); err == nil {
				err = e
			}
			if err != nil {
				return err
			}
		case !wait:
			return nil
		default:
			select {
			case <-ctx.Done():
			case <-time.After(w.Poll):
			}
		}
	}
	return nil
}

// take chooses the next job and claims its trial. Without a job, the third result reports whether one may come later.
func (w *Worker) take() (*Job, *Claim, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		states, err := w.states()
		if err != nil {
			return nil, nil, false, err
		}
		job, wait := w.Plan.Def.next(states)
		if job == nil {
			if w.Plan.Def.Method != TPE || len(groups(states)) >= w.Plan.Points {
				return nil, nil, wait, nil
			}
			if err := w.Plan.propose(w.Store, states); errors.Is(err, errExhausted) {
				return nil, nil, wait, nil
			} else if err != nil {
				return nil, nil, false, err
			}
			continue
		}
		if err := atomicfile.MkdirAll(job.State.Dir); err != nil {
			return nil, nil, false, err
		}
		claim, err := w.Store.claim(job.State, job.Epochs, w.Job, w.Now())
		if err != nil {
			return nil, nil, false, err
		}
		if claim == nil { // another worker was faster
			return nil, nil, true, nil
		}
		now, err := w.Store.Read([]Trial{job.State.Trial}) // it may have changed before the claim
		if err != nil {
			return nil, nil, false, errors.Join(err, claim.release())
		}
		if now[0].Failed == nil && !now[0].done(job.Epochs) && now[0].Target <= job.Epochs {
			return job, claim, false, nil
		}
		if err := claim.release(); err != nil {
			return nil, nil, false, err
		}
	}
}

// states reads the trials that this worker may work on.
func (w *Worker) states() ([]*State, error) {
	trials, err := w.Plan.trials(w.Store)
	if err != nil {
		return nil, err
	}
	if w.Index >= 0 {
		if w.Index >= len(trials) {
			return nil, nil
		}
		trials = trials[w.Index : w.Index+1]
	}
	return w.Store.Read(trials)
}

func (w *Worker) report(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Report != nil {
		w.Report(e)
	}
}
