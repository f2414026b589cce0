package report

import (
	"fmt"
	"slices"
	"strings"

	"vsetrain/eval"
	"vsetrain/internal/run/analysis"
	"vsetrain/train"
)

// RunDiagnosis explains the recalls of a run.
type RunDiagnosis struct {
	*eval.Diagnosis
	// for each checkpoint; empty without semantic vectors
	Negatives []analysis.FalseNegatives `json:"false_negatives,omitempty"`
}

// DiagnosisTables returns the diagnosis of a data set; each table has rows for all diagnosed runs.
func (d *DataSet) DiagnosisTables() (tables []*Table) {
	runs := slices.DeleteFunc(d.Runs(), func(r *Run) bool { return r.Diagnosis == nil })
	if len(runs) == 0 {
		return nil
	}
	for _, b := range []struct {
		name, title, what string
		of                func(*eval.Diagnosis) []eval.RecallBin
		note              string
	}{
		{"length", "length of the caption", "words", func(d *eval.Diagnosis) []eval.RecallBin { return d.Length }, ""},
		{"duplicates", "near-duplicate captions", "near-duplicates",
			func(d *eval.Diagnosis) []eval.RecallBin { return d.Duplicates },
			"Captions of other images that share at least 60 % of the terms of both."},
		{"unknown", "unknown words", "unknown", func(d *eval.Diagnosis) []eval.RecallBin { return d.Unknown },
			"Words that the vocabulary of the run lacks."},
	} {
		t := &Table{Name: "diagnosis-" + b.name, Title: "Text to image by " + b.title + " on " + d.Name +
			", test split", Heads: heads("run", b.what, ">captions", ">R@1", ">R@5", ">R@10")}
		if b.note != "" {
			t.Notes = append(t.Notes, b.note)
		}
		for i, r := range runs {
			for k, bin := range b.of(r.Diagnosis.Diagnosis) {
				t.row(k == 0 && i > 0, r.Name, bin.Label, bin.Captions, numberCell(bin.R1, 1), numberCell(bin.R5, 1),
					numberCell(bin.R10, 1))
			}
		}
		if len(t.Rows) > 0 {
			tables = append(tables, t)
		}
	}
	for _, t := range []*Table{judgedErrorTable(d, runs), hubTable(d, runs), calibrationTable(d, runs),
		leadTable(d, runs), falseNegativeTable(d, runs)} {
		if len(t.Rows) > 0 {
			tables = append(tables, t)
		}
	}
	return tables
}

// judgedErrorTable shows how many of the wrong first answers are right according to the judgements.
func judgedErrorTable(d *DataSet, runs []*Run) *Table {
	t := &Table{Name: "diagnosis-errors", Title: "Errors that judgements call right on " + d.Name + ", test split",
		Heads: heads("run", "judgements", ">Image to text|errors", ">Image to text|right", ">Image to text|%",
			">Text to image|errors", ">Text to image|right", ">Text to image|%"),
		Notes: []string{"Errors: judged queries whose first answer is not one of their own."}}
	share := func(right, errors int) Cell {
		if errors == 0 {
			return textCell("-")
		}
		return numberCell(100*float64(right)/float64(errors), 1)
	}
	for _, r := range runs {
		for _, j := range r.Diagnosis.Judged {
			t.row(false, r.Name, j.Name, j.I2TErrors, j.I2TRight, share(j.I2TRight, j.I2TErrors),
				j.T2IErrors, j.T2IRight, share(j.T2IRight, j.T2IErrors))
		}
	}
	return t
}

