package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"vsetrain/eval"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/records"
	"vsetrain/train"
)

// Log holds the lines of a metrics.jsonl. Slices only grow at their ends, so a copy stays valid while lines are added.
type Log struct {
	Validations []records.ValidationRecord // in the order of their steps
	Steps       []records.StepRecord
}

// Add adds a line, which may end in white space. It returns an error if the line is neither a step nor a validation, or
// its values are impossible.
func (l *Log) Add(line []byte) error {
	line = bytes.TrimSpace(line)
	var kind struct {
		Kind  string
		Epoch float64
	}
	if err := json.Unmarshal(line, &kind); err != nil {
		return fmt.Errorf("expected a JSON object, found %.40q: %w", line, err)
	}
	if !(kind.Epoch >= 0) {
		return fmt.Errorf("epoch %v; expected a position of at least 0", kind.Epoch)
	}
	switch kind.Kind {
	case "val":
		var v records.ValidationRecord
		if err := json.Unmarshal(line, &v); err != nil {
			return err
		}
		if !(v.MRecall >= 0 && v.MRecall <= 100) {
			return fmt.Errorf("m_recall %v; expected 0 to 100", v.MRecall)
		}
		l.Validations = append(l.Validations, v)
	case "train":
		var v records.StepRecord
		if err := json.Unmarshal(line, &v); err != nil {
			return err
		}
		l.Steps = append(l.Steps, v)
	default:
		return fmt.Errorf(`kind %q; expected "train" or "val"`, kind.Kind)
	}
	return nil
}

// Epochs returns the last epoch position in the log.
func (l *Log) Epochs() (last float64) {
	for _, s := range l.Steps {
		last = max(last, s.Epoch)
	}
	for _, v := range l.Validations {
		last = max(last, v.Epoch)
	}
	return last
}

// Best returns the first validation with the largest M-Recall; ok is false before the first.
func (l *Log) Best() (best records.ValidationRecord, ok bool) {
	for _, v := range l.Validations {
		if !ok || v.MRecall > best.MRecall {
			best, ok = v, true
		}
	}
	return best, ok
}

// Finished reports whether the run is finished (train.Options.Finished), with a validation after its last step.
func (l *Log) Finished(o *train.Options) bool {
	p, ok := l.position(o)
	return ok && o.Finished(&p)
}

// position returns the position of the training loop after the last validation; ok is false if later steps were logged.
func (l *Log) position(o *train.Options) (p train.Position, ok bool) {
	for _, v := range l.Validations {
		const rounding = 1e-9 // of an epoch position, a quotient of steps
		p.Step, p.Epoch = v.Step, int(v.Epoch+rounding)
		i := train.ValidationInfo{Metrics: eval.Metrics{I2T: v.I2T, T2I: v.T2I, MRecall: v.MRecall}}
		if a := v.Average; a != nil {
			i.Average = &train.AverageInfo{Metrics: eval.Metrics{I2T: a.I2T, T2I: a.T2I, MRecall: a.MRecall}}
		}
		o.Validated(&p, &i)
	}
	n := len(l.Steps)
	return p, len(l.Validations) > 0 && (n == 0 || l.Steps[n-1].Step <= p.Step)
}

// Collapsed reports whether the best weights of a run come from a collapse: among the train.collapse_steps steps before
// the best validation, in most of the logged ones all scores were alike.
func (l *Log) Collapsed(c *config.Config) bool {
	best, ok := l.Best()
	alike, others := 0, 0
	for i := range l.Steps {
		s := &l.Steps[i]
		if before := best.Step - s.Step; !ok || before < 0 || before >= int64(c.Train.CollapseSteps) {
			continue
		}
		if scoresAlike(s, c) {
			alike++
		} else {
			others++
		}
	}
	return alike > others
}

// scoresAlike reports whether all scores were alike in a step. If the log does not say so, LMH shows it: its loss is
// then the loss of equal scores.
func scoresAlike(s *records.StepRecord, c *config.Config) bool {
	if s.Collapsed != nil {
		return *s.Collapsed > 0
	}
	alike, ok := c.Loss.Plateau(c.Train.Batch)
	return ok && s.Epoch > float64(c.Loss.WarmupEpochs) && math.Abs(s.Loss-s.Captioning-alike) <= 0.01*alike
}
