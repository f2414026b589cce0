package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"vsetrain/internal/apps/chart"
)

// stepColumns are the columns of steps.csv: medians of a step in milliseconds, memory in GB. PyTorch is timed eagerly,
// with torch.compile, and as a CUDA graph. An empty cell was not measured.
var stepColumns = []string{"date", "machine", "network", ">batch", "precision", ">eager_ms", ">compiled_ms",
	">graph_ms", ">vsetrain_ms", ">pytorch_gb", ">vsetrain_gb"}

// steps writes the tables and the chart of training steps.
func (b *book) steps() error {
	rows, err := b.rows("docs/log/steps.csv", stepColumns...)
	if err != nil {
		return err
	}
	if rows, err = newest(rows); err != nil {
		return err
	}
	b.files["docs/steps.svg"] = stepsBars(rows)
	return b.put("docs/performance.md", "steps", stepsTables(rows))
}

// newest returns the newest row of every network on each machine and in each precision, in the order in which they
// first appear. Rows are in the order of their dates.
func newest(rows []row) (steps []row, err error) {
	last := ""
	for _, r := range rows {
		date := r.text["date"]
		switch _, err := time.Parse(time.DateOnly, date); {
		case err != nil:
			return nil, fmt.Errorf("%s: date %q, expected 2006-01-02", r.at, date)
		case date < last:
			return nil, fmt.Errorf("%s: the date %s is before %s of the row above; append new rows", r.at, date, last)
		case slices.Contains([]string{r.text["machine"], r.text["network"], r.text["precision"]}, "") ||
			r.number["batch"] == 0:
			return nil, fmt.Errorf("%s: a row needs a machine, a network, a batch and a precision", r.at)
		}
		last = date
		if i := slices.IndexFunc(steps, func(o row) bool { return sameStep(o, r) }); i >= 0 {
			steps[i] = r
		} else {
			steps = append(steps, r)
		}
	}
	return steps, nil
}

func sameStep(a, b row) bool {
	same := func(column string) bool { return a.text[column] == b.text[column] }
	return same("machine") && same("network") && same("precision")
}

// distinct returns the values of a column in the order in which they first appear.
func distinct(rows []row, column string) (values []string) {
	for _, r := range rows {
		if !slices.Contains(values, r.text[column]) {
			values = append(values, r.text[column])
		}
	}
	return values
}

// fastest returns the milliseconds of PyTorch's fastest way, 0 where it was not measured.
func (r row) fastest() (ms float64) {
	for _, way := range []string{"eager_ms", "compiled_ms", "graph_ms"} {
		if v := r.number[way]; v > 0 && (ms == 0 || v < ms) {
			ms = v
		}
	}
	return ms
}

// stepsTables is a table for each machine, without the columns that were not measured there. Of the rows of a network,
// memory is the largest.
func stepsTables(steps []row) string {
	var text strings.Builder
	for _, machine := range distinct(steps, "machine") {
		rows := slices.DeleteFunc(slices.Clone(steps), func(r row) bool { return r.text["machine"] != machine })
		heads := []string{"network", ">batch"}
		for _, precision := range distinct(steps, "precision") {
			heads = append(heads, ">eager "+precision, ">compiled "+precision, ">CUDA graph "+precision,
				">vsetrain "+precision, ">times")
		}
		heads = append(heads, ">GB: PyTorch", ">vsetrain")
		var cells [][]string
		date := ""
		for _, network := range distinct(rows, "network") {
			var batch, torch, ours float64
			var times []string
			for _, precision := range distinct(steps, "precision") {
				r := row{number: map[string]float64{}}
				if i := slices.IndexFunc(rows, func(r row) bool {
					return r.text["network"] == network && r.text["precision"] == precision
				}); i >= 0 {
					r = rows[i]
					date = max(date, r.text["date"])
				}
				n := r.number
				batch, torch = max(batch, n["batch"]), max(torch, n["pytorch_gb"])
				ours = max(ours, n["vsetrain_gb"])
				for _, c := range []string{"eager_ms", "compiled_ms", "graph_ms", "vsetrain_ms"} {
					times = append(times, milliseconds(n[c]))
				}
				times = append(times, ratio(r.fastest(), n["vsetrain_ms"]))
			}
			cells = append(cells, slices.Concat([]string{network, whole(batch)}, times,
				[]string{gigabytes(torch), gigabytes(ours)}))
		}
		measured := func(of []string) (kept []string) {
			for column, c := range of {
				if slices.ContainsFunc(cells, func(r []string) bool { return r[column] != missing }) {
					kept = append(kept, c)
				}
			}
			return kept
		}
		t := newTable(measured(heads)...)
		for _, r := range cells {
			t.row(measured(r)...)
		}
		fmt.Fprintf(&text, "\n%s, %s:\n\n%s", machine, date, t.String())
	}
	return text.String()
}

