package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// mostKills is how often signals may end the process of a trial before the trial counts as failed.
const mostKills = 3

// work trains a trial in its own process, renews the claim, and records the outcome. The error is an error of the
// worker, not of the trial.
func (w *Worker) work(ctx context.Context, slot int, job Job, claim *Claim) error {
	t := job.State.Trial
	if err := w.Store.begin(t, job.Epochs); err != nil {
		return err
	}
	w.report(Event{Kind: Started, Slot: slot, Job: job})
	code, tail, err := w.train(ctx, slot, job, claim)
	switch {
	case errors.Is(err, errLost):
		return nil
	case err != nil:
		return err
	case code == 0:
		r, err := w.Store.finish(t, job.Epochs, w.Plan.Def.Metric, w.Now())
		if err != nil {
			return w.fail(slot, job, Failure{Error: err.Error(), Exit: code})
		}
		w.report(Event{Kind: Finished, Slot: slot, Job: job, Result: r})
		return nil
	case code == ExitLocked:
		w.report(Event{Kind: Stopped, Slot: slot, Job: job})
		return nil
	case code == ExitInterrupted, ctx.Err() != nil && code < 0:
		select { // a signal to the whole job may reach the trial before the worker
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		if ctx.Err() == nil && w.count(t.ID) >= mostKills { // one of its ranks was killed
			return w.fail(slot, job, Failure{Error: fmt.Sprintf("it was interrupted %d times: %s", mostKills, tail),
				Exit: code})
		}
		w.report(Event{Kind: Stopped, Slot: slot, Job: job})
		return nil
	case code < 0 && w.count(t.ID) < mostKills:
		w.report(Event{Kind: Stopped, Slot: slot, Job: job})
		return nil // the next job continues from its checkpoint
	case code < 0:
		tail = fmt.Sprintf("the process was ended by a signal %d times (out of memory?); the last lines are in %s",
			mostKills, filepath.Join(job.State.Dir, logName))
	}
	return w.fail(slot, job, Failure{Error: tail, Exit: code})
}

func (w *Worker) count(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.killed[id]++
	return w.killed[id]
}

func (w *Worker) fail(slot int, job Job, f Failure) error {
	f.Time = w.Now()
	if err := w.Store.fail(job.State.Trial, f); err != nil {
		return err
	}
	w.report(Event{Kind: Failed, Slot: slot, Job: job, Fail: f})
	return nil
}

type training interface {
	stop() // makes it save its state and end with ExitInterrupted
	kill()
	// wait waits for the end and returns the exit code, -1 for a signal, and the last message.
	wait() (code int, last string, err error)
}

// train trains a trial to the end and returns its exit code and last message. The end of ctx stops the training.
func (w *Worker) train(ctx context.Context, slot int, job Job, claim *Claim) (code int, last string, err error) {
	start := w.start
	if start == nil {
		start = w.child
	}
	t, err := start(slot, job)
	if err != nil {
		return 0, "", err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		code, last, err = t.wait()
	}()
	beat := time.NewTicker(w.Beat)
	defer beat.Stop()
	stop := ctx.Done()
	for lost := false; ; {
		select {
		case <-ended:
			if lost {
				return 0, "", errLost
			}
			return code, last, err
		case <-stop:
			stop = nil
			t.stop()
		case <-beat.C:
			if err := claim.beat(); errors.Is(err, errLost) {
				lost = true
				t.kill()
			} // other errors are retried; if they last, the claim becomes void
		}
	}
}

type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	log   *os.File
	last  *tailWriter
}

func (w *Worker) child(slot int, job Job) (training, error) {
	log, err := os.OpenFile(filepath.Join(job.State.Dir, logName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	c := &child{cmd: w.Child(job.State.Dir, job.Epochs, w.Threads), log: log, last: &tailWriter{file: log}}
	c.cmd.Stdout, c.cmd.Stderr = log, c.last
	if len(w.GPUs) > 0 {
		n := max(1, w.Each)
		first := slot % (len(w.GPUs) / n) * n
		own := strings.Trim(strings.ReplaceAll(fmt.Sprint(w.GPUs[first:first+n]), " ", ","), "[]")
		c.cmd.Env = append(c.cmd.Env, "CUDA_VISIBLE_DEVICES="+own)
	}
	if c.stdin, err = c.cmd.StdinPipe(); err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		log.Close()
		return nil, err
	}
	return c, nil
}

func (c *child) stop() { c.stdin.Close() }

func (c *child) kill() { c.cmd.Process.Kill() } // an error says that it has ended

func (c *child) wait() (code int, last string, err error) {
	defer c.log.Close()
	defer c.stdin.Close()
	var exit *exec.ExitError
	if err := c.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return 0, "", err
	}
	return c.cmd.ProcessState.ExitCode(), c.last.message(), nil
}

// tailWriter writes to a file and keeps the last bytes.
type tailWriter struct {
	file *os.File
	end  []byte
}

// Write implements io.Writer.
func (t *tailWriter) Write(b []byte) (int, error) {
	t.end = append(t.end, b...)
	if extra := len(t.end) - 4096; extra > 0 {
		t.end = append(t.end[:0], t.end[extra:]...)
	}
	return t.file.Write(b)
}

// message returns the last error message of vsetrain, the panic, or the last line.
func (t *tailWriter) message() string {
	text := strings.TrimSpace(string(bytes.ToValidUTF8(t.end, []byte("?"))))
	for _, mark := range []string{"vsetrain: ", "panic: ", "fatal error: "} {
		if i := strings.LastIndex(text, mark); i >= 0 {
			text = strings.TrimPrefix(text[i:], "vsetrain: ")
			if mark != "vsetrain: " {
				text, _, _ = strings.Cut(text, "\n")
			}
			return text
		}
	}
	return text[strings.LastIndexByte(text, '\n')+1:]
}
