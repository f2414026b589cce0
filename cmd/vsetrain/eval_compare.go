package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/eval"
	"vsetrain/internal/compute/device/ranks"
	"vsetrain/internal/run/evaluate"
)

// pair reads the arguments of --compare: two models or comma-separated ensembles.
func (o *evalOptions) pair(args []string) error {
	if len(args) != 2 || len(o.Checkpoints)+len(o.Scores) > 0 {
		return usagef("--compare: expected two arguments, each a run directory, a checkpoint or stored scores " +
			"(.npy), or several with commas between them: vsetrain eval --compare A B")
	}
	for i, arg := range args {
		members := []string{arg}
		if _, err := os.Stat(arg); err != nil { // a comma may be part of a path
			members = strings.Split(arg, ",")
		}
		var r evaluate.Request
		for _, m := range members {
			switch {
			case m == "":
				return usagef("--compare: %q names an empty path between its commas", arg)
			case strings.EqualFold(filepath.Ext(m), ".npy"):
				r.Scores = append(r.Scores, m)
			default:
				r.Checkpoints = append(r.Checkpoints, m)
			}
		}
		o.sides[i] = r
	}
	return nil
}

// compareJSON is the JSON of --compare.
type compareJSON struct {
	A           evalJSON          `json:"a"`
	B           evalJSON          `json:"b"`
	Comparisons []eval.Comparison `json:"comparisons"` // one for each protocol; differences are A - B

	Judged []eval.JudgedComparison `json:"judged_comparisons,omitempty"` // one for each set of judgements
}

func (o *evalOptions) runCompare(ctx context.Context, a *app, done func()) error {
	q := evaluate.CompareRequest{A: o.request, B: o.request, CompareOptions: eval.DefaultCompareOptions()}
	q.Resamples, q.Seed = o.Resamples, o.Seed
	q.A.Checkpoints, q.A.Scores = o.sides[0].Checkpoints, o.sides[0].Scores
	q.B.Checkpoints, q.B.Scores = o.sides[1].Checkpoints, o.sides[1].Scores
	rep, err := evaluate.Compare(ctx, q)
	done()
	if err != nil || !ranks.IsRank0(o.request.World) {
		return err
	}
	if o.JSON != "-" {
		printSplit(a, rep.A)
		a.Printf("A\n")
		printMeasured(a, rep.A)
		a.Printf("B\n")
		printMeasured(a, rep.B)
		for i, c := range rep.Comparisons {
			a.Printf("\n%s\n", a.Paint(ui.Bold, "protocol "+c.Protocol))
			printDifferences(a, c.CompareOptions, c.Differences, c.Images)
			a.remark("A, %s", tiesText(rep.A.Results[i].Metrics.Ties))
			a.remark("B, %s", tiesText(rep.B.Results[i].Metrics.Ties))
		}
		for i, c := range rep.Judged {
			a.Printf("\n%s\n", a.Paint(ui.Bold, "judgements "+c.Name+", whole split"))
			printDifferences(a, c.CompareOptions, c.Differences, c.Images)
			j := rep.A.Judged[i]
			a.remark("%d images and %d captions are judged; R-P: R-Precision", j.I2T.Queries, j.T2I.Queries)
		}
		printPeople(a, "A, ", rep.A)
		printPeople(a, "B, ", rep.B)
	}
	return o.writeJSON(a, compareJSON{o.measures(a, rep.A), o.measures(a, rep.B), rep.Comparisons, rep.Judged})
}

// measureNames are short names of the measures of a comparison, so that the table fits 80 columns.
var measureNames = map[string]string{"i2t_r1": "i2t R@1", "i2t_r5": "i2t R@5", "i2t_r10": "i2t R@10",
	"t2i_r1": "t2i R@1", "t2i_r5": "t2i R@5", "t2i_r10": "t2i R@10", "m_recall": "M-Recall",
	"i2t_map_at_r": "i2t mAP@R", "i2t_r_precision": "i2t R-P", "t2i_map_at_r": "t2i mAP@R",
	"t2i_r_precision": "t2i R-P"}

// printDifferences prints measures of A and B with their differences, and how the differences were tested.
func printDifferences(a *app, o eval.CompareOptions, differences []eval.Difference, images int) {
	level := fmt.Sprintf(">%.0f %%", 100*o.Level)
	t := ui.NewTable("", ">A", level, ">B", level, ">A - B", level, ">p")
	between := func(e eval.Estimate) string { return fmt.Sprintf("%.1f to %.1f", e.Low, e.High) }
	for _, d := range differences {
		x := d.Difference
		t.Row(measureNames[d.Measure], fmt.Sprintf("%.1f", d.A.Value), between(d.A), fmt.Sprintf("%.1f", d.B.Value),
			between(d.B), fmt.Sprintf("%+.2f", x.Value), fmt.Sprintf("%+.2f to %+.2f", x.Low, x.High),
			fmt.Sprintf("%.4f", d.P))
		t.Style(ui.Faint, 2, 4, 6)
		switch {
		case d.A.Value > d.B.Value:
			t.Style(ui.Bold, 1)
		case d.B.Value > d.A.Value:
			t.Style(ui.Bold, 3)
		}
		if d.P < significant {
			t.Style(ui.Bold, 5, 7)
		}
	}
	t.Write(a.Streams)
	a.remark("i2t: image to text, t2i: text to image; intervals: paired bootstrap over %d images with their captions; "+
		"p: paired permutation test, two-sided; %d resamples, seed %d", images, o.Resamples, o.Seed)
}

// significant is the p-value below which a difference is printed in bold.
const significant = 0.05
