package view

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/apps/report"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/inputs"
)

// measured is what 'vsetrain report --test' measured of runs, as tables.
type measured struct {
	Recalls, Differences, Judged, Diagnosis []*report.Table
	Stale                                   []string // runs whose weights have changed since
	Repeated                                []string // says which runs of a seed count in no table across seeds
}

// Empty reports that nothing was measured.
func (m *measured) Empty() bool { return len(m.Recalls) == 0 }

// measures keeps what was read of test.json files and computed from them. It is safe for concurrent use.
type measures struct {
	mu          sync.Mutex
	files       map[string]measuredFile  // by run directory
	differences map[string]*report.Table // by runs and stamps
	guesses     map[*config.Config]float64
}

type measuredFile struct {
	stamp [2]int64 // time and size
	m     report.Measurement
	ok    bool
}

// maxDifferences bounds the comparisons that are kept.
const maxDifferences = 32

func newMeasures() *measures {
	return &measures{files: map[string]measuredFile{}, differences: map[string]*report.Table{},
		guesses: map[*config.Config]float64{}}
}

// guess returns the M-Recall that guessing gives on the validation split of a run, 0 where its data set is not there.
func (s *measures) guess(run *Run) float64 {
	if run.Config == nil {
		return 0
	}
	s.mu.Lock()
	g, known := s.guesses[run.Config]
	s.mu.Unlock()
	if known {
		return g
	}
	c := *run.Config
	if err := inputs.LocateRun(run.Dir, &c); err == nil {
		// who opens the network is told of a data set that cannot be read
		if dev, err := inputs.OpenSplit(c.Data, c.Model, "dev", data.OpenOptions{}); err == nil {
			g = eval.Chance(dev.Groups()).MRecall
			dev.Close()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guesses[run.Config] = g
	return g
}

// read returns the measurement of a run directory, with the stamp of its file.
func (s *measures) read(dir string) measuredFile {
	st, err := os.Stat(filepath.Join(dir, report.TestName))
	if err != nil {
		return measuredFile{}
	}
	stamp := [2]int64{st.ModTime().UnixNano(), st.Size()}
	s.mu.Lock()
	defer s.mu.Unlock()
	f, known := s.files[dir]
	if !known || f.stamp != stamp {
		f = measuredFile{stamp: stamp}
		f.m, f.ok = report.ReadMeasurement(dir)
		s.files[dir] = f
	}
	return f
}

// of returns the tables of runs on one data set, and the differences of all others from the first.
func (s *measures) of(runs []*Run) (*measured, error) {
	out := &measured{}
	var all []*report.Run
	var key strings.Builder
	for _, run := range runs {
		f := s.read(run.Dir)
		if !f.ok || run.Config == nil || runs[0].Config == nil || run.Config.Data.Dir != runs[0].Config.Data.Dir {
			continue
		}
		r := run.reported()
		r.Take(f.m, true)
		all = append(all, r)
		fmt.Fprintf(&key, "%q %d\n", run.ID, f.stamp)
		if !f.m.Current() {
			out.Stale = append(out.Stale, run.Name)
		}
	}
	if len(all) == 0 {
		return out, nil
	}
	d := report.Collect(all)[0]
	out.Recalls, out.Judged, out.Diagnosis = d.TestTables(), d.JudgedTables(), d.DiagnosisTables()
	out.Repeated = d.Repeated()
	if len(all) < 2 || all[0].Name != runs[0].Name {
		return out, nil
	}
	t, err := s.compare(key.String(), all)
	if t != nil {
		out.Differences = []*report.Table{t}
	}
	return out, err
}

// compare tests the differences of runs from the first, once for as long as the measurements stay the same.
func (s *measures) compare(key string, runs []*report.Run) (*report.Table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, known := s.differences[key]; known {
		return t, nil
	}
	t, err := report.RunDifferences(runs[0], runs[1:])
	if err != nil {
		return nil, err
	}
	if len(s.differences) == maxDifferences {
		clear(s.differences)
	}
	s.differences[key] = t
	return t, nil
}
