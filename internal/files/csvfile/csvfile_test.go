package csvfile

import (
	"bytes"
	"encoding/csv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// Cells are read as they were, but for the mark in front of those that a spreadsheet would compute.
func TestWriter(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	letters := []rune("=+-@\t\r\n'\",;1.e ab＝é")
	var b bytes.Buffer
	w := NewWriter(&b)
	var want [][]string
	for range 3000 {
		record := make([]string, 3)
		marked := make([]string, 3)
		for i := range record {
			word := make([]rune, rng.IntN(5))
			for k := range word {
				word[k] = letters[rng.IntN(len(letters))]
			}
			record[i] = string(word)
			marked[i] = strings.ReplaceAll(record[i], "\r\n", "\n") // package csv reads it so
		}
		try.Do(t, w.Write(record))
		want = append(want, marked)
	}
	for cell, marked := range map[string]string{"-0.5": "-0.5", "+1e-3": "+1e-3", "-1+cmd": "'-1+cmd", "=1": "'=1",
		"@SUM(A1)": "'@SUM(A1)", "＝1": "'＝1", "a=1": "a=1", "": "", "-": "-", "--": "'--"} {
		try.Do(t, w.Write([]string{cell, "", ""}))
		want = append(want, []string{marked, "", ""})
	}
	w.Flush()
	got := try.Get(csv.NewReader(&b).ReadAll())(t)
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i, record := range got {
		for k, cell := range record {
			first := strings.TrimLeft(cell, " ")
			if i < 3000 && first != "" && strings.ContainsRune("=@\t\r\n＝", []rune(cell)[0]) {
				t.Fatalf("record %d: %q begins a formula", i, cell)
			}
			if i < 3000 && strings.HasPrefix(cell, "'") && !strings.HasPrefix(want[i][k], "'") {
				record[k] = cell[1:]
			}
		}
		if !slices.Equal(record, want[i]) {
			t.Fatalf("record %d: %q, want %q", i, record, want[i])
		}
	}
}
