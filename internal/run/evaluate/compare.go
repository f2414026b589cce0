package evaluate

import (
	"context"
	"fmt"

	"vsetrain/eval"
	"vsetrain/internal/compute/par"
)

// CompareRequest asks how two models or ensembles differ on the same split.
type CompareRequest struct {
	A, B Request
	eval.CompareOptions
}

// CompareReport is the outcome.
type CompareReport struct {
	A, B        Report
	Comparisons []eval.Comparison       // one for each protocol
	Judged      []eval.JudgedComparison // one for each set of judgements
}

// Compare measures both models and tests their differences. Models of different data are refused before anything is
// computed.
func Compare(ctx context.Context, r CompareRequest) (rep CompareReport, err error) {
	if r.Resamples < 1 {
		return rep, fmt.Errorf("resamples: expected at least 1, found %d", r.Resamples)
	}
	a, err := r.A.data()
	if err != nil {
		return rep, err
	}
	b, err := r.B.data()
	if err != nil {
		return rep, err
	}
	if a.Digest != "" && b.Digest != "" && a.Digest != b.Digest {
		return rep, fmt.Errorf("split %s of %s and split %s of %s have different captions, so the two cannot be "+
			"compared query by query: "+
			"measure both on one data set, which --data DIR names", a.Split, a.Data, b.Split, b.Data)
	}
	if rep.A, err = Run(ctx, r.A); err != nil {
		return rep, err
	}
	if rep.B, err = Run(ctx, r.B); err != nil {
		return rep, err
	}
	pool := par.New(r.A.Device.Threads)
	defer pool.Close()
	if len(rep.A.Results) != len(rep.B.Results) {
		return rep, fmt.Errorf("%d images with %d captions, and %d with %d: only measures of the same split can be "+
			"compared",
			rep.A.Images, rep.A.Captions, rep.B.Images, rep.B.Captions)
	}
	for i := range rep.A.Results {
		x, err := rep.A.Results[i].Hits()
		if err != nil {
			return rep, err
		}
		y, err := rep.B.Results[i].Hits()
		if err != nil {
			return rep, err
		}
		c, err := eval.Compare(pool, []eval.Hits{x}, []eval.Hits{y}, r.CompareOptions)
		if err != nil {
			return rep, err
		}
		rep.Comparisons = append(rep.Comparisons, c)
	}
	for i := range rep.A.Outcomes {
		c, err := eval.CompareJudged(pool, rep.A.Outcomes[i], rep.B.Outcomes[i], rep.A.Own, r.CompareOptions)
		if err != nil {
			return rep, err
		}
		rep.Judged = append(rep.Judged, c)
	}
	return rep, nil
}

// data finds the split of a request and checks that its models belong together. It computes nothing.
func (r *Request) data() (Report, error) {
	rep := Report{Split: r.Split}
	opened, err := r.survey(&rep)
	for _, p := range opened {
		p.Close()
	}
	return rep, err
}
