package main

import (
	"fmt"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/eval"
	"vsetrain/internal/run/evaluate"
)

// tiesText tells how many ranks depend on the order of equal scores, and the rule.
func tiesText(t eval.Ties) string {
	if t.I2T+t.T2I == 0 {
		return "ties: none"
	}
	return fmt.Sprintf("ties: the rank of %d images and %d captions depends on the order of equal scores; the later "+
		"in the file ranks first", t.I2T, t.T2I)
}

// printJudged prints the measures of judgements and the agreement with ratings.
func printJudged(a *app, rep evaluate.Report) {
	for _, j := range rep.Judged {
		a.Printf("\n%s\n", a.Paint(ui.Bold, "judgements "+j.Name+", whole split"))
		t := ui.NewTable("", ">mAP@R", ">R-Precision", ">R@1", ">R@5", ">R@10", ">queries", ">positives")
		for _, d := range []struct {
			name string
			r    eval.JudgedRecalls
		}{{"image to text", j.I2T}, {"text to image", j.T2I}} {
			one := func(v float64) string { return fmt.Sprintf("%.1f", v) }
			t.Row(d.name, one(d.r.MAPAtR), one(d.r.RPrecision), one(d.r.R1), one(d.r.R5), one(d.r.R10),
				fmt.Sprint(d.r.Queries), fmt.Sprint(d.r.Positives))
			t.Style(ui.Faint, 6, 7)
		}
		t.Write(a.Streams)
		if n := j.I2T.Absent + j.T2I.Absent; n > 0 {
			a.remark("%d of the positives are not in the split: they count, and are never found", n)
		}
	}
	printPeople(a, "", rep)
}

// printPeople prints the agreement with ratings. which is a prefix that names one of two models.
func printPeople(a *app, which string, rep evaluate.Report) {
	for _, h := range rep.People {
		a.Printf("\n%s\n", a.Paint(ui.Bold, which+"agreement with people, "+h.Name))
		t := ui.NewTable("", ">Kendall tau-b", ">tau-c", ">Spearman", ">ratings", ">pairs")
		for _, d := range []struct {
			name string
			a    eval.Agreement
		}{{"all pairs", h.All}, {"without own captions", h.Others}} {
			three := func(v float64) string { return fmt.Sprintf("%.3f", v) }
			t.Row(d.name, three(d.a.TauB), three(d.a.TauC), three(d.a.Spearman), fmt.Sprint(d.a.Ratings),
				fmt.Sprint(d.a.Pairs))
			t.Style(ui.Faint, 4, 5)
		}
		t.Write(a.Streams)
	}
}
