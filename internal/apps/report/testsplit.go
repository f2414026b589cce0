package report

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"vsetrain/eval"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/analysis"
	"vsetrain/internal/run/evaluate"
	"vsetrain/internal/run/pretrained"
	"vsetrain/models"
)

// TestName is the file in a run directory with the measures of its best weights on the test split.
const TestName = runfs.TestName

// Measurement is the content of TestName: measures on the test split, and the files that they were measured from. It is
// reused while these are unchanged.
type Measurement struct {
	Checkpoint string         `json:"checkpoint"`
	Size       int64          `json:"size"`
	Modified   time.Time      `json:"modified"`
	Data       string         `json:"data"`
	Split      string         `json:"split"`
	Precision  string         `json:"precision"`
	Results    []eval.Metrics `json:"results"`
	Hits       []eval.Hits    `json:"hits"` // of each result

	Judgements []sourceFile         `json:"judgements,omitempty"` // the requested files
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

// MeasureTest measures the best weights of a run on the test split of its data, or takes the measures from the run
// directory if they belong to the same weights and data. It keeps the measures there. What was measured before is
// measured again too, so that a smaller request loses nothing. If the directory cannot be written, MeasureTest warns. A
// run without its folder of checkpoints, as published with a paper, has the kept measures.
func (r *Run) MeasureTest(ctx context.Context, q evaluate.Request) error {
	q.Checkpoints, q.Split, q.Protocol = []string{r.Dir}, "test", eval.Auto
	diagnose := q.Diagnose
	old, known := ReadMeasurement(r.Dir)
	if known && old.Split == q.Split {
		switch weights, err := runfs.Exists(filepath.Join(r.Dir, runfs.CheckpointsName)); {
		case err != nil:
			return err
		case !weights:
			return r.takeKept(old, q)
		}
	}
	now, err := r.unmeasured(q)
	if err != nil {
		return err
	}
	if known && old.sameWeights(now) && old.covers(now.Judgements) && (old.Diagnosis != nil || !diagnose) {
		if diagnose && len(old.Diagnosis.Negatives) == 0 { // the semantic vectors may be there by now
			if err := old.addNegatives(ctx, r.Dir, q); err != nil {
				return err
			}
			if len(old.Diagnosis.Negatives) > 0 {
				old.keep(r.Dir, q.Warn)
			}
		}
		r.Take(old, diagnose)
		return nil
	}
	if known && old.sameData(now) {
		q.Judgements = now.addJudgements(old, q.Judgements)
		q.Diagnose = diagnose || old.Diagnosis != nil
	}
	rep, err := evaluate.Run(ctx, q)
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
	r.Take(now, diagnose)
	now.keep(r.Dir, q.Warn)
	return nil
}

// takeKept gives a run without weights its kept measures, if they cover the request.
func (r *Run) takeKept(m Measurement, q evaluate.Request) error {
	files, err := judgementFiles(q.Judgements)
	switch {
	case err != nil:
		return err
	case !m.covers(files):
		return fmt.Errorf("%s: the weights of this run are missing, and %s has no measures by these judgements", r.Dir,
			TestName)
	case q.Diagnose && m.Diagnosis == nil:
		return fmt.Errorf("%s: the weights of this run are missing, and %s has no diagnosis", r.Dir, TestName)
	case q.Device.Precision != m.Precision:
		return fmt.Errorf("%s: the weights of this run are missing, and %s was measured in precision %s; expected %s",
			r.Dir, TestName, m.Precision, q.Device.Precision)
	}
	r.Take(m, q.Diagnose)
	return nil
}

// unmeasured describes the measurement that a request asks for, without its results.
func (r *Run) unmeasured(q evaluate.Request) (m Measurement, err error) {
	path, err := models.FindCheckpoint(r.Dir)
	if err != nil {
		return m, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return m, err
	}
	st, err := os.Stat(path)
	if err != nil {
		return m, err
	}
	m = Measurement{Checkpoint: path, Size: st.Size(), Modified: st.ModTime().UTC(), Split: q.Split,
		Data: cmp.Or(q.Data, r.Config.Data.Dir), Precision: q.Device.Precision}
	m.Judgements, err = judgementFiles(q.Judgements)
	return m, err
}

// Current reports whether the weights are unchanged since the measurement.
func (m Measurement) Current() bool {
	st, err := os.Stat(m.Checkpoint)
	return err == nil && st.Size() == m.Size && st.ModTime().Equal(m.Modified)
}

// addNegatives measures the hard negatives of the training batches of a run, if there are semantic vectors.
func (m *Measurement) addNegatives(ctx context.Context, dir string, q evaluate.Request) (err error) {
	a := pretrained.AnalysisRequest{Data: q.Data, PerImage: q.PerImage, Device: q.Device, BLAS: q.BLAS}
	m.Diagnosis.Negatives, err = analysis.MeasureFalseNegatives(ctx, a, dir)
	return err
}

// addJudgements adds the judgements of an earlier measurement whose files are unchanged, and returns paths extended by
// these files.
func (m *Measurement) addJudgements(old Measurement, paths []string) []string {
	for _, f := range old.Judgements {
		if m.covers([]sourceFile{f}) {
			continue
		}
		files, err := judgementFiles([]string{f.Path})
		if err != nil || !old.covers(files) {
			continue
		}
		m.Judgements = append(m.Judgements, files...)
		paths = append(slices.Clone(paths), f.Path)
	}
	return paths
}

// keep writes the measurement into a run directory.
func (m *Measurement) keep(dir string, warn func(error)) {
	if err := integrity.WriteJSON(filepath.Join(dir, TestName), m); err != nil && warn != nil {
		warn(fmt.Errorf("the measures of %s are not kept: %w", dir, err))
	}
}

// Take gives the run its measures, and with diagnosis its diagnosis.
func (r *Run) Take(m Measurement, diagnosis bool) {
	r.Test, r.Hits, r.Judged = m.Results, m.Hits, m.Judged
	if diagnosis {
		r.Diagnosis = m.Diagnosis
	}
}

// maxJSON is the largest size in bytes of a JSON file that is read.
const maxJSON = 64 << 20

// ReadMeasurement reads the measurement in a run directory; ok is false if there is none, or it cannot be read.
func ReadMeasurement(dir string) (m Measurement, ok bool) {
	b, err := integrity.ReadSealed(filepath.Join(dir, TestName), maxJSON, "measurements")
	if err != nil {
		return m, false
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	return m, dec.Decode(&m) == nil && len(m.Results) > 0 && len(m.Hits) == len(m.Results)
}

// sameWeights reports whether both measure the same weights on the same data in the same precision.
func (m Measurement) sameWeights(o Measurement) bool {
	return m.Checkpoint == o.Checkpoint && m.Size == o.Size && m.Modified.Equal(o.Modified) &&
		m.Precision == o.Precision && m.sameData(o)
}

func (m Measurement) sameData(o Measurement) bool { return m.Data == o.Data && m.Split == o.Split }

// covers reports whether the measurement includes all of these judgements.
func (m Measurement) covers(files []sourceFile) bool {
	return !slices.ContainsFunc(files, func(f sourceFile) bool { return !slices.ContainsFunc(m.Judgements, f.same) })
}

// same reports whether two descriptions are of the same unchanged file.
func (f sourceFile) same(o sourceFile) bool {
	return f.Path == o.Path && f.Size == o.Size && f.Modified.Equal(o.Modified)
}
