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

// measured holds the tables of 'vsetrain report --test'.
type measured struct {
	Recalls, Differences, Judged, Diagnosis []*report.Table
	Stale                                   []string // runs whose weights have changed after the measurement
	Repeated                                []string // messages about repeated seeds, which tables leave out
}

// Empty reports that nothing was measured.
func (m *measured) Empty() bool { return len(m.Recalls) == 0 }

// memo caches up to most values that take time to find. It is safe for concurrent use and finds one value at a time.
type memo[K comparable, V any] struct {
	mu   sync.Mutex
	most int
	all  map[K]V
}

// get returns the value of a key, or finds and caches it. Errors are not cached.
func (m *memo[K, V]) get(key K, find func() (V, error)) (V, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, known := m.all[key]
	if known {
		return v, nil
	}
	v, err := find()
	if err == nil {
		if m.all == nil || len(m.all) >= m.most {
			m.all = map[K]V{}
		}
		m.all[key] = v
	}
	return v, err
}

// measures caches test.json files and their differences.
type measures struct {
	files       memo[stamped, *report.Measurement] // nil if unreadable
	differences memo[string, *report.Table]        // by runs and stamps
	guesses     memo[*config.Config, float64]
}

// stamped is a run directory and the time and size of the measurement in it.
type stamped struct {
	dir        string
	time, size int64
}

func newMeasures() *measures {
	m := &measures{}
	m.files.most, m.guesses.most, m.differences.most = 20_000, 20_000, 32
	return m
}

// guess returns the M-Recall of random scores on the validation split of a run, or 0 if its data set is missing.
func (s *measures) guess(run *Run) float64 {
	if run.Config == nil {
		return 0
	}
	g, _ := s.guesses.get(run.Config, func() (g float64, _ error) {
		c := *run.Config
		if err := inputs.LocateRun(run.Dir, &c); err == nil {
			// opening the network reports an unreadable data set
			if dev, err := inputs.OpenSplit(c.Data, c.Model, "dev", data.OpenOptions{}); err == nil {
				g = eval.Chance(dev.Groups()).MRecall
				dev.Close()
			}
		}
		return g, nil
	})
	return g
}

// read returns the measurement of a run directory, or nil, and the stamp of its file.
func (s *measures) read(dir string) (*report.Measurement, stamped) {
	st, err := os.Stat(filepath.Join(dir, report.TestName))
	if err != nil {
		return nil, stamped{}
	}
	key := stamped{dir, st.ModTime().UnixNano(), st.Size()}
	m, _ := s.files.get(key, func() (*report.Measurement, error) {
		m, ok := report.ReadMeasurement(dir)
		if !ok {
			return nil, nil
		}
		return &m, nil
	})
	return m, key
}

// of returns the tables of the runs on the data set of the first run, and their differences from the first.
func (s *measures) of(runs []*Run) (*measured, error) {
	out := &measured{}
	var all []*report.Run
	var key strings.Builder
	for _, run := range runs {
		m, stamp := s.read(run.Dir)
		if m == nil || run.Config == nil || runs[0].Config == nil || run.Config.Data.Dir != runs[0].Config.Data.Dir {
			continue
		}
		r := run.reported()
		r.Take(*m, true)
		all = append(all, r)
		fmt.Fprintf(&key, "%q %v\n", run.ID, stamp)
		if !m.Current() {
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
	t, err := s.differences.get(key.String(), func() (*report.Table, error) {
		return report.RunDifferences(all[0], all[1:])
	})
	if t != nil {
		out.Differences = []*report.Table{t}
	}
	return out, err
}
