package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/lab/try"
	"vsetrain/loss"
)

// The committed charts and tables show the committed numbers.
func TestCommitted(t *testing.T) {
	root := filepath.Join("..", "..")
	files := try.Get(generate(root))(t)
	for name, want := range files {
		had, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(had, want) {
			t.Errorf("%s does not show the numbers as they are; run make figures", name)
		}
	}
}

// The archive of runs is as it is packed, and one that is not is refused before anything is written.
func TestArchive(t *testing.T) {
	root := filepath.Join("..", "..")
	kept := filepath.Join(t.TempDir(), "runs")
	try.Do(t, unpack(filepath.Join(root, runsFile), kept))
	if had := try.Get(os.ReadFile(filepath.Join(root, runsFile)))(t); !bytes.Equal(try.Get(packed(kept))(t), had) {
		t.Errorf("%s is not as it is packed; unpack and pack it anew", runsFile)
	}
	try.Fails(t, unpack(filepath.Join(root, runsFile), kept), "file exists")
	for want, h := range map[string]zip.FileHeader{
		`"../s7/test.json" is not a stored file`:                {Name: "../s7/test.json"},
		`"/s7/test.json" is not a stored file`:                  {Name: "/s7/test.json"},
		`"s7/" is not a stored file`:                            {Name: "s7/"},
		`"s7/test.json" is not a stored file`:                   {Name: "s7/test.json", Method: zip.Deflate},
		`"s9/test.json" and the files before it have more than`: {Name: "s9/test.json", UncompressedSize64: mostRuns},
		"runs.zip: s8/test.json: duplicate entries":             {Name: "s8/test.json"},
	} {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		f := try.Get(w.CreateHeader(&zip.FileHeader{Name: "s8/test.json"}))(t)
		try.Get(f.Write([]byte("{}")))(t)
		try.Get(w.CreateRaw(&h))(t)
		folder, file := filepath.Join(t.TempDir(), "runs"), filepath.Join(t.TempDir(), "runs.zip")
		try.Do(t, errors.Join(w.Close(), os.WriteFile(file, b.Bytes(), 0o644)))
		try.Fails(t, unpack(file, folder), want)
		if _, err := os.Stat(folder); err == nil && h.Name != "s8/test.json" { // that is seen last
			t.Errorf("%s: files were written", want)
		}
	}
}

// steps reads rows below the heads of steps.csv.
func steps(rows string) ([]row, error) {
	heads := strings.ReplaceAll(strings.Join(stepColumns, ","), ">", "")
	read, err := readRows(strings.NewReader(heads+"\n"+rows), "steps.csv", stepColumns...)
	if err != nil {
		return nil, err
	}
	return newest(read)
}

func TestNewestRowCounts(t *testing.T) {
	steps := try.Get(steps("2026-01-01,m,VSE++,128,fp32,900,,,300,3.4,1.2\n" +
		"2026-01-01,m,SCAN,128,fp32,,,,2000,,\n" +
		"2026-01-02,m,VSE++,128,fp32,13000,12000,,400,,\n" +
		"2026-01-02,g,VSE++,128,bf16,9,6.5,4,2,,\n"))(t)
	const want = "\nm, 2026-01-02:\n\n| network | batch | eager fp32 | compiled fp32 | vsetrain fp32 | times |\n" +
		"|---|---:|---:|---:|---:|---:|\n| VSE++ | 128 | 13,000 | 12,000 | 400 | 30.0x |\n" +
		"| SCAN | 128 | – | – | 2,000 | – |\n"
	got := stepsTables(steps)
	if !strings.HasPrefix(got, want) ||
		!strings.HasSuffix(got, "| VSE++ | 128 | 9.00 | 6.50 | 4.00 | 2.00 | 2.00x |\n") {
		t.Errorf("the tables are\n%s\nexpected\n%s and the fastest way of PyTorch on g", got, want)
	}
	drawn := string(stepsBars(steps))
	for text, there := range map[string]bool{">30.0x</text>": true, ">2.00x</text>": true, "m, fp32": true,
		"g, bf16": true, "g, fp32": false} {
		if strings.Contains(drawn, text) != there {
			t.Errorf("%q in the chart is %v, expected %v:\n%s", text, !there, there, drawn)
		}
	}
}

