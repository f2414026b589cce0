package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"vsetrain/internal/apps/chart"
)

// step is one row of steps.csv: medians in milliseconds, memory in GB. A number that was not measured is 0.
type step struct {
	date, machine, network string
	batch                  int
	torch, fp32, bf16      float64
	torchGB, gb            float64
}

// stepColumns are the columns of steps.csv in their order.
var stepColumns = []string{"date", "machine", "network", "batch", "pytorch_fp32_ms", "pytorch_fp32_best_ms", "fp32_ms",
	"fp32_best_ms", "bf16_ms", "bf16_best_ms", "pytorch_gb", "vsetrain_gb", "peak_fp32_percent", "peak_bf16_percent"}

// readSteps returns the newest row of every network, in the order in which networks first appear. Rows are in the order
// of their dates; an empty cell was not measured.
func readSteps(r io.Reader) ([]step, error) {
	rows := csv.NewReader(r)
	head, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("read the heads of the columns: %w", err)
	}
	if !slices.Equal(head, stepColumns) {
		return nil, fmt.Errorf("columns %q, expected %q", head, stepColumns)
	}
	var steps []step
	last := ""
	for {
		cells, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return steps, nil
		}
		if err != nil {
			return nil, err
		}
		line, _ := rows.FieldPos(0)
		s, err := readStep(cells)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if s.date < last {
			return nil, fmt.Errorf("line %d: the date %s is before %s of the row above; append new rows", line, s.date,
				last)
		}
		last = s.date
		if i := slices.IndexFunc(steps, func(o step) bool { return o.network == s.network }); i >= 0 {
			steps[i] = s
		} else {
			steps = append(steps, s)
		}
	}
}

func readStep(cells []string) (step, error) {
	s := step{date: cells[0], machine: cells[1], network: cells[2]}
	if _, err := time.Parse(time.DateOnly, s.date); err != nil {
		return s, fmt.Errorf("date %q, expected 2006-01-02", s.date)
	}
	if s.machine == "" || s.network == "" {
		return s, errors.New("a row needs a machine and a network")
	}
	numbers := make([]float64, len(cells))
	for i, cell := range cells[3:] {
		if cell == "" {
			continue
		}
		v, err := strconv.ParseFloat(cell, 64)
		if err != nil || !(v > 0) || v > 1e9 {
			return s, fmt.Errorf("%s %q, expected a number above 0, or nothing", stepColumns[i+3], cell)
		}
		numbers[i+3] = v
	}
	s.batch, s.torch, s.fp32, s.bf16, s.torchGB, s.gb = int(numbers[3]), numbers[4], numbers[6], numbers[8],
		numbers[10], numbers[11]
	if s.batch == 0 {
		return s, errors.New("a row needs a batch")
	}
	return s, nil
}

// stepsTable is the table of docs/performance.md.
func stepsTable(steps []step) string {
	var b strings.Builder
	b.WriteString("| network | batch | PyTorch fp32, ms | fp32, ms | bf16, ms | fp32 against PyTorch | bf16 against " +
		"PyTorch | " +
		"memory: PyTorch | vsetrain | date |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range steps {
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s | %s | %s | %s | %s |\n", s.network, s.batch,
			milliseconds(s.torch),
			milliseconds(s.fp32), milliseconds(s.bf16), times(s.torch, s.fp32), times(s.torch, s.bf16),
			gigabytes(s.torchGB),
			gigabytes(s.gb), s.date)
	}
	return b.String()
}

const missing = "–"

// milliseconds writes 20076 as 20,076.
func milliseconds(v float64) string {
	if v == 0 {
		return missing
	}
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// times writes how many times as fast b is as a: two digits behind the point below 10, one above.
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
func stepsBars(steps []step) []byte {
	b := chart.Bars{Title: "Training steps: how many times as fast as PyTorch float32 on the same processor",
		X: "PyTorch is 1, the black line", Width: 17, Unit: 1, Label: func(v float64) string { return times(v, 1) },
		Series: []chart.Series{{Name: "vsetrain fp32"}, {Name: "vsetrain bf16", Color: 1}}}
	for _, s := range steps {
		if s.torch == 0 {
			continue
		}
		b.Groups = append(b.Groups, s.network)
		for i, ms := range []float64{s.fp32, s.bf16} {
			ratio := 0.0
			if ms > 0 {
				ratio = s.torch / ms
			}
			b.Series[i].X = append(b.Series[i].X, ratio)
		}
	}
	return b.Draw().SVG()
}
