package view

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"vsetrain/internal/apps/report"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/records"
)

// Run is a snapshot of a run directory. It does not change.
type Run struct {
	ID     string // path below the folder that is shown, with slashes; "." is that folder itself
	Name   string // for people: ID, or the name of the folder
	Dir    string
	Config *config.Config // nil if it cannot be read
	// Network and Loss are the names in the tables of 'vsetrain report'; "" without a configuration.
	Network, Loss string
	report.Log
	State   State
	Owner   runfs.Owner // of a running run
	Updated time.Time   // of metrics.jsonl; zero without
	Best    records.ValidationRecord
	HasBest bool
	Done    float64  // share of the planned epochs, 0 to 1
	Err     string   // why its configuration or log cannot be read
	Saved   []string // checkpoints that exist: best, last
}

// checkpointNames are the checkpoints of a run, the default first.
var checkpointNames = []string{"best", "last"}

func checkpointPath(dir, name string) string {
	return filepath.Join(dir, runfs.CheckpointsName, name+".safetensors")
}

// rescan is how long pages show what was read before the files are read again.
const rescan = time.Second

// store finds the runs below a folder and follows their files.
type store struct {
	root string

	mu    sync.Mutex
	at    time.Time
	runs  []*Run
	full  bool
	known map[string]*entry
}

// entry is the state of a run between two scans.
type entry struct {
	follow  follower
	config  *config.Config
	err     error
	stamp   [2]int64 // time and size of config.yaml
	scanned bool
}

func newStore(root string) *store { return &store{root: root, known: map[string]*entry{}} }

// all returns the runs in the order of their ids. full reports that the folder has more than is searched.
func (s *store) all(now time.Time) (runs []*Run, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs != nil && now.Sub(s.at) < rescan && now.Sub(s.at) >= 0 {
		return s.runs, s.full
	}
	for _, e := range s.known {
		e.scanned = false
	}
	s.runs = []*Run{}
	var ids []string
	ids, s.full = runfs.FindRuns(s.root)
	for _, id := range ids {
		dir := filepath.Join(s.root, filepath.FromSlash(id))
		if st, err := os.Stat(filepath.Join(dir, runfs.ConfigName)); err == nil {
			s.runs = append(s.runs, s.look(dir, id, st))
		}
	}
	for id, e := range s.known {
		if !e.scanned {
			delete(s.known, id)
		}
	}
	slices.SortFunc(s.runs, func(a, b *Run) int { return strings.Compare(a.ID, b.ID) })
	s.at = now
	return s.runs, s.full
}

// find returns the run with an id, or nil. It never uses the id as a path.
func (s *store) find(id string, now time.Time) *Run {
	runs, _ := s.all(now)
	i, ok := slices.BinarySearchFunc(runs, id, func(r *Run, id string) int { return strings.Compare(r.ID, id) })
	if !ok {
		return nil
	}
	return runs[i]
}

// look reads what is new in a run directory.
func (s *store) look(dir, id string, st fs.FileInfo) *Run {
	e := s.known[id]
	if e == nil {
		e = &entry{follow: follower{path: filepath.Join(dir, runfs.MetricsName)}}
		s.known[id] = e
	}
	e.scanned = true
	if stamp := [2]int64{st.ModTime().UnixNano(), st.Size()}; stamp != e.stamp {
		e.stamp = stamp
		e.config, e.err = nil, nil
		if r, err := config.Load(config.Request{File: filepath.Join(dir, runfs.ConfigName)}); err != nil {
			e.err = err
		} else {
			e.config = &r.Config
		}
	}
	r := &Run{ID: id, Name: id, Dir: dir, Config: e.config, State: Unreadable}
	if id == "." {
		r.Name = filepath.Base(dir)
	}
	err := cmp.Or(e.err, e.follow.read()) // the log is readable without a configuration
	r.Log = e.follow.Log
	r.Best, r.HasBest = r.Log.Best()
	if r.Config != nil {
		r.Network, r.Loss = report.NetworkName(&r.Config.Model), r.reported().ShortLossName()
	}
	if err != nil {
		r.Err = err.Error()
		return r
	}
	if st, err := os.Stat(e.follow.path); err == nil {
		r.Updated = st.ModTime()
	}
	for _, name := range checkpointNames {
		if _, err := os.Stat(checkpointPath(dir, name)); err == nil {
			r.Saved = append(r.Saved, name)
		}
	}
	owner, held, err := runfs.LockOwner(dir)
	if err != nil {
		r.Err = err.Error()
		return r
	}
	r.Owner, r.Done = owner, progress(&r.Config.Train, &r.Log)
	switch r.State = Interrupted; {
	case held:
		r.State = Running
	case r.Finished(&r.Config.Train):
		r.State = Finished
	}
	return r
}

// reported returns a run with a configuration for package report.
func (r *Run) reported() *report.Run {
	return &report.Run{Dir: r.Dir, Name: r.Name, Config: *r.Config, Log: r.Log}
}