// A table, a page or a diagram that cannot be read is refused.
func TestBadSources(t *testing.T) {
	for _, c := range []struct{ rows, want string }{
		{"2026-01-02,m,SAF,128,fp32,,,,,,\n2026-01-01,m,SGR,128,fp32,,,,,,\n", ":3: the date 2026-01-01 is before"},
		{"yesterday,m,SAF,128,fp32,,,,,,\n", ":2: date \"yesterday\""},
		{"2026-01-01,,SAF,128,fp32,,,,,,\n", ":2: a row needs a machine"},
		{"2026-01-01,m,SAF,128,,,,,,,\n", ":2: a row needs a machine"},
		{"2026-01-01,m,SAF,,fp32,,,,,,\n", ":2: a row needs a machine"},
		{"2026-01-01,m,SAF,128,fp32,,,,-5,,\n", ":2: vsetrain_ms \"-5\", expected a number of at least 0"},
		{"2026-01-01,m,SAF,128,fp32,,,,NaN,,\n", ":2: vsetrain_ms \"NaN\", expected a number of at least 0"},
		{"2026-01-01,m,SAF,128,fp32,,,,1e10,,\n", ":2: vsetrain_ms \"1e10\", expected a number of at least 0"},
		{"2026-01-01,m\n", "steps.csv: record on line 2: wrong number of fields"},
	} {
		try.Refuses(steps(c.rows))(t, c.want)
	}
	for _, heads := range []string{"file\tsm_75\n", "file\tkernel\n", "date,network\n"} {
		try.Refuses(readRows(strings.NewReader(heads), "r.tsv", "file", "kernel", ">*"))(t, "r.tsv:1: columns")
	}
	b := &book{files: map[string][]byte{"page.md": []byte("<!-- /steps -->\n<!-- steps -->\n")}}
	try.Fails(t, b.put("page.md", "steps", ""), "page.md: expected the lines")
	for text, want := range map[string]string{
		"a\t0\t0\tpicture\tx\n": "expected a name, a column, a row",
		"a\t0\t?\timage\tx\n":   "expected a name, a column, a row",
		"a\t0\n":                "expected a name, a column, a row",
		"a\t0\t0\timage\tx\nb\t0.5\t0.5\tpair\ty\n":         "blocks a and b overlap",
		"a\t0\t0\timage\t" + strings.Repeat("w", 24) + "\n": "block a has no room for",
		"a\t0\t0\timage\tx | y | z | w\n":                   "block a has no room for",
		"b\t0\t0\timage\tx\n":                               `a>b: no block "a"`,
	} {
		_, _, err := diagram("file\ttitle\n" + text + "a>b\n")
		try.Fails(t, err, want)
	}
}

func TestDiagram(t *testing.T) {
	file, svg, err := diagram("f.svg\tt\na\t0\t0\timage\tregions\nb\t1\t0\tpair\ts_jk < v_2 + 1\na>b\n")
	if err != nil || file != "f.svg" {
		t.Fatal(file, err)
	}
	for _, want := range []string{`font-size="7" fill="#000000">jk<`, `font-size="9" fill="#000000">&lt; v<`} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("no %s in\n%s", want, svg)
		}
	}
}

