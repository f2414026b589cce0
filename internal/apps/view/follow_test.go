package view

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// Whatever the pieces in which a file grows, the records are the whole file's; a torn line waits for its rest.
func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	f := follower{path: path}
	check := func(steps, validations int) {
		t.Helper()
		try.Do(t, f.read())
		if len(f.Steps) != steps || len(f.Validations) != validations {
			t.Fatalf("%d steps and %d validations, want %d and %d", len(f.Steps), len(f.Validations), steps,
				validations)
		}
	}
	check(0, 0) // no file yet
	text := `{"kind":"train","step":1,"loss":3}` + "\n" + `{"kind":"val","step":1,"m_recall":7}` + "\n"
	for n := range len(text) + 1 {
		write(t, path, text[:n])
		if err := f.read(); err != nil {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
	check(1, 1)
	if f.Steps[0].Loss != 3 || f.Validations[0].MRecall != 7 {
		t.Errorf("%+v", f.Log)
	}
	long := `{"kind":"train","step":2,"pad":"` + strings.Repeat("x", 200_000) + "\"}\n" // longer than the buffer
	write(t, path, text+long+`{"kind":"train","step":3}`+"\n")
	earlier := f.Steps
	check(3, 1)
	// A resumed run cuts lines off and writes others: shorter, and then as long as before.
	write(t, path, `{"kind":"train","step":1,"loss":4}`+"\n")
	check(1, 0)
	write(t, path, `{"kind":"train","step":1,"loss":5}`+"\n"+`{"kind":"train","step":2,"loss":6}`+"\n")
	check(2, 0)
	if f.Steps[0].Loss != 5 || earlier[0].Loss != 3 {
		t.Errorf("the records are %+v, those handed out before %+v", f.Steps, earlier)
	}
	try.Do(t, os.Remove(path))
	check(0, 0)
}

// Mistakes name file and line.
func TestFollowMistakes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	for text, want := range map[string]string{
		`{"kind":"val"}` + "\nno\n":          ":2: expected a JSON object",
		`{"kind":"new"}` + "\n":              `:1: kind "new"; expected "train" or "val"`,
		`{"kind":"train","step":"x"}` + "\n": ":1: ",
		`{"kind":"val","i2t":3}` + "\n":      ":1: ",
		strings.Repeat("x", maxLine+100_000): ":1: a line of more than",
	} {
		write(t, path, text)
		try.Fails(t, (&follower{path: path}).read(), path+want)
	}
}
