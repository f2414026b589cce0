package runfs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

func countLines(t *testing.T, path string) int {
	t.Helper()
	b := try.Get(os.ReadFile(path))(t)
	lines := bytes.SplitAfter(b, []byte("\n"))
	if rest := lines[len(lines)-1]; len(rest) > 0 {
		t.Errorf("torn line %q", rest)
	}
	for _, l := range lines[:len(lines)-1] {
		if !json.Valid(l) {
			t.Errorf("broken line %q", l)
		}
	}
	return len(lines) - 1
}

// wantLines checks the number of lines of a log; when says of which state.
func wantLines(t *testing.T, path string, want int, when string) {
	t.Helper()
	if got := countLines(t, path); got != want {
		t.Errorf("%s: %d lines, want %d", when, got, want)
	}
}

func openLog(t *testing.T, path string) *Log {
	t.Helper()
	l := try.Get(OpenLog(path, All))(t)
	t.Cleanup(func() { l.f.Close() })
	return l
}

func stepLine(step int) map[string]any { return map[string]any{"step": step, "loss": 0.5} }

// Whatever the length to which a kill cut the file, the log reopens with the whole lines before and continues.
func TestTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), MetricsName)
	l := openLog(t, path)
	for i := range 3 {
		try.Do(t, l.Append(stepLine(i)))
	}
	whole := try.Get(os.ReadFile(path))(t)
	for n := range len(whole) + 1 {
		torn := whole[:n]
		try.Do(t, os.WriteFile(path, torn, 0o644))
		l := openLog(t, path)
		try.Do(t, l.Append(stepLine(99)))
		wantLines(t, path, bytes.Count(torn, []byte("\n"))+1, fmt.Sprint("cut at ", n))
		l.Close()
	}
}

// A power failure may leave blocks of zeros at the end; a broken line anywhere else is not ours to repair.
func TestBrokenLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), MetricsName)
	try.Do(t, os.WriteFile(path, []byte("{\"step\":1}\n\x00\x00\x00\n\x00"), 0o644))
	openLog(t, path)
	wantLines(t, path, 1, "zeros at the end")
	text := "{\"step\":1}\n{\"st\n{\"step\":3}\n"
	try.Do(t, os.WriteFile(path, []byte(text), 0o644))
	try.Refuses(OpenLog(path, All))(t, path+":2: expected a JSON object")
	if b, _ := os.ReadFile(path); string(b) != text {
		t.Errorf("the file was changed to %q", b)
	}
}

// After the lines that a checkpoint counts, a power failure may have left anything: the log ends before it. A broken
// line among those that count is an error, whatever follows.
func TestBrokenLineBehindTheCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), MetricsName)
	const one, two = "{\"step\":1}\n", "{\"step\":2}\n"
	zeros := strings.Repeat("\x00", 4096)
	for _, c := range []struct {
		text        string
		counted     int
		lines, want int // want: the number of the line that is refused, 0 for none
	}{
		{one + two + zeros + two + two, 2, 2, 0},
		{one + two + zeros + "\n" + two, 2, 2, 0},
		{one + two + zeros + two + two, 3, 0, 3},
		{one + two + zeros + two + two, All, 0, 3},
		{one + zeros + "\n" + two, 2, 0, 2},
		{zeros + one + two, 0, 0, 0},
		{one + two + zeros, 3, 2, 0},
		{one + strings.Repeat(zeros, 300), All, 1, 0},
		{one + "[" + strings.Repeat(" ", maxLine) + "]\n" + two, All, 0, 2},
		{one + "[" + strings.Repeat(" ", maxLine) + "]\n" + two, 1, 1, 0},
	} {
		try.Do(t, os.WriteFile(path, []byte(c.text), 0o644))
		read, readErr := ReadLog(path, c.counted, func([]byte, int) (bool, error) { return true, nil })
		l, err := OpenLog(path, c.counted)
		if c.want > 0 {
			for _, err := range []error{err, readErr} {
				try.Fails(t, err, fmt.Sprintf("%s:%d: expected a JSON object", path, c.want))
			}
			continue
		}
		try.Do(t, errors.Join(err, readErr))
		l.Close()
		if got := countLines(t, path); got != c.lines || read != c.lines || l.lines != c.lines {
			t.Errorf("%.60q, %d counted: %d lines, read %d, want %d", c.text, c.counted, got, read, c.lines)
		}
	}
}

func TestTruncateAfter(t *testing.T) {
	path := filepath.Join(t.TempDir(), MetricsName)
	l := openLog(t, path)
	for _, v := range []any{map[string]string{"note": "begin"}, stepLine(10), stepLine(20), stepLine(20), stepLine(30),
		map[string]string{"note": "end"}} {
		try.Do(t, l.Append(v))
	}
	for _, c := range []struct{ step, lines int }{{100, 6}, {30, 6}, {29, 4}, {20, 4}, {5, 1}, {5, 1}} {
		try.Do(t, l.TruncateAfter(int64(c.step)))
		wantLines(t, path, c.lines, fmt.Sprint("after step ", c.step))
	}
	try.Do(t, l.Append(stepLine(6)))
	wantLines(t, path, 2, "after going on")
	try.Do(t, l.Append(map[string]any{"step": "seven"}))
	try.Fails(t, l.TruncateAfter(6), path+":3: ")
}

// At the step of the resumed position, lines of the undone kinds go and others stay.
func TestTruncateUndone(t *testing.T) {
	path := filepath.Join(t.TempDir(), MetricsName)
	l := openLog(t, path)
	for _, kind := range []string{"train", "val"} {
		try.Do(t, l.Append(map[string]any{"kind": kind, "step": 10}))
	}
	for _, c := range []struct {
		undone []string
		lines  int
	}{{nil, 2}, {[]string{"other"}, 2}, {[]string{"val"}, 1}, {[]string{"train"}, 0}} {
		try.Do(t, l.TruncateAfter(10, c.undone...))
		wantLines(t, path, c.lines, fmt.Sprint("undone ", c.undone))
	}
}

func TestAppendRefusesNaN(t *testing.T) {
	l := openLog(t, filepath.Join(t.TempDir(), MetricsName))
	try.Fails(t, l.Append(map[string]float64{"loss": math.NaN()}), "NaN")
	wantLines(t, l.path, 0, "NaN")
}

// FuzzOpenLog: any file either opens, and then holds whole lines only, or is refused unchanged.
func FuzzOpenLog(f *testing.F) {
	for _, s := range []string{"", "\n", "{}\n", "{}\n{", "{}\n\x00\n", "[1]\n{\"step\":2}\n", "x\n{}\n",
		"{\"step\":1e9}\n{}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "log")
		try.Do(t, os.WriteFile(path, b, 0o644))
		l, err := OpenLog(path, All)
		if err != nil {
			if after, _ := os.ReadFile(path); !bytes.Equal(after, b) {
				t.Errorf("refused, but changed to %q", after)
			}
			return
		}
		defer l.Close()
		before := countLines(t, path)
		try.Do(t, l.Append(stepLine(1)))
		wantLines(t, path, before+1, "appended")
	})
}
