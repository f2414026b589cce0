package sweep

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/runfs"
	"vsetrain/lab/crash"
	"vsetrain/lab/try"
)

// atOnce is a trial that is trained when its worker waits for it. What it logs is lasting.
type atOnce struct{ job Job }

func (a atOnce) stop() {}

func (a atOnce) kill() {}

func (a atOnce) wait() (code int, last string, err error) {
	var log strings.Builder
	for e := 1; e <= lastOf(a.job.State.ID, a.job.Epochs); e++ {
		log.WriteString(line(a.job.State.ID, e))
	}
	path := filepath.Join(a.job.State.Dir, runfs.MetricsName)
	if err := atomicfile.WriteFile(path, atomicfile.Bytes([]byte(log.String()))); err != nil {
		return 1, err.Error(), nil
	}
	return 0, "", nil
}

// A worker of a sweep whose machine has a power failure, or whose calls fail, at any moment: around each claim, each
// beginning and each result. The next one, on this machine or on another, which waits until the claim is void, finishes
// the sweep: no trial is lost, and none has another result. Trials that failed are tried again.
func TestDisturbedSweeps(t *testing.T) {
	for i, text := range []string{"set: {train.epochs: 2}\naxes: [{param: train.batch, values: [16, 32, 64]}]\n",
		"method: asha\ntrials: 4\nasha: {rungs: [1, 2], factor: 2}\n" +
			"axes: [{param: train.batch, values: [8, 16, 32, 64]}]\n",
	} {
		plan, _ := planOf(t, text)
		dir := filepath.Join(try.MemoryDir(t), "sweep")
		try.Do(t, atomicfile.MkdirAll(dir))
		lives := 0
		run := func(machine string) error {
			lives++
			p, life := *plan, lives // which keeps what it proposed
			store := &Store{Dir: dir, Stale: 2 * time.Millisecond,
				at: &place{machine, machine, life, func(pid int) bool { return pid == life }}}
			w := &Worker{Plan: &p, Store: store, Parallel: 1, Threads: 1, Index: -1, Beat: time.Hour,
				Poll:  time.Millisecond,
				Now:   func() time.Time { return time.Time{} },
				start: func(_ int, job Job) (training, error) { return atOnce{job}, nil }}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			err := w.Run(ctx)
			states, readErr := store.Read(p.Trials)
			for _, st := range states {
				if err == nil && st.Failed != nil {
					err = errors.New(st.Failed.Error)
				}
			}
			return errors.Join(err, readErr)
		}
		again := func() error {
			store := &Store{Dir: dir, Stale: time.Minute}
			states, err := store.Read(plan.Trials)
			for _, st := range states {
				err = errors.Join(err, store.Retry(st))
			}
			if err != nil {
				return err
			}
			return run([]string{"this", "another"}[lives%2])
		}
		crash.Disturb(t, "sweep run, "+plan.Def.Method, 2-i, &crash.Program{Dir: dir,
			Run: func() error { return run("this") }, Again: again,
			Done: func() error {
				if list := amiss(plan, &Store{Dir: dir, Stale: time.Minute}); list != nil {
					return errors.New(strings.Join(list, "; "))
				}
				return nil
			}})
	}
}
