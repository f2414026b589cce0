package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/eval"
	"vsetrain/internal/experiment"
)

// pair reads the arguments of --compare: two models, or ensembles with commas between their members.
func (o *evalOptions) pair(args []string) ([]experiment.EvalRequest, error) {
	if len(args) != 2 || len(o.Checkpoints)+len(o.Scores) > 0 {
		return nil, usagef("--compare: expected two arguments, each a run directory, a checkpoint or stored scores " +
			"(.npy), or several with commas between them: vsetrain eval --compare A B")
	}
	for flag, set := range map[string]bool{"--save-scores": o.SaveScores != "", "--save-ranks": o.SaveRanks != "",
		"--judgements": len(o.Judgements) > 0} {
		if set {
			return nil, usagef("%s measures one model or ensemble; leave out --compare", flag)
		}
	}
	if o.compare.Resamples < 1 {
		return nil, usagef("--resamples: expected a whole number of at least 1, found %d", o.compare.Resamples)
	}
	var requests []experiment.EvalRequest
	for _, arg := range args {
		members := []string{arg}
		if _, err := os.Stat(arg); err != nil { // a comma may be part of a path
			members = strings.Split(arg, ",")
		}
		var r experiment.EvalRequest
		for _, m := range members {
			switch {
			case m == "":
				return nil, usagef("--compare: %q names an empty path between its commas", arg)
			case strings.EqualFold(filepath.Ext(m), ".npy"):
				r.Scores = append(r.Scores, m)
			default:
				r.Checkpoints = append(r.Checkpoints, m)
			}
		}
		requests = append(requests, r)
	}
	return requests, nil
}

// compareJSON is the JSON of --compare.
type compareJSON struct {
	A           evalJSON          `json:"a"`
	B           evalJSON          `json:"b"`
	Comparisons []eval.Comparison `json:"comparisons"` // one for each protocol; differences are A - B
}

func (o *evalOptions) runCompare(ctx context.Context, a *app, pair []experiment.EvalRequest, done func()) error {
	q := experiment.CompareRequest{A: o.EvalRequest, B: o.EvalRequest, CompareOptions: o.compare}
	q.A.Checkpoints, q.A.Scores = pair[0].Checkpoints, pair[0].Scores
	q.B.Checkpoints, q.B.Scores = pair[1].Checkpoints, pair[1].Scores
	rep, err := experiment.Compare(ctx, q)
	done()
	if err != nil {
		return err
	}
	if o.JSON != "-" {
		printSplit(a, rep.A)
		a.Printf("A\n")
		printMeasured(a, rep.A)
		a.Printf("B\n")
		printMeasured(a, rep.B)
		for i, c := range rep.Comparisons {
			printComparison(a, c)
			a.Printf("A, %s\nB, %s\n", tiesText(rep.A.Results[i].Metrics.Ties), tiesText(rep.B.Results[i].Metrics.Ties))
		}
	}
	return o.writeJSON(a, compareJSON{o.measures(a, rep.A), o.measures(a, rep.B), rep.Comparisons})
}

// measureNames are the measures of a comparison for people.
var measureNames = map[string]string{"i2t_r1": "image to text R@1", "i2t_r5": "image to text R@5",
	"i2t_r10": "image to text R@10",
	"t2i_r1":  "text to image R@1", "t2i_r5": "text to image R@5", "t2i_r10": "text to image R@10",
	"m_recall": "M-Recall"}

func printComparison(a *app, c eval.Comparison) {
	a.Printf("\n%s\n", a.Paint(ui.Bold, "protocol "+c.Protocol))
	level := fmt.Sprintf(">%.0f %%", 100*c.Level)
	t := ui.NewTable("", ">A", level, ">B", level, ">A - B", level, ">p")
	between := func(e eval.Estimate) string { return fmt.Sprintf("%.1f to %.1f", e.Low, e.High) }
	for _, d := range c.Differences {
		t.Row(measureNames[d.Measure], fmt.Sprintf("%.1f", d.A.Value), between(d.A), fmt.Sprintf("%.1f", d.B.Value),
			between(d.B),
			fmt.Sprintf("%+.2f", d.Difference.Value), fmt.Sprintf("%+.2f to %+.2f", d.Difference.Low,
				d.Difference.High), fmt.Sprintf("%.4f", d.P))
	}
	t.Write(a.Streams)
	a.Printf("intervals: paired bootstrap over %d images with their captions; p: paired permutation test, two-sided; "+
		"%d resamples, seed %d\n", c.Images, c.Resamples, c.Seed)
}
