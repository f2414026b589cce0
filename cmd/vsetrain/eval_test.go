package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"vsetrain/eval"
	"vsetrain/internal/stats"
	"vsetrain/lab/try"
)

// The tables of eval are sober: headings and what counts in bold, how it was measured faint. Files, pipes, NO_COLOR and
// --json are plain.
func TestEvalColours(t *testing.T) {
	dir := t.TempDir()
	files := make([]string, 2)
	for k := range files {
		d := &eval.Dense[float64]{Images: 4, Captions: 8, Data: make([]float64, 32)}
		for i := range d.Data {
			d.Data[i] = float64(i * (7 + 5*k) % 32)
		}
		files[k] = filepath.Join(dir, string(rune('a'+k))+".npy")
		try.Do(t, eval.SaveScores(nil, files[k], d))
	}
	run := func(tty, colour bool, args ...string) string {
		var out, errs bytes.Buffer
		a := newApp(&out, &errs)
		a.OutTTY, a.Color, a.Width = tty, colour, 200
		if code := a.run(append([]string{"eval", "--threads", "1"}, args...)); code != exitOK {
			t.Fatalf("%v: exit code %d, %s", args, code, errs.String())
		}
		return out.String()
	}
	one, two := []string{"--scores", files[0]}, []string{"--compare", files[0], files[1], "--resamples", "50"}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{one, []string{"\x1b[1mprotocol whole\x1b[0m\n", "M-Recall \x1b[1m", "\x1b[2mties: "}},
		{two, []string{"\x1b[2mi2t: image to text, t2i: text to image; intervals: ", "\nM-Recall  "}},
	} {
		text := run(true, true, c.args...)
		plain := run(true, false, c.args...)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
		bare := strings.NewReplacer("\x1b[1m", "", "\x1b[2m", "", "\x1b[0m", "").Replace(text)
		if bare != plain || run(false, true, c.args...) != plain || strings.Contains(plain, "\x1b") {
			t.Errorf("colours change more than colours:\n%s\n%s", bare, plain)
		}
		json := run(true, true, append(c.args, "--json", "-")...)
		if strings.Contains(json, "\x1b") || !strings.HasPrefix(json, "{") {
			t.Errorf("--json: %.100q", json)
		}
	}
	for _, pair := range [][]string{files, {files[1], files[0]}} {
		rows := 0
		for line := range strings.Lines(run(true, true, "--compare", pair[0], pair[1], "--resamples", "50")) {
			if m := compared.FindStringSubmatch(line); m != nil {
				rows++
				if a, b := number(t, m[2]), number(t, m[4]); (m[1] != "") != (a > b) || (m[3] != "") != (b > a) {
					t.Errorf("the better of %v and %v is not in bold: %q", a, b, line)
				}
			}
		}
		if rows != 7 {
			t.Errorf("%d measures have the better value in bold and their intervals faint, want 7", rows)
		}
	}
}

// A comparison with the usual numbers fits a terminal of 80 columns, its p-values included.
func TestComparisonFits(t *testing.T) {
	var out bytes.Buffer
	a := newApp(&out, &out)
	a.OutTTY = true
	var list []eval.Difference
	for name := range measureNames {
		list = append(list, eval.Difference{Measure: name, P: 0.0123,
			A:          eval.Estimate{Value: 53.1, Interval: stats.Interval{Low: 50.1, High: 56.2}},
			B:          eval.Estimate{Value: 52.5, Interval: stats.Interval{Low: 49.9, High: 55.8}},
			Difference: eval.Estimate{Value: 0.6, Interval: stats.Interval{Low: -1.48, High: 2.71}}})
	}
	printDifferences(a, eval.DefaultCompareOptions(), list, 1000)
	if n := strings.Count(out.String(), " 0.0123\n"); n != len(list) {
		t.Errorf("%d of %d rows show their p-value:\n%s", n, len(list), out.String())
	}
}

// compared is a row of a comparison: A and B, with the escape sequence in front of a bold one.
var compared = regexp.MustCompile(`^\S.* {2,}(\x1b\[1m)?([0-9.]+)(?:\x1b\[0m)? +\x1b\[2m[0-9.]+ to [0-9.]+\x1b\[0m +` +
	`(\x1b\[1m)?([0-9.]+)(?:\x1b\[0m)? +\x1b\[2m`)

func number(t *testing.T, s string) float64 {
	t.Helper()
	return try.Get(strconv.ParseFloat(s, 64))(t)
}
