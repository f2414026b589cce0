package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"vsetrain/internal/apps/chart"
)

// stepColumns are the columns of steps.csv: medians in milliseconds, memory in GB.
var stepColumns = []string{"date", "machine", "network", ">batch", ">pytorch_fp32_ms", ">pytorch_fp32_best_ms",
	">fp32_ms", ">fp32_best_ms", ">bf16_ms", ">bf16_best_ms", ">pytorch_gb", ">vsetrain_gb", ">peak_fp32_percent",
	">peak_bf16_percent"}

// steps writes the table and the chart of training steps.
func (b *book) steps() error {
	rows, err := b.rows("docs/log/steps.csv", stepColumns...)
	if err != nil {
		return err
	}
	if rows, err = newest(rows); err != nil {
		return err
	}
	b.files["docs/steps.svg"] = stepsBars(rows)
	return b.put("docs/performance.md", "steps", stepsTable(rows))
}

// newest returns the newest row of every network, in the order in which networks first appear. Rows are in the order of
// their dates; an empty cell was not measured.
func newest(rows []row) (steps []row, err error) {
	last := ""
	for _, r := range rows {
		date, network := r.text["date"], r.text["network"]
		switch _, err := time.Parse(time.DateOnly, date); {
		case err != nil:
			return nil, fmt.Errorf("%s: date %q, expected 2006-01-02", r.at, date)
		case date < last:
			return nil, fmt.Errorf("%s: the date %s is before %s of the row above; append new rows", r.at, date, last)
		case r.text["machine"] == "" || network == "" || r.number["batch"] == 0:
			return nil, fmt.Errorf("%s: a row needs a machine, a network and a batch", r.at)
		}
		last = date
		if i := slices.IndexFunc(steps, func(o row) bool { return o.text["network"] == network }); i >= 0 {
			steps[i] = r
		} else {
			steps = append(steps, r)
		}
	}
	return steps, nil
}

// stepsTable is the table of docs/performance.md.
func stepsTable(steps []row) string {
	t := newTable("network", "batch", "PyTorch fp32, ms", "fp32, ms", "bf16, ms", "fp32 against PyTorch",
		"bf16 against PyTorch", "memory: PyTorch", "vsetrain", "date")
	for _, s := range steps {
		n := s.number
		t.row(s.text["network"], whole(n["batch"]), whole(n["pytorch_fp32_ms"]), whole(n["fp32_ms"]),
			whole(n["bf16_ms"]), times(n["pytorch_fp32_ms"], n["fp32_ms"]), times(n["pytorch_fp32_ms"], n["bf16_ms"]),
			gigabytes(n["pytorch_gb"]), gigabytes(n["vsetrain_gb"]), s.text["date"])
	}
	return t.String()
}

// times writes how many times as fast b is as a: two digits after the point below 10, one above.
func times(a, b float64) string {
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
	return strconv.FormatFloat(v, 'f', 1, 64) + " GB"
}

// stepsBars draws how many times as fast as PyTorch every network is; a network that has not been measured beside it
// has no bars.
func stepsBars(steps []row) []byte {
	b := chart.Bars{Title: "Training steps: how many times as fast as PyTorch float32 on the same processor",
		X: "PyTorch is 1, the black line", Width: 17, Unit: 1, Label: func(v float64) string { return times(v, 1) },
		Series: []chart.Series{{Name: "vsetrain fp32"}, {Name: "vsetrain bf16", Color: 1}}}
	for _, s := range steps {
		torch := s.number["pytorch_fp32_ms"]
		if torch == 0 {
			continue
		}
		b.Groups = append(b.Groups, s.text["network"])
		for i, column := range []string{"fp32_ms", "bf16_ms"} {
			ratio := 0.0
			if ms := s.number[column]; ms > 0 {
				ratio = torch / ms
			}
			b.Series[i].X = append(b.Series[i].X, ratio)
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
	return b.put("docs/cuda-internals.md", "registers", t.String())
}
