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
	"time"

	"vsetrain/eval"
	"vsetrain/internal/atomicfile"
	"vsetrain/internal/experiment"
	"vsetrain/internal/regular"
	"vsetrain/models"
)

// measurement is a file of recalls on the test split, with what they were measured from: it is used again while that is unchanged.
type measurement struct {
	Checkpoint string         `json:"checkpoint"`
	Size       int64          `json:"size"`
	Modified   time.Time      `json:"modified"`
	Data       string         `json:"data"`
	Split      string         `json:"split"`
	Precision  string         `json:"precision"`
	Results    []eval.Metrics `json:"results"`
}

// MeasureTest measures the best weights of a run on the test split of its data, or takes the measures from the folder cache where they are of the same
// weights. An empty cache keeps nothing.
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
	hash := sha256.Sum256([]byte(path))
	file := filepath.Join(cache, r.Name+"-"+hex.EncodeToString(hash[:4])+".json")
	if cache != "" {
		if old, ok := readMeasurement(file); ok && old.same(now) {
			r.Test = old.Results
			return nil
		}
	}
	rep, err := experiment.Eval(ctx, q)
	if err != nil {
		return err
	}
	for _, x := range rep.Results {
		now.Results = append(now.Results, x.Metrics)
	}
	r.Test = now.Results
	if cache == "" {
		return nil
	}
	b, err := json.MarshalIndent(now, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return fmt.Errorf("keep the recalls of %s: %w", r.Dir, err)
	}
	return atomicfile.WriteFile(file, atomicfile.Bytes(append(b, '\n')))
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
	return m, dec.Decode(&m) == nil && len(m.Results) > 0
}

func (m measurement) same(o measurement) bool {
	return m.Checkpoint == o.Checkpoint && m.Size == o.Size && m.Modified.Equal(o.Modified) && m.Data == o.Data && m.Split == o.Split && m.Precision == o.Precision
}
