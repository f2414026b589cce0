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
		`"../s7/test.json" is no stored file of a relative name`: {Name: "../s7/test.json"},
		`"/s7/test.json" is no stored file of a relative name`:   {Name: "/s7/test.json"},
		`"s7/" is no stored file of a relative name`:             {Name: "s7/"},
		`"s7/test.json" is no stored file of a relative name`:    {Name: "s7/test.json", Method: zip.Deflate},
		`"s9/test.json" and the files before it have more than`:  {Name: "s9/test.json", UncompressedSize64: mostRuns},
		"runs.zip: s8/test.json: duplicate entries":         {Name: "s8/test.json"},
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

const heads = "date,machine,network,batch,pytorch_fp32_ms,pytorch_fp32_best_ms,fp32_ms,fp32_best_ms,bf16_ms," +
	"bf16_best_ms," +
	"pytorch_gb,vsetrain_gb,peak_fp32_percent,peak_bf16_percent\n"

func TestNewestRowCounts(t *testing.T) {
	steps := try.Get(readSteps(strings.NewReader(heads +
		"2026-01-01,m,VSE++,128,900,,300,,150,,3.4,1.2,,\n" +
		"2026-01-01,m,SCAN,128,,,2000,,,,,,,\n" +
		"2026-01-02,m,VSE++,128,12000,,400,,,,,,,\n")))(t)
	const want = "| VSE++ | 128 | 12,000 | 400 | – | 30.0x | – | – | – | 2026-01-02 |\n" +
		"| SCAN | 128 | – | 2,000 | – | – | – | – | – | 2026-01-01 |\n"
	if got := stepsTable(steps); !strings.HasSuffix(got, want) {
		t.Errorf("the table is\n%s\nexpected to end in\n%s", got, want)
	}
	chart := string(stepsBars(steps))
	if !strings.Contains(chart, ">30.0x</text>") || strings.Contains(chart, "SCAN") {
		t.Errorf("the chart shows what was measured beside PyTorch, and no other network:\n%s", chart)
	}
}

func TestBadSteps(t *testing.T) {
	for _, c := range []struct{ rows, want string }{
		{"date,network\n", "columns [\"date\" \"network\"], expected"},
		{heads + "2026-01-02,m,SAF,128,,,,,,,,,,\n2026-01-01,m,SGR,128,,,,,,,,,,\n",
			"line 3: the date 2026-01-01 is before"},
		{heads + "yesterday,m,SAF,128,,,,,,,,,,\n", "line 2: date \"yesterday\""},
		{heads + "2026-01-01,,SAF,128,,,,,,,,,,\n", "line 2: a row needs a machine"},
		{heads + "2026-01-01,m,SAF,,,,,,,,,,,\n", "line 2: a row needs a batch"},
		{heads + "2026-01-01,m,SAF,128,,,-5,,,,,,,\n", "line 2: fp32_ms \"-5\", expected a number above 0"},
		{heads + "2026-01-01,m,SAF,128,,,NaN,,,,,,,\n", "line 2: fp32_ms \"NaN\", expected a number above 0"},
		{heads + "2026-01-01,m\n", "wrong number of fields"},
	} {
		try.Refuses(readSteps(strings.NewReader(c.rows)))(t, c.want)
	}
	if _, err := between([]byte("<!-- /steps -->\n<!-- steps -->\n"), "steps", ""); err == nil {
		t.Error("a page without a place for the table passed")
	}
}

