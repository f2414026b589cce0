package tracking

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/regular"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/mlflow"
	"vsetrain/internal/run/records"
)

// StateName is the file of a run directory that records what an MLflow server already has.
const StateName = "mlflow.json"

// trackedFiles are the files of a run directory that are sent with it, if they exist.
var trackedFiles = []string{runfs.ConfigName, runfs.EnvName, runfs.MetricsName, runfs.TestName}

// Times of tracking during a training.
const (
	trackEvery   = 2 * time.Second  // between two transmissions
	trackTimeout = 10 * time.Second // of one request
	trackEnd     = time.Minute      // for everything that is left at the end of a training
	trackRetry   = 5 * time.Second  // after the first failure; doubled after each further one, up to a minute
)

// trackState is the content of StateName. It records positions and not line numbers, because resuming removes lines and
// writes equal ones again.
type trackState struct {
	URL        string         `json:"url"`
	Experiment string         `json:"experiment_id"`
	Run        mlflow.RunInfo `json:"run"`
	Described  bool           `json:"described"` // settings and tags are there
	Step       int64          `json:"step"`      // records up to this step were sent, 0 none
	Validated  bool           `json:"validated"` // the validation at that step too
}

// Tracker sends the records of a run directory to an MLflow server. It reads them from metrics.jsonl, so it keeps only
// one request in memory, no matter how long the server is unreachable.
type Tracker struct {
	dir    string
	cfg    *config.Config
	target mlflow.Target
	client *mlflow.Client
	state  trackState
	found  bool  // the run is known to be on the server
	offset int64 // first byte of the log that has not been read

	kick chan struct{} // signals a new record
	quit chan struct{}
	done chan error // the error that kept the last records from the server
	said chan error // the one warning
	stop context.CancelFunc
}

func newTracker(dir string, c *config.Config, target mlflow.Target, timeout time.Duration) (*Tracker, error) {
	client, err := mlflow.New(target, timeout)
	if err != nil {
		return nil, err
	}
	t := &Tracker{dir: dir, cfg: c, target: target, client: client, kick: make(chan struct{}, 1),
		quit: make(chan struct{}), done: make(chan error, 1), said: make(chan error, 1)}
	b, err := integrity.ReadSealed(filepath.Join(dir, StateName), 1<<16, "the state of tracking")
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		var s trackState
		if err := json.Unmarshal(b, &s); err != nil {
			return nil, fmt.Errorf("%s: %w; remove the file to send the run as a new one",
				filepath.Join(dir, StateName), err)
		}
		if s.URL == target.URL {
			t.state = s
		}
	}
	return t, nil
}

// Start sends the records of the run in a directory in the background, until End is called.
func Start(dir string, c *config.Config, target mlflow.Target) (*Tracker, error) {
	t, err := newTracker(dir, c, target, trackTimeout)
	if err == nil {
		t.start()
		t.Wake()
	}
	return t, err
}

func (t *Tracker) start() {
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	go func() {
		wait := trackRetry
		for {
			select {
			case <-t.quit:
				t.done <- t.sync(ctx)
				return
			case <-t.kick:
			}
			pause := trackEvery
			if err := t.sync(ctx); err != nil {
				select {
				case t.said <- fmt.Errorf("MLflow at %s: %w; training continues, and missing records are sent when "+
					"the server answers again", t.target.URL, err):
				default: // reported before
				}
				pause, wait = wait, min(2*wait, time.Minute)
				t.Wake()
			} else {
				wait = trackRetry
			}
			select {
			case <-t.quit:
				t.done <- t.sync(ctx)
				return
			case <-time.After(pause):
			}
		}
	}()
}

// Wake signals that there are records to send; it never blocks.
func (t *Tracker) Wake() {
	select {
	case t.kick <- struct{}{}:
	default: // already signalled
	}
}

// Unanswered returns why the last request to the server failed, nil if it succeeded.
func (t *Tracker) Unanswered() error {
	select {
	case err := <-t.said:
		return err
	default:
		return nil
	}
}

// End sends the remaining records, the files and the status, and gives up after trackEnd.
func (t *Tracker) End(s mlflow.Status, now time.Time) error {
	late := time.AfterFunc(trackEnd, t.stop)
	defer late.Stop()
	defer t.stop()
	close(t.quit)
	if err := <-t.done; err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), trackEnd)
	defer cancel()
	return t.finish(ctx, s, now, trackedFiles)
}