// milliseconds writes two digits after the point below 100, none above.
func milliseconds(v float64) string {
	if v == 0 || v >= 100 {
		return whole(v)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// ratio writes how many times as fast b is as a: two digits after the point below 10, one above.
func ratio(a, b float64) string {
	if a == 0 || b == 0 {
		return missing
	}
	digits := 2
	if a/b >= 9.995 {
		digits = 1
	}
	return strconv.FormatFloat(a/b, 'f', digits, 64) + "x"
}

func gigabytes(v float64) string {
	if v == 0 {
		return missing
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// stepsBars draws how many times as fast as PyTorch's fastest way in the same precision every network is. A machine and
// precision that were never measured beside PyTorch have no bars.
func stepsBars(steps []row) []byte {
	b := chart.Bars{Title: "Training steps: times as fast as PyTorch, same precision and machine",
		X: "PyTorch's fastest way (eager, compiled, CUDA graph) is 1, the black line", Width: 17, Unit: 1,
		Label: func(v float64) string { return ratio(v, 1) }, Groups: distinct(steps, "network")}
	for _, machine := range distinct(steps, "machine") {
		for _, precision := range distinct(steps, "precision") {
			s := chart.Series{Name: machine + ", " + precision, Color: len(b.Series)}
			for _, network := range b.Groups {
				ratio := 0.0
				want := row{text: map[string]string{"machine": machine, "network": network, "precision": precision}}
				for _, r := range steps {
					if sameStep(r, want) && r.fastest() > 0 {
						ratio = r.fastest() / r.number["vsetrain_ms"]
					}
				}
				s.X = append(s.X, ratio)
			}
			if slices.Max(s.X) > 0 {
				b.Series = append(b.Series, s)
			}
		}
	}
	return b.Draw().SVG()
}

// registers writes the table of the most registers of a thread in each file of kernels, for each architecture.
func (b *book) registers() error {
	rows, err := b.rows("internal/compute/device/cuda/kernels/registers.tsv", "file", "kernel", ">*")
	if err != nil || len(rows) == 0 {
		return err
	}
	heads := []string{"file", ">kernels"}
	for _, architecture := range rows[0].columns[2:] {
		heads = append(heads, ">"+architecture)
	}
	t := newTable(heads...)
	for len(rows) > 0 {
		file := rows[0].text["file"]
		kernels := 0
		most := make([]float64, len(heads)-2)
		for ; kernels < len(rows) && rows[kernels].text["file"] == file; kernels++ {
			for i := range most {
				most[i] = max(most[i], rows[kernels].number[heads[i+2][1:]])
			}
		}
		cells := []string{"`" + file + ".cu`", strconv.Itoa(kernels)}
		for _, v := range most {
			if v == 0 { // not made for this architecture
				cells = append(cells, "")
			} else {
				cells = append(cells, whole(v))
			}
		}
		t.row(cells...)
		rows = rows[kernels:]
	}
	return b.put("docs/log/gpu.md", "registers", t.String())
}
