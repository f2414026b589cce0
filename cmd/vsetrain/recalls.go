package main

import (
	"fmt"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/eval"
)

// recallTable is the table of measures that eval prints, on request with the spread of the three recalls that the
// LSEH paper shows.
type recallTable struct {
	*ui.Table
	paper bool
}

func newRecallTable(paper bool) recallTable {
	return recallTable{ui.NewTable("", ">R@1", ">R@5", ">R@10", ">mean", ">median rank", ">mean rank"), paper}
}

func (t recallTable) add(name string, r eval.Recalls) {
	mean, spread := r.MeanSpread()
	text := fmt.Sprintf("%.1f", mean)
	if t.paper {
		text += fmt.Sprintf(" ± %.1f", spread)
	}
	t.Row(name, fmt.Sprintf("%.1f", r.R1), fmt.Sprintf("%.1f", r.R5), fmt.Sprintf("%.1f", r.R10),
		text, fmt.Sprintf("%.1f", r.MedR), fmt.Sprintf("%.1f", r.MeanR))
	t.Style(ui.Faint, 5, 6)
}