// A diagram that cannot be read is refused.
func TestBadDiagrams(t *testing.T) {
	long := strings.Repeat("w", 24)
	a, b := block{"a", 0, 0, image, []string{"regions"}}, block{"b", 1, 0, pair, []string{"score"}}
	for want, d := range map[string]diagram{
		"blocks a and b overlap":               {blocks: []block{a, {"b", 0.5, 0.5, pair, nil}}},
		"block c has no room for":              {blocks: []block{a, {"c", 1, 0, pair, []string{long}}}},
		`a flow from "a" to "c", which are no`: {blocks: []block{a, b}, flows: [][2]string{{"a", "c"}}},
	} {
		try.Refuses(d.draw())(t, want)
	}
	svg, err := diagram{title: "t", blocks: []block{a, {"b", 1, 0, pair, []string{"s_jk < v_2 + 1"}}},
		flows: [][2]string{{"a", "b"}}}.draw()
	for _, want := range []string{`font-size="7" fill="#000000">jk<`, `font-size="9" fill="#000000">&lt; v<`} {
		if err != nil || !strings.Contains(string(svg), want) {
			t.Errorf("%v, no %s in\n%s", err, want, svg)
		}
	}
}

// The sweeps of the leaderboard offer every loss three rates; those of wrong captions offer the two larger ones.
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
		dir = filepath.Join(kept, leaderboardRuns, "n", dir)
		var lines strings.Builder
		for i, r := range recalls {
			fmt.Fprintf(&lines, `{"kind":"val","step":%d,"epoch":%d,"m_recall":%g}`+"\n", i+1, i+1, r)
		}
		try.Do(t, errors.Join(os.MkdirAll(dir, 0o755),
			os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(config), 0o644),
			os.WriteFile(filepath.Join(dir, "metrics.jsonl"), []byte(lines.String()), 0o644)))
	}
	dev, best, err := c.rated(kept)
	try.Do(t, err)
	const want = "| loss | 2e-4 | 5e-4 | 1.25e-3 | missing |\n|---|---:|---:|---:|---|\n" +
		"| a | 8.0 | **9.0** | - | 1.25e-3 |\n| b | - | - | - | 2e-4, 5e-4, 1.25e-3 |\n"
	if got := c.ratesTable(dev, best); got != want || len(best) != 1 || best["a"] != "5e-4" {
		t.Errorf("chosen %v, the table is\n%s\nexpected\n%s", best, got, want)
	}
}

// Predictions keep to what is certain: a batch of more pairs hides more, a network without parameters and norms waits
// for its scores alone, and a broken row is named.
func TestRanksTable(t *testing.T) {
	c := cluster{nodes: 1, gpus: 8, gradient: 4}
	n := ranked{parameters: 14.4, first: 2.1, step: 1.4, fixed: 0.6, forward: 0.3, behind: 0.45,
		embedding: 1024}
	if a, b := c.efficiency(n, 1024), c.efficiency(n, 8192); !(0 < a && a < b && b <= 1) {
		t.Errorf("efficiencies %v and %v", a, b)
	}
	// 2 x 4 MiB of embeddings, 64 bytes, the first of the parameters and of their gradients
	waits := 2*(0.02+4*1024*1024*7/8/370e6) + 0.02 + 2*(0.02+4*2.1e6*7/8/370e6)
	want := 1.4 / (1.4 + waits - 24*14.4e6/3.84e9*7/8)
	if got := c.efficiency(n, 1024); got < want-1e-6 || got > want+1e-6 {
		t.Errorf("efficiency %v, expected %v", got, want)
	}
	for row, want := range map[string]string{"SAF\t98": "2 cells, expected 13",
		"SAF\t1\t1\t1\t1\t1\t1\t1\tx\t1\t1\t1\t1": `"x", expected a number`} {
		try.Refuses(ranksTable(strings.NewReader(row)))(t, want)
	}
}

var (
	guessed = regexp.MustCompile(`[Gg]uessing gives[^|]{1,160}`)
	chance  = regexp.MustCompile(`of\s+([\d.]+)\s+on\s+(?:the\s+)?([\d,]+)\s+(?:\w+\s+)?images`)
)

// Pages that say what guessing gives on so many images with five captions each say what eval.Chance computes.
func TestChanceOnPages(t *testing.T) {
	pages := try.Get(filepath.Glob("../../docs/*"))(t)
	found := 0
	for _, page := range append(pages, "../../README.md") {
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