// The sweeps of the leaderboard offer every loss three rates; sweeps with wrong captions offer the two larger ones.
func TestLeaderboardSweeps(t *testing.T) {
	all, err := contests()
	if err != nil || len(all) != 5 {
		t.Fatalf("%v, %d contests, expected three networks and two shares of wrong captions", err, len(all))
	}
	for _, c := range all {
		want := []string{"2e-4", "5e-4", "1.25e-3"}
		if c.prefix != "" {
			want = want[1:]
		}
		if !slices.Equal(c.rates, want) {
			t.Errorf("the rates of %s are %q, expected %q", c.name, c.rates, want)
		}
		if c.prefix != "" {
			continue
		}
		got := slices.Sorted(slices.Values(c.losses))
		want = slices.Sorted(slices.Values(loss.Names()))
		if !slices.Equal(got, want) {
			t.Errorf("the losses of %s are %q, expected all: %q", c.name, got, want)
		}
	}
}

// The best validation of the first seed chooses a rate, and a loss without runs has none.
func TestRateIsChosenOnDev(t *testing.T) {
	kept := t.TempDir()
	c := contest{folder: "n", rates: []string{"2e-4", "5e-4", "1.25e-3"}, losses: []string{"a", "b"}}
	const config = "version: 1\n"
	for dir, recalls := range map[string][]float64{"2e-4-a/s7": {1, 8, 7}, "5e-4-a/s7": {9, 3},
		"1.25e-3-a/s8": {50}} {
		dir = filepath.Join(kept, "leaderboard", "n", dir)
		var lines strings.Builder
		for i, r := range recalls {
			fmt.Fprintf(&lines, `{"kind":"val","step":%d,"epoch":%d,"m_recall":%g}`+"\n", i+1, i+1, r)
		}
		try.Do(t, errors.Join(os.MkdirAll(dir, 0o755),
			os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(config), 0o644),
			os.WriteFile(filepath.Join(dir, "metrics.jsonl"), []byte(lines.String()), 0o644)))
	}
	best, got, err := c.ratesOf(kept)
	try.Do(t, err)
	const want = "| loss | 2e-4 | 5e-4 | 1.25e-3 | missing |\n|---|---:|---:|---:|---|\n" +
		"| a | 8.0 | **9.0** | - | 1.25e-3 |\n| b | - | - | - | 2e-4, 5e-4, 1.25e-3 |\n"
	if got != want || len(best) != 1 || best["a"] != "5e-4" {
		t.Errorf("chosen %v, the table is\n%s\nexpected\n%s", best, got, want)
	}
}

var (
	guessed = regexp.MustCompile(`[Gg]uessing gives[^|]{1,160}`)
	chance  = regexp.MustCompile(`of\s+([\d.]+)\s+on\s+(?:the\s+)?([\d,]+)\s+(?:\w+\s+)?images`)
)

// Pages that say what guessing gives on that many images with five captions each say what eval.Chance computes.
func TestChanceOnPages(t *testing.T) {
	pages, log := try.Get(filepath.Glob("../../docs/*"))(t), try.Get(filepath.Glob("../../docs/log/*"))(t)
	found := 0
	for _, page := range slices.Concat(pages, log, []string{"../../README.md"}) {
		if ext := filepath.Ext(page); ext != ".md" && ext != ".ipynb" {
			continue
		}
		for _, text := range guessed.FindAllString(string(try.Get(os.ReadFile(page))(t)), -1) {
			said := chance.FindAllStringSubmatch(text, -1)
			for _, m := range said {
				n := try.Get(strconv.Atoi(strings.ReplaceAll(m[2], ",", "")))(t)
				if want := fmt.Sprintf("%.2f", eval.Chance(data.EqualGroups(n, 5)).MRecall); m[1] != want {
					t.Errorf("%s: guessing gives %s on %d images, want %s", page, m[1], n, want)
				}
				found++
			}
			if output := strings.HasPrefix(text, "guessing gives an M-Recall of 2.65\n"); len(said) == 0 && !output {
				t.Errorf("%s: %q names no number of images", page, text)
			}
		}
	}
	if found < 6 {
		t.Errorf("%d pages say what guessing gives", found)
	}
}