// hubTable shows the images and captions that answer too many queries.
func hubTable(d *DataSet, runs []*Run) *Table {
	t := &Table{Name: "diagnosis-hubs", Title: "Hubs on " + d.Name + ", test split",
		Heads: heads("run", "answers", ">expected", ">skewness", ">never, %", "largest (line: queries)"),
		Notes: []string{"N is the number of queries that have an item among their first ten answers: its mean, its " +
			"skewness (0 without hubs), the share of items with N = 0, and the items of the largest N " +
			"(images by their place in the split, captions by their line, from 1)."}}
	for _, r := range runs {
		for _, side := range []struct {
			name string
			h    eval.Hubs
		}{{"images", r.Diagnosis.Images}, {"captions", r.Diagnosis.Captions}} {
			var largest []string
			for _, x := range side.h.Largest {
				largest = append(largest, fmt.Sprintf("%d: %d", x.Item+1, x.Queries))
			}
			t.row(false, r.Name, side.name, numberCell(side.h.Expected, 1), numberCell(side.h.Skewness, 2),
				numberCell(side.h.Never, 1), strings.Join(largest, ", "))
		}
	}
	return t
}

// calibrationTable shows whether the lead of an answer predicts that it is right, and whether the margin holds.
func calibrationTable(d *DataSet, runs []*Run) *Table {
	t := &Table{Name: "diagnosis-margin", Title: "Lead and margin on " + d.Name + ", test split",
		Heads: heads("run", "direction", ">AUROC", ">margin", ">satisfied, %"),
		Notes: []string{"AUROC: probability that a right first answer leads the best one of another image by more " +
			"than a wrong one does; 0.5 says nothing. Satisfied: queries whose match leads every wrong candidate of " +
			"the split by the margin of the training (of LSEH its constant part)."}}
	eachDirection(runs, func(r *Run, name string, c eval.ScoreCalibration) {
		margin, satisfied := textCell("-"), textCell("-")
		if c.Margin > 0 {
			margin, satisfied = numberCell(c.Margin, 3), numberCell(c.Satisfied, 1)
		}
		t.row(false, r.Name, name, numberCell(c.AUROC, 3), margin, satisfied)
	})
	return t
}

// leadTableName is the name of the table that is too long for terminals.
const leadTableName = "diagnosis-leads"

func leadTable(d *DataSet, runs []*Run) *Table {
	t := &Table{Name: leadTableName, Title: "R@1 by the lead of the first answer on " + d.Name + ", test split",
		Heads: heads("run", "direction", ">lead up to", ">queries", ">R@1"),
		Notes: []string{"A fifth of the queries in each row."}}
	eachDirection(runs, func(r *Run, name string, c eval.ScoreCalibration) {
		for i, b := range c.Bins {
			t.row(i == 0 && len(t.Rows) > 0, r.Name, name, numberCell(b.High, 3), b.Queries, numberCell(b.R1, 1))
		}
	})
	return t
}

func eachDirection(runs []*Run, do func(r *Run, name string, c eval.ScoreCalibration)) {
	for _, r := range runs {
		do(r, "image to text", r.Diagnosis.I2T)
		do(r, "text to image", r.Diagnosis.T2I)
	}
}

// falseNegativeTable shows how many hard negatives of training batches are semantically similar to their anchors, for
// each checkpoint of a run.
func falseNegativeTable(d *DataSet, runs []*Run) *Table {
	t := &Table{Name: "diagnosis-false", Title: "Hard negatives that are false ones on " + d.Name +
		", training batches", Heads: heads("run", "checkpoint", ">epoch", ">Hard negatives|number",
		">Hard negatives|similarity", ">Hard negatives|false, %", ">All negatives|similarity",
		">All negatives|false, %"),
		Notes: []string{fmt.Sprintf("By the semantic vectors of the captions; a negative is called false from a "+
			"similarity of %v on. Hard: the largest hinge of an anchor in its batch, as training takes it.",
			train.FalseSimilarity)}}
	for _, r := range runs {
		for i, f := range r.Diagnosis.Negatives {
			t.row(i == 0 && len(t.Rows) > 0, r.Name, f.Checkpoint, numberCell(f.Epoch, 1), f.Hard,
				numberCell(f.HardSimilar, 3), numberCell(f.HardFalse, 1), numberCell(f.AllSimilar, 3),
				numberCell(f.AllFalse, 1))
		}
	}
	return t
}
