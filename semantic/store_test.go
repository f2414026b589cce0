package semantic

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"vsetrain/internal/compute/par"
	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

func TestOpenText(t *testing.T) {
	path := writeFile(t, "train_svd.txt", "0.5,-1.25e-3,3\r\n1, 2 ,-0.0\n0.1,0.2,0.30000000000000004\n")
	s := try.Get(Open(path, OpenOptions{Captions: 3}))(t)
	defer s.Close()
	row := make([]float32, 3)
	for i, want := range [][]float32{{0.5, -1.25e-3, 3}, {1, 2, 0}, {0.1, 0.2, 0.3}} {
		if err := s.ReadRow(row, i); err != nil || !slices.Equal(row, want) {
			t.Errorf("row %d is %v (%v), want %v", i, row, err, want)
		}
	}
	if err := s.ReadRow(row, 3); err == nil {
		t.Error("row 3 of 3 was read")
	}
	try.Refuses(Open(path, OpenOptions{Captions: 4}))(t, "each of 4 captions", "found 3 rows")
	for text, want := range map[string]string{
		"":                 "the file is empty",
		"1,2\n3\n":         ":2: expected 2 comma-separated numbers as in the first line, found 1",
		"1,2\n3,4\n5,x7\n": `:3: column 2: expected a finite number, found "x7"`,
		"1,2\n\n3,4\n":     ":2: expected 2",
		"1,NaN\n":          `:1: column 2: expected a finite number, found "NaN"`,
		"1,-inf\n":         ":1: column 2",
		"1e39\n":           ":1: column 1",
		"1,\n":             `:1: column 2: expected a finite number, found ""`,
	} {
		try.Refuses(Open(writeFile(t, "bad.txt", text), OpenOptions{}))(t, "bad.txt", want)
	}
	try.Refuses(Open(filepath.Join(t.TempDir(), "none.txt"), OpenOptions{}))(t, "none.txt")
}

// Blocks, lines across their borders and line numbers of errors far into a file.
func TestParseTextOfManyBlocks(t *testing.T) {
	var text bytes.Buffer
	var want []float32
	const dim = 60
	for i := 0; text.Len() < 9*textBlock; i++ {
		for j := range dim {
			v := math.Sin(float64(i*dim + j))
			sep := ","
			if j == dim-1 {
				sep = "\n"
			}
			fmt.Fprintf(&text, "%v%s", v, sep)
			want = append(want, float32(v))
		}
	}
	pool := par.New(2)
	defer pool.Close()
	got, k, err := parseText(iotest.HalfReader(bytes.NewReader(text.Bytes())), pool)
	if err != nil || k != dim || !slices.Equal(got, want) {
		t.Fatalf("%d values of dimension %d (%v), want %d of %d", len(got), k, err, len(want), dim)
	}
	lines := len(want) / dim
	broken := bytes.Replace(text.Bytes(), []byte("\n"), []byte(",\n"), lines-1)
	broken = append(bytes.Replace(broken, []byte(",\n"), []byte("\n"), lines-2), '1')
	_, _, err = parseText(bytes.NewReader(broken), pool)
	try.Fails(t, err, fmt.Sprintf(":%d: expected %d", lines-1, dim))
	gone := errors.New("gone")
	if _, _, err := parseText(iotest.ErrReader(gone), pool); !errors.Is(err, gone) {
		t.Errorf("read error became %v", err)
	}
}

func TestOpenNPYErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, dtype npy.DType, shape []int, v ...float32) string {
		path := filepath.Join(dir, name)
		w := try.Get(npy.Create(path, dtype, shape))(t)
		try.Do(t, errors.Join(w.WriteFloat32(v), w.Close()))
		return path
	}
	for _, d := range []npy.DType{npy.F16, npy.F32, npy.F64} {
		s := try.Get(Open(file("good.npy", d, []int{2, 2}, 1, 2, 3, 4),
			OpenOptions{Captions: 2, CaptionFile: "not needed without a description"}))(t)
		row := make([]float32, 2)
		if err := s.ReadRow(row, 1); err != nil || row[0] != 3 || row[1] != 4 {
			t.Errorf("%s: row 1 is %v (%v)", d, row, err)
		}
		s.Close()
	}
	_, err := Open(file("ints.npy", npy.I32, []int{1, 2}, 1, 2), OpenOptions{})
	try.Fails(t, err, "ints.npy", "found <i4")
	_, err = Open(file("flat.npy", npy.F32, []int{4}, 1, 2, 3, 4), OpenOptions{})
	try.Fails(t, err, "flat.npy", "expected shape [captions, dim]", "[4]")
	try.Refuses(Open(writeFile(t, "short.npy", "\x93NUMPY"), OpenOptions{}))(t, "short.npy")

	s := try.Get(Open(file("nan.npy", npy.F32, []int{2, 2}, 1, 2, 3, float32(math.NaN())), OpenOptions{}))(t)
	defer s.Close()
	row := make([]float32, 2)
	try.Do(t, s.ReadRow(row, 0))
	try.Fails(t, s.ReadRow(row, 1), "nan.npy", "row 1, column 1 is NaN")

	for _, text := range []string{"{", `{"format": "other"}`, strings.Repeat(" ", maxSidecar+1)} {
		path := file("side.npy", npy.F32, []int{1, 1}, 1)
		try.Do(t, os.WriteFile(sidecarPath(path), []byte(text), 0o666))
		try.Refuses(Open(path, OpenOptions{}))(t, "side.npy.json", "remove it")
	}
}

// A text that parses has whole rows of finite numbers, and parses to the same when written again.
func FuzzParseText(f *testing.F) {
	for _, s := range []string{"", "1", "1,2\n3,4\n", "1,2\n3\n", "nan\n", "1e400,2", ",", "0x1p-2, 5\r\n", "\n\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		pool := par.New(1)
		defer pool.Close()
		v, dim, err := parseText(bytes.NewReader(text), pool)
		if err != nil {
			return
		}
		if dim < 1 || len(v) == 0 || len(v)%dim != 0 {
			t.Fatalf("%d values of dimension %d", len(v), dim)
		}
		var again bytes.Buffer
		for i, x := range v {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				t.Fatalf("value %d is %v", i, x)
			}
			sep := byte(',')
			if (i+1)%dim == 0 {
				sep = '\n'
			}
			fmt.Fprintf(&again, "%v%c", x, sep)
		}
		w, dim2, err := parseText(&again, pool)
		if err != nil || dim2 != dim || !slices.Equal(w, v) {
			t.Fatalf("%v of dimension %d became %v of dimension %d (%v)", v, dim, w, dim2, err)
		}
	})
}

// Any bytes are a caption: its terms are words of letters, at least two long.
func FuzzTerms(f *testing.F) {
	for _, s := range []string{"A dog's toys!", "#winter a#b ies sses", "caf\xc3\xa9 \xff\xfe",
		"ying eed ing alli fulli logi"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		var again []string
		for _, w := range strings.Fields(clean(line)) {
			for _, p := range strings.Split(w, "#") {
				if len(p) > 1 && !sklearnStop[p] {
					again = append(again, p)
				}
			}
		}
		terms := Terms(line)
		if !slices.Equal(terms, again) && len(terms)+len(again) > 0 {
			t.Fatalf("terms %q, of the cleaned line %q", terms, again)
		}
		for _, w := range terms {
			if len(w) < 2 || strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") != "" {
				t.Fatalf("term %q", w)
			}
		}
	})
}

// Vectors without a description are taken, and a warning names what is missing and the command that makes it.
func TestUnknownCaptions(t *testing.T) {
	for name, command := range map[string]string{"train_svd.txt": "precompute-svd --data ",
		"train_bert.txt": "precompute-bert --bert DIR --data "} {
		path := writeFile(t, name, "1,2\n")
		dir := filepath.Dir(path)
		var warnings []error
		o := OpenOptions{CaptionFile: filepath.Join(dir, "dev_caps.txt"),
			Warn: func(err error) { warnings = append(warnings, err) }}
		s, err := Open(path, o)
		if err != nil || len(warnings) != 1 {
			t.Fatal(err, warnings)
		}
		s.Close()
		try.Fails(t, warnings[0], path, "there is no "+path+".json", "the captions of "+o.CaptionFile, command+dir+
			" --split dev --out "+path+" --force' makes both")
	}
}
