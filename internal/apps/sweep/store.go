package sweep

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/disk"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/records"
)

// Names inside the folder of a sweep and of a trial.
const (
	trialsName  = "trials"
	pointsName  = "points"
	trialConfig = "trial.yaml"
	trialName   = "trial.json"
	targetName  = "target"
	failedName  = "failed.json"
	claimName   = "claim.json"
	logName     = "trial.log"
)

// Result is the result of a trial after some epochs.
type Result struct {
	Epochs    int                      `json:"epochs"` // the trial was trained to
	Metric    string                   `json:"metric"`
	Score     float64                  `json:"score"`      // largest metric of all validations up to Epochs
	BestEpoch float64                  `json:"best_epoch"` // of that validation
	Best      records.ValidationRecord `json:"best"`
	Finished  time.Time                `json:"finished"`
}

// Failure is why a trial failed.
type Failure struct {
	Error string    `json:"error"`
	Exit  int       `json:"exit"` // code of the process, -1 where a signal ended it
	Time  time.Time `json:"time"`
}

// maxFile bounds the files of a sweep in bytes; they have a few hundred.
const maxFile = 1 << 20

// State is the state of a trial according to its files.
type State struct {
	Trial
	Dir     string
	Target  int            // epochs to train to; 0 before the trial has begun
	Results map[int]Result // by epochs
	Failed  *Failure
	Claim   *Claim // of a living process
}

func (s *State) done(epochs int) bool {
	_, ok := s.Results[epochs]
	return ok
}

// Last returns the result of the most epochs; ok is false if there is none.
func (s *State) Last() (last Result, ok bool) {
	for _, r := range s.Results {
		if !ok || r.Epochs > last.Epochs {
			last, ok = r, true
		}
	}
	return last, ok
}

// Store reads and writes the folder of a sweep.
type Store struct {
	Dir   string
	Stale time.Duration // a claim without a heartbeat for this time is void
	at    *place        // set by tests; nil is the place of this process
}

func (s *Store) trialDir(id string) string { return filepath.Join(s.Dir, trialsName, id) }

// Read returns the state of every trial, in their order.
func (s *Store) Read(trials []Trial) ([]*State, error) {
	out := make([]*State, len(trials))
	clock := &clock{dir: s.Dir}
	for i, t := range trials {
		st, err := s.read(t, clock)
		if err != nil {
			return nil, err
		}
		out[i] = st
	}
	return out, nil
}

func (s *Store) read(t Trial, clock *clock) (*State, error) {
	st := &State{Trial: t, Dir: s.trialDir(t.ID), Results: map[int]Result{}}
	entries, err := os.ReadDir(st.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return st, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(st.Dir, e.Name())
		var err error
		switch name := e.Name(); {
		case name == targetName:
			var b []byte
			if b, err = readSmall(path); err == nil {
				st.Target, err = parseTarget(b)
			}
		case name == failedName:
			st.Failed = &Failure{}
			err = readJSON(path, st.Failed)
		case name == claimName:
			st.Claim, err = s.living(path, clock)
		case strings.HasPrefix(name, "result-") && strings.HasSuffix(name, ".json"):
			var r Result
			if err = readJSON(path, &r); err == nil {
				st.Results[r.Epochs] = r
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // gone since the folder was read
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return st, nil
}

// parseTarget reads the epochs that a trial is to be trained to.
func parseTarget(b []byte) (int, error) {
	text := strings.TrimSpace(string(b))
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("expected a number of epochs, found %.40q; remove the file, and `sweep run` writes it "+
			"again", text)
	}
	return n, nil
}

func readJSON(path string, v any) error {
	b, err := readSmall(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

func readSmall(path string) ([]byte, error) {
	return integrity.ReadSealed(path, maxFile, "a file of a sweep")
}

// begin creates the folder of a claimed trial and writes its description and the epochs to train to.
func (s *Store) begin(t Trial, epochs int) error {
	dir := s.trialDir(t.ID)
	if err := atomicfile.MkdirAll(dir); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, trialName)); errors.Is(err, fs.ErrNotExist) {
		err := integrity.WriteText(filepath.Join(dir, trialConfig), config.Marshal(&t.Config))
		if err == nil {
			err = integrity.WriteJSON(filepath.Join(dir, trialName), struct {
				ID    string `json:"id"`
				Point Point  `json:"point"`
				Seed  uint64 `json:"seed"`
			}{t.ID, t.Point, t.Seed})
		}
		if err != nil {
			return err
		}
	}
	// The score of a trial is in its log. Without the log the checkpoint is useless, and the trial starts again.
	if done, err := position(dir); err == nil && done == 0 {
		if err := atomicfile.RemoveAll(filepath.Join(dir, runfs.CheckpointsName)); err != nil {
			return err
		}
	}
	return integrity.WriteText(filepath.Join(dir, targetName), fmt.Appendln(nil, epochs))
}

// finish records the result of a trial that was trained to the epochs.
func (s *Store) finish(t Trial, epochs int, metric string, now time.Time) (Result, error) {
	dir := s.trialDir(t.ID)
	best, ok, err := bestValidation(dir, metric, float64(epochs))
	if err == nil && !ok {
		err = fmt.Errorf("%s: the trial ended without a validation", dir)
	}
	if err != nil {
		return Result{}, err
	}
	r := Result{Epochs: epochs, Metric: metric, Score: score(best, metric), BestEpoch: best.Epoch, Best: best,
		Finished: now}
	return r, integrity.WriteJSON(filepath.Join(dir, fmt.Sprintf("result-%d.json", epochs)), r)
}

func (s *Store) fail(t Trial, f Failure) error {
	return integrity.WriteJSON(filepath.Join(s.trialDir(t.ID), failedName), f)
}

// Retry removes the failure of a trial, so that it runs again.
func (s *Store) Retry(st *State) error {
	return ignoreMissing(disk.Now().Remove(filepath.Join(st.Dir, failedName)))
}
