package report

import "math"

// epochsToExceed returns the first epoch position at which a run is above a value; or at least equals it, where orEqual
// is set.
func (l *Log) epochsToExceed(value float64, orEqual bool) (epoch float64, reached bool) {
	for _, v := range l.Validations {
		if v.MRecall > value || orEqual && v.MRecall == value {
			return v.Epoch, true
		}
	}
	return 0, false
}

// Efficiency compares the epochs one run needs to pass the best M-Recall of another (the paper's tables of training
// efficiency): Epochs of the run minus BaseEpochs, and that difference in percent of BaseEpochs; negative is faster.
type Efficiency struct {
	BaseBest   float64 // best M-Recall of the base run
	BaseEpochs float64 // first position where it was reached
	Epochs     float64 // first position where the run exceeds it
	Reached    bool
	Collapsed  bool // the base did, so nothing is compared with it
}

// Compare measures a run against a base.
func Compare(base, run *Log, orEqual bool) Efficiency {
	b, ok := base.Best()
	if !ok {
		return Efficiency{}
	}
	e := Efficiency{BaseBest: b.MRecall, BaseEpochs: b.Epoch}
	e.Epochs, e.Reached = run.epochsToExceed(b.MRecall, orEqual)
	return e
}

// Difference returns the absolute difference in epochs and the one in percent; NaN where the value was not reached.
func (e Efficiency) Difference() (epochs, percent float64) {
	if !e.Reached {
		return math.NaN(), math.NaN()
	}
	return e.Epochs - e.BaseEpochs, 100 * (e.Epochs - e.BaseEpochs) / e.BaseEpochs
}
