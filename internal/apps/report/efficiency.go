package report

import "math"

// epochsToExceed returns the first epoch position at which the M-Recall of a run is above a value, or with orEqual at
// least the value.
func (l *Log) epochsToExceed(value float64, orEqual bool) (epoch float64, reached bool) {
	for _, v := range l.Validations {
		if v.MRecall > value || orEqual && v.MRecall == value {
			return v.Epoch, true
		}
	}
	return 0, false
}

// Efficiency compares the epochs that a run needs to pass the best M-Recall of a base with the epochs that the base
// needed (the paper's tables of training efficiency).
type Efficiency struct {
	BaseBest   float64 // best M-Recall of the base run
	BaseEpochs float64 // first position where it was reached
	Epochs     float64 // first position where the run exceeds it
	Reached    bool
	Collapsed  bool // the base collapsed, so nothing is compared with it
}

// Compare compares a run with a base. With orEqual, reaching the best of the base is enough.
func Compare(base, run *Log, orEqual bool) Efficiency {
	b, ok := base.Best()
	if !ok {
		return Efficiency{}
	}
	e := Efficiency{BaseBest: b.MRecall, BaseEpochs: b.Epoch}
	e.Epochs, e.Reached = run.epochsToExceed(b.MRecall, orEqual)
	return e
}

// Difference returns Epochs - BaseEpochs, and the same in percent of BaseEpochs; negative is faster. Both are NaN if
// the best of the base was not reached.
func (e Efficiency) Difference() (epochs, percent float64) {
	if !e.Reached {
		return math.NaN(), math.NaN()
	}
	return e.Epochs - e.BaseEpochs, 100 * (e.Epochs - e.BaseEpochs) / e.BaseEpochs
}
