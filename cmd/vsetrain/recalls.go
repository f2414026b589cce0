package main

import (
	"fmt"
	"io"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/eval"
)

// recallTable is the table of measures that eval prints.
type recallTable struct{ *ui.Table }

func newRecallTable() recallTable {
	return recallTable{ui.NewTable("", ">R@1", ">R@5", ">R@10", ">mean", ">median rank", ">mean rank")}
}

func (t recallTable) add(name string, r eval.Recalls) {
	mean, std := r.MeanStd()
	t.Row(name, fmt.Sprintf("%.1f", r.R1), fmt.Sprintf("%.1f", r.R5), fmt.Sprintf("%.1f", r.R10),
		fmt.Sprintf("%.1f ± %.1f", mean, std), fmt.Sprintf("%.1f", r.MedR), fmt.Sprintf("%.1f", r.MeanR))
}

// writeBytes adapts a slice to runfs.WriteFile.
func writeBytes(b []byte) func(io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(b); return err }
}
