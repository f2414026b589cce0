package report

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"vsetrain/eval"
	"vsetrain/internal/atomicfile"
	"vsetrain/internal/experiment"
	"vsetrain/internal/regular"
	"vsetrain/models"
)

// measurement is a file of recalls on the test split, with what they were measured from: it is used again while that is
// unchanged.
type measurement struct {
	Checkpoint string         `json:"checkpoint"`
	Size       int64          `json:"size"`
	Modified   time.Time      `json:"modified"`
	Data       string         `json:"data"`
	Split      string         `json:"split"`
	Precision  string         `json:"precision"`
	Results    []eval.Metrics `json:"results"`
	Hits       []eval.Hits    `json:"hits"` // of each result

	Judgements []sourceFile         `json:"judgements,omitempty"` // that were asked for
	Judged     []eval.JudgedMetrics `json:"judged,omitempty"`

	Diagnosis *RunDiagnosis `json:"diagnosis,omitempty"`
}

// sourceFile is a file that a measurement read.
type sourceFile struct {
	Path     string    `json:"path"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}

// judgementFiles describes the files that judgements are read from.
func judgementFiles(paths []string) (files []sourceFile, err error) {
	for _, path := range paths {
		sets, err := eval.FindJudgements(path)
		if err != nil {
			return nil, err
		}
		for _, file := range slices.Concat(sets...) {
			st, err := os.Stat(file)
			if err != nil {
				return nil, fmt.Errorf("judgements: %w", err)
			}
			if file, err = filepath.Abs(file); err != nil {
				return nil, err
			}
			files = append(files, sourceFile{file, st.Size(), st.ModTime().UTC()})
		}
	}
	return files, nil
}

// MeasureTest measures the best weights of a run on the test split of its data, or takes the measures from the folder
// cache where they are of the same weights. An empty cache keeps nothing.
func (r *Run) MeasureTest(ctx context.Context, cache string, q experiment.EvalRequest) error {
	q.Checkpoints, q.Split, q.Protocol = []string{r.Dir}, "test", eval.Auto
	path, err := models.FindCheckpoint(r.Dir)
	if err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	now := measurement{Checkpoint: path, Size: st.Size(), Modified: st.ModTime().UTC(), Split: q.Split,
		Data: cmp.Or(q.Data, r.Config.Data.Dir), Precision: q.Device.Precision}
	if now.Judgements, err = judgementFiles(q.Judgements); err != nil {
		return err
	}
	hash := sha256.Sum256([]byte(path))
	file := filepath.Join(cache, r.Name+"-"+hex.EncodeToString(hash[:4])+".json")
	if cache != "" {
		if old, ok := readMeasurement(file); ok && old.same(now) && (old.Diagnosis != nil || !q.Diagnose) {
			if q.Diagnose && len(old.Diagnosis.Negatives) == 0 { // the semantic vectors may be there by now
				if err := old.addNegatives(ctx, r.Dir, q); err != nil {
					return err
				}
				if len(old.Diagnosis.Negatives) > 0 {
					err = old.keep(cache, file)
				}
			}
			r.take(old, q.Diagnose)
			return err
		}
	}
	rep, err := experiment.Eval(ctx, q)
	if err != nil {
		return err
	}
	for _, x := range rep.Results {
		h, err := x.Hits()
		if err != nil {
			return fmt.Errorf("%s: %w", r.Dir, err)
		}
		now.Results, now.Hits = append(now.Results, x.Metrics), append(now.Hits, h)
	}
	now.Judged = rep.Judged
	if q.Diagnose {
		now.Diagnosis = &RunDiagnosis{Diagnosis: rep.Diagnosis}
		if err := now.addNegatives(ctx, r.Dir, q); err != nil {
			return err
		}
	}
	r.take(now, q.Diagnose)
	if cache == "" {
		return nil
	}
	return now.keep(cache, file)
}

// addNegatives measures the hard negatives of the training batches of a run, where there are semantic vectors.
func (m *measurement) addNegatives(ctx context.Context, dir string, q experiment.EvalRequest) (err error) {
	a := experiment.AnalysisRequest{Data: q.Data, Device: q.Device, BLAS: q.BLAS}
	m.Diagnosis.Negatives, err = experiment.MeasureFalseNegatives(ctx, a, dir)
	return err
}

// keep writes the measurement into the cache.
func (m *measurement) keep(cache, file string) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return fmt.Errorf("keep the measures of %s: %w", m.Checkpoint, err)
	}
	return atomicfile.WriteFile(file, atomicfile.Bytes(append(b, '\n')))
}

// take gives the run what was measured.
func (r *Run) take(m measurement, diagnosis bool) {
	r.Test, r.Hits, r.Judged = m.Results, m.Hits, m.Judged
	if diagnosis {
		r.Diagnosis = m.Diagnosis
	}
}

// maxJSON bounds a JSON file that is read whole, in bytes.
const maxJSON = 64 << 20

// readMeasurement reads a file of the cache; one that cannot be read is measured again.
func readMeasurement(path string) (m measurement, ok bool) {
	b, err := regular.ReadFile(path, maxJSON, "measurements")
	if err != nil {
		return m, false
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	return m, dec.Decode(&m) == nil && len(m.Results) > 0 && len(m.Hits) == len(m.Results)
}

func (m measurement) same(o measurement) bool {
	return m.Checkpoint == o.Checkpoint && m.Size == o.Size && m.Modified.Equal(o.Modified) && m.Data == o.Data &&
		m.Split == o.Split && m.Precision == o.Precision &&
		slices.Equal(m.Judgements, o.Judgements)
}
