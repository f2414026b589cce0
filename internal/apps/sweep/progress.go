package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"

	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/records"
)

func score(v records.ValidationRecord, metric string) float64 {
	switch metric {
	case "rsum":
		return v.RSum
	case "i2t_r1":
		return v.I2T.R1
	case "t2i_r1":
		return v.T2I.R1
	}
	return v.MRecall
}

// lines calls visit for every complete line of a run's metrics, if there are any. It ends where a power failure
// corrupted the file.
func lines(dir string, visit func(kind string, line []byte) error) error {
	_, err := runfs.ReadLog(filepath.Join(dir, runfs.MetricsName), 0, func(line []byte, _ int) (bool, error) {
		kind := "train"
		if bytes.HasPrefix(line, []byte(`{"kind":"val"`)) {
			kind = "val"
		}
		return true, visit(kind, line)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// bestValidation returns the first validation with the largest metric up to an epoch position.
func bestValidation(dir, metric string, epochs float64) (best records.ValidationRecord, ok bool, err error) {
	err = lines(dir, func(kind string, line []byte) error {
		if kind != "val" {
			return nil
		}
		var v records.ValidationRecord
		if err := json.Unmarshal(line, &v); err != nil {
			return err
		}
		if v.Epoch <= epochs && (!ok || score(v, metric) > score(best, metric)) {
			best, ok = v, true
		}
		return nil
	})
	return best, ok, err
}

// position returns the epochs done according to the last line of a run's metrics.
func position(dir string) (epochs float64, err error) {
	var last []byte
	err = lines(dir, func(_ string, line []byte) error {
		last = append(last[:0], line...)
		return nil
	})
	if err != nil || len(last) == 0 {
		return 0, err
	}
	var v struct{ Epoch float64 }
	err = json.Unmarshal(last, &v)
	return v.Epoch, err
}
