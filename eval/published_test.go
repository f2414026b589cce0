package eval

import (
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// The program's table has at least 25 checkpoints; each recall is printed to a tenth, and each quirk is a row of
// docs/fidelity.md.
func TestPublishedCheckpoints(t *testing.T) {
	list := PublishedCheckpoints()
	if len(list) < 25 {
		t.Errorf("%d checkpoints, want at least 25", len(list))
	}
	b := try.Get(os.ReadFile("../docs/fidelity.md"))(t)
	url := regexp.MustCompile(`^https://[a-z.]+/\S+$`)
	for _, p := range list {
		if !url.MatchString(p.Where) {
			t.Errorf("%s is at %q", p.Name, p.Where)
		}
		if p.Network == "" && p.Note == "" {
			t.Errorf("%s is not read, and no note says why", p.Name)
		}
		for _, n := range p.Recalls {
			for i, v := range n.Values {
				if !math.IsNaN(v) && math.Abs(10*v-math.Round(10*v)) > 1e-9 {
					t.Errorf("%s: %s is %v, want tenths", p.Name, RecallNames[i], v)
				}
				if k := i % 3; k > 0 && v < n.Values[i-1] {
					t.Errorf("%s: %s is %v, below %v", p.Name, RecallNames[i], v, n.Values[i-1])
				}
			}
			for _, q := range n.Quirks {
				if !strings.Contains(string(b), "| "+q+" |") {
					t.Errorf("%s: %s is no row of docs/fidelity.md", p.Name, q)
				}
			}
		}
	}
}

// A difference counts beyond the rounding of what is printed.
func TestOffThePublishedRecalls(t *testing.T) {
	p := PublishedRecalls{Values: [6]float64{75.6, 92.7, math.NaN(), 56.5, 82, 88.4}}
	m := Metrics{I2T: Recalls{R1: 75.65, R5: 92.5, R10: 50}, T2I: Recalls{R1: 56.45, R5: 82.051, R10: 88.4}}
	off := p.Off(m)
	for i, want := range []float64{0, -0.2, math.NaN(), 0, 0.051, 0} {
		if math.IsNaN(want) != math.IsNaN(off[i]) || math.Abs(off[i]-want) > 1e-9 {
			t.Errorf("%s is off by %v, want %v", RecallNames[i], off[i], want)
		}
	}
	if at, any := Largest(off); at != 1 || !any {
		t.Errorf("the largest difference is %d, %v", at, any)
	}
	if _, any := Largest([6]float64{0, math.NaN()}); any || p.Known() != 5 {
		t.Errorf("a difference where there is none, or %d recalls known", p.Known())
	}
}

func TestBadPublishedTables(t *testing.T) {
	head := strings.Join(publishedColumns, "\t") + "\n"
	row := func(set ...string) string {
		cells := []string{"a", "f", "saf", "f30k", "1k", "1", "2", "3", "4", "5", "6", "", "", "https://x", "README",
			""}
		for i := 0; i < len(set); i += 2 {
			for k, c := range publishedColumns {
				if c == set[i] {
					cells[k] = set[i+1]
				}
			}
		}
		return strings.Join(cells, "\t") + "\n"
	}
	for _, c := range []struct{ table, want string }{
		{"", "p.tsv: expected a header line"},
		{head, "p.tsv: expected a header line"},
		{"name\tfiles\n", `p.tsv:1: columns ["name" "files"], expected`},
		{head + "a\tb\n", "p.tsv:2: 2 cells, expected 16"},
		{head + row("name", ""), "p.tsv:2: expected a name"},
		{head + row("files", ""), "p.tsv:2: expected a name without blanks, a file"},
		{head + row("protocol", "2k"), `p.tsv:2: unknown protocol "2k"`},
		{head + row("protocol", ""), "p.tsv:2: no protocol"},
		{head + row("i2t_r5", "101"), `p.tsv:2: i2t R@5 is "101", expected percent`},
		{head + row("i2t_r5", "NaN"), `p.tsv:2: i2t R@5 is "NaN"`},
		{head + row("source", ""), "p.tsv:2: recalls without a source"},
		{head + row("sha256", "12"), `p.tsv:2: SHA-256 "12", expected 64`},
		{head + row("sha256", strings.Repeat("ab", 32)+","+strings.Repeat("cd", 32)), "p.tsv:2: 2 hashes of 1 files"},
		{head + row("quirks", "Q1,box"), `p.tsv:2: quirk "box"`},
		{head + row() + row(), "p.tsv:3: the protocol 1k of a again"},
		{head + row() + row("protocol", "5k", "network", "sgr"), "p.tsv:3: the rows of a differ"},
		{head + row() + row("name", "b") + row("protocol", "5k"), "p.tsv:4: the name a again"},
	} {
		try.Refuses(ReadPublished(strings.NewReader(c.table), "p.tsv"))(t, c.want)
	}
	good := head + row() + row("protocol", "5k", "i2t_r1", "") + row("name", "b")
	list, err := ReadPublished(strings.NewReader(good), "p.tsv")
	if err != nil || len(list) != 2 || len(list[0].Recalls) != 2 || list[0].Recalls[1].Known() != 5 {
		t.Errorf("%+v, %v", list, err)
	}
}
