package report

import (
	"strings"
	"testing"

	"vsetrain/internal/run/records"
	"vsetrain/models"
)

// A base that collapsed is named, and no efficiency is computed from it: recorded by the run, or told by the loss of
// LMH in runs before that.
func TestCollapsedBase(t *testing.T) {
	build := func(steps func(i int) records.StepRecord) string {
		base := newRun("a", models.VSEPP, "LMH1", 7, Point{1, 5}, Point{2, 7}, Point{3, 6})
		base.Config.Train.Batch, base.Config.Train.CollapseSteps, base.Config.Train.Epochs = 10, 20, 3
		for i := range base.Validations {
			base.Validations[i].Step = int64(15 * (i + 1))
		}
		for i := 1; i <= 45; i++ {
			s := steps(i)
			s.Step, s.Epoch = int64(i), float64(i)/15
			if s.Epoch == float64(int(s.Epoch)) {
				s.Loss /= 6 // the short last batch
			}
			base.Steps = append(base.Steps, s)
		}
		target := newRun("a", models.VSEPP, "LSEH", 7, Point{1, 10}, Point{2, 20}, Point{3, 30})
		d := setOf(base, target)
		return d.efficiencyTable(d.Comparisons(false)).Text(nil) + d.runTable().Text(nil)
	}
	// Of 45 steps, the last 20 before the best validation (step 30) are from 11 on.
	recorded := func(alike func(i int) bool) func(int) records.StepRecord {
		return func(i int) records.StepRecord {
			n := 0
			if alike(i) {
				n = 1
			}
			return records.StepRecord{Loss: 3, Collapsed: &n}
		}
	}
	loss := func(from, to int) func(int) records.StepRecord { // 2 x 10 x 0.2 from one step to another
		return func(i int) records.StepRecord {
			if i >= from && i <= to {
				return records.StepRecord{Loss: 4.01}
			}
			return records.StepRecord{Loss: 3.5}
		}
	}
	for name, c := range map[string]struct {
		steps     func(int) records.StepRecord
		collapsed bool
	}{
		"all alike":           {recorded(func(i int) bool { return true }), true},
		"some in between":     {recorded(func(i int) bool { return i%3 > 0 }), true},
		"at the beginning":    {recorded(func(i int) bool { return i <= 20 }), false},
		"after the best":      {recorded(func(i int) bool { return i > 30 }), false},
		"by its loss":         {loss(1, 45), true},
		"by its loss, at end": {loss(25, 45), false},
		"never by its loss":   {loss(0, 0), false},
	} {
		text := build(c.steps)
		for _, words := range []string{"base collapsed",
			"No efficiency is computed from a base that collapsed: vsepp-lmh1-7",
			"Collapsed, all scores alike before the best validation: vsepp-lmh1-7."} {
			if strings.Contains(text, words) != c.collapsed {
				t.Errorf("%s: %q is there: %v in\n%s", name, words, !c.collapsed, text)
			}
		}
		if reached := strings.Contains(text, "-50.0"); reached == c.collapsed { // 1 epoch in place of 2
			t.Errorf("%s: a difference is there: %v in\n%s", name, reached, text)
		}
	}
}