// finish sends files and the status of a run whose records are on the server.
func (t *Tracker) finish(ctx context.Context, s mlflow.Status, end time.Time, files []string) error {
	if err := t.client.SetStatus(ctx, t.state.Run.ID, s, end); err != nil {
		return err
	}
	for _, name := range files {
		if err := t.put(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tracker) put(ctx context.Context, name string) error {
	f, _, err := regular.Open(filepath.Join(t.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := t.client.PutFile(ctx, t.state.Run, filepath.ToSlash(name), f); err != nil {
		return fmt.Errorf("send %s: %w", name, err)
	}
	return nil
}

// sync sends everything that the server does not have.
func (t *Tracker) sync(ctx context.Context) error {
	if err := t.open(ctx); err != nil {
		return err
	}
	for {
		n, err := t.sendRecords(ctx)
		if err != nil || n == 0 {
			return err
		}
	}
}

// open finds the run on the server, or creates it with its settings.
func (t *Tracker) open(ctx context.Context) error {
	if t.found {
		return nil
	}
	env := lastSession(t.dir)
	if t.state.Run.ID != "" {
		info, there, err := t.client.FindRun(ctx, t.state.Run.ID)
		if err != nil {
			return err
		}
		if !there { // deleted on the server: send it again
			t.state, t.offset = trackState{}, 0
		} else {
			t.state.Run = info
			if err := t.client.SetStatus(ctx, info.ID, mlflow.Running, time.Time{}); err != nil {
				return err
			}
		}
	}
	if t.state.Run.ID == "" {
		id, err := t.client.Experiment(ctx)
		if err != nil {
			return err
		}
		abs, err := filepath.Abs(t.dir)
		if err != nil {
			return err
		}
		info, err := t.client.CreateRun(ctx, id, filepath.Base(abs), env.Started)
		if err != nil {
			return err
		}
		t.state = trackState{URL: t.target.URL, Experiment: id, Run: info}
		if err := t.keep(); err != nil {
			return err
		}
	}
	if !t.state.Described {
		if err := t.describe(ctx, env); err != nil {
			return err
		}
		t.state.Described = true
		if err := t.keep(); err != nil {
			return err
		}
	}
	t.found = true
	return nil
}

// describe sends settings and tags.
func (t *Tracker) describe(ctx context.Context, env runfs.Env) error {
	var params []mlflow.Entry
	settings := config.Settings(t.cfg)
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if text := fmt.Sprint(settings[key]); text != "" {
			params = append(params, mlflow.Entry{Key: key, Value: text[:min(len(text), 500)]})
		}
	}
	if err := t.client.LogParams(ctx, t.state.Run.ID, params); err != nil {
		return err
	}
	tags := []mlflow.Entry{{Key: "mlflow.source.name", Value: "vsetrain"}, {Key: "mlflow.source.type", Value: "LOCAL"},
		{Key: "vsetrain.version", Value: env.Version}, {Key: "vsetrain.device", Value: env.Device},
		{Key: "mlflow.source.git.commit", Value: env.Commit}}
	return t.client.LogTags(ctx, t.state.Run.ID,
		slices.DeleteFunc(tags, func(e mlflow.Entry) bool { return e.Value == "" }))
}

// lastSession returns the last session of a run; without a readable env.json, an empty one that starts now.
func lastSession(dir string) runfs.Env {
	sessions, err := runfs.ReadSessions(dir)
	if err != nil || len(sessions) == 0 {
		return runfs.Env{Started: time.Now()}
	}
	return sessions[len(sessions)-1]
}

// keep saves the state.
func (t *Tracker) keep() error {
	return integrity.WriteJSON(filepath.Join(t.dir, StateName), t.state)
}

// maxPoints is the maximum number of metrics in one transmission.
const maxPoints = 1000

// sendRecords sends the next records of the log and returns the number of lines it read.
func (t *Tracker) sendRecords(ctx context.Context) (lines int, err error) {
	path := filepath.Join(t.dir, runfs.MetricsName)
	f, _, err := regular.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if _, err := f.Seek(t.offset, io.SeekStart); err != nil {
		return 0, err
	}
	in := bufio.NewReader(f)
	var points []mlflow.Metric
	next := t.state
	offset := t.offset
	for len(points) < maxPoints {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			break // the rest of the line is still being written
		}
		if err != nil {
			return 0, err
		}
		more, err := next.take(line)
		if err != nil {
			return 0, fmt.Errorf("%s at byte %d: %w", path, offset, err)
		}
		points = append(points, more...)
		offset += int64(len(line))
		lines++
	}
	if err := t.client.LogMetrics(ctx, t.state.Run.ID, points); err != nil {
		return 0, err
	}
	t.offset = offset
	if t.state == next {
		return lines, nil
	}
	t.state = next
	return lines, t.keep()
}

// take returns the metrics of a line that have not been sent, and marks them as sent.
func (s *trackState) take(line []byte) ([]mlflow.Metric, error) {
	r, err := records.Read(line)
	if err != nil {
		return nil, err
	}
	validation := r.Kind == records.KindValidation
	if r.Step < s.Step || r.Step == s.Step && (s.Validated || !validation) {
		return nil, nil
	}
	s.Step, s.Validated = r.Step, validation
	at := int64(0)
	if !r.Time.IsZero() {
		at = r.Time.UnixMilli()
	}
	var out []mlflow.Metric
	for _, key := range slices.Sorted(maps.Keys(r.Scalars)) {
		out = append(out, mlflow.Metric{Key: key, Value: r.Scalars[key], Timestamp: at, Step: r.Step})
	}
	return out, nil
}
