package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"vsetrain/internal/apps/chart"
	"vsetrain/internal/apps/report"
	"vsetrain/internal/apps/sweep"
	"vsetrain/internal/run/config"
)

// docs/leaderboard.md: every loss with the same networks, starts, epochs and schedule (scripts/leaderboard.py).
const (
	leaderboardPage = "docs/leaderboard.md"
	leaderboardLog  = "docs/log/leaderboard.md"
	firstSeed       = 7 // chooses the rate
	lastSeed        = 9
)

// contest is one comparison of the leaderboard, which a sweep defines. Its runs are in folders PREFIX RATE-LOSS.
type contest struct {
	name, folder, prefix string
	rates, losses        []string // as the sweep names them, the rates in rising order, the base of the tables first
}

// contests are the contests of the sweeps of the leaderboard.
func contests() (all []contest, err error) {
	for _, sweepName := range config.SweepNames() {
		folder, ok := strings.CutPrefix(sweepName, "leaderboard-")
		if !ok {
			continue
		}
		d, err := sweep.Load(sweepName)
		if err != nil {
			return nil, err
		}
		axes := map[string][]string{}
		for _, a := range d.Axes {
			for _, v := range a.Values {
				axes[a.Name] = append(axes[a.Name], v.Text)
			}
		}
		slices.SortFunc(axes["rate"], func(a, b string) int {
			x, _ := strconv.ParseFloat(a, 64)
			y, _ := strconv.ParseFloat(b, 64)
			return cmp.Compare(x, y)
		})
		c := contest{folder, folder, "", axes["rate"], axes["loss"]}
		if axes["noise"] == nil {
			all = append(all, c)
		}
		for _, n := range axes["noise"] {
			c.name, c.prefix = folder+"-"+n, n+"-"
			all = append(all, c)
		}
	}
	return all, nil
}

// runAt is the folder of the runs of a loss with a rate, in the archive.
func (c *contest) runAt(rate, name string) string {
	return filepath.Join("leaderboard", c.folder, c.prefix+rate+"-"+name)
}

// ratesOf returns the best rate of each loss by the best M-Recall on dev of the first seed, as far as its runs exist,
// and the table of what each rate reaches, with the best in bold.
func (c *contest) ratesOf(kept string) (best map[string]string, text string, err error) {
	heads := []string{"loss"}
	for _, rate := range c.rates {
		heads = append(heads, ">"+rate)
	}
	t := newTable(append(heads, "missing")...)
	best = map[string]string{}
	for _, name := range c.losses {
		cells := make([]string, 1+len(c.rates))
		var gone []string
		top := -1 // index of the best rate
		reached := make([]float64, len(c.rates))
		for i, rate := range c.rates {
			dir := filepath.Join(kept, c.runAt(rate, name), fmt.Sprint("s", firstSeed))
			if _, err := os.Stat(dir); err != nil {
				gone = append(gone, rate)
				cells[1+i] = "-"
				continue
			}
			r, err := report.Open(dir)
			if err != nil {
				return nil, "", err
			}
			for _, v := range r.Validations {
				reached[i] = max(reached[i], v.MRecall)
			}
			cells[1+i] = fmt.Sprintf("%.1f", reached[i])
			if top < 0 || reached[i] > reached[top] {
				top = i
			}
		}
		if cells[0] = name; top >= 0 {
			best[name] = c.rates[top]
			cells[1+top] = "**" + cells[1+top] + "**"
		}
		t.row(append(cells, cmp.Or(strings.Join(gone, ", "), "none"))...)
	}
	return best, t.String(), nil
}

// leaderboard writes the table of docs/leaderboard.md, and those of docs/log/leaderboard.md with their charts.
func (b *book) leaderboard() error {
	list, err := contests()
	if err != nil {
		return err
	}
	var tests []*report.Table // of each contest
	for _, c := range list {
		best, rates, err := c.ratesOf(b.runs)
		if err != nil {
			return err
		}
		s := &study{tables: []string{primaryTable, queriesTable}, ranked: true}
		for _, name := range c.losses {
			s.settings = append(s.settings, setting{name, c.runAt(best[name], name), firstSeed, lastSeed})
		}
		runs, all, err := b.study(leaderboardLog, c.name, s)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		tests = append(tests, all[testTable])
		curves := noRuns
		if len(runs) > 0 {
			name := "leaderboard-" + c.name + ".svg"
			curves = fmt.Sprintf("![M-Recall on dev over epochs, seed %d](../%s)\n\nRuns of seed %[1]d, which "+
				"chose the rates.\n", firstSeed, name)
			b.files["docs/"+name] = leaderboardCurves(c.name, runs)
		}
		err = cmp.Or(b.put(leaderboardLog, c.name+" rates", rates), b.put(leaderboardLog, c.name+" curves", curves))
		if err != nil {
			return err
		}
	}
	return b.put(leaderboardPage, "losses", summary(list, tests))
}

// summary shows the M-Recall on the test split of every loss in every contest, the last one and the best there first.
func summary(list []contest, tests []*report.Table) string {
	heads, losses := []string{"loss"}, []string(nil)
	for _, c := range slices.Backward(list) {
		heads, losses = append(heads, ">"+c.name), append(losses, c.losses...)
	}
	slices.SortFunc(losses, func(a, b string) int {
		last := tests[len(tests)-1]
		return cmp.Or(cmp.Compare(cellOf(last, b, 2).Value, cellOf(last, a, 2).Value), cmp.Compare(a, b))
	})
	t := newTable(heads...)
	for _, name := range slices.Compact(losses) {
		cells := []string{name}
		for _, test := range slices.Backward(tests) {
			recall := cellOf(test, name, 2)
			if recall.Value >= 0 {
				recall.Text += " (" + cellOf(test, name, 1).Text + ")"
			}
			cells = append(cells, recall.Text)
		}
		t.row(cells...)
	}
	return t.String()
}

// leaderboardCurves draws the validations of the first seed of each loss.
func leaderboardCurves(name string, runs []*report.Run) []byte {
	f := chart.Figure{Title: name + ", seed " + fmt.Sprint(firstSeed), X: "epoch", Y: "M-Recall on dev"}
	for _, r := range runs {
		if r.Config.Seed != firstSeed {
			continue
		}
		s := chart.Series{Name: r.Label, Color: len(f.Series)}
		for _, v := range r.Validations {
			s.X, s.Y = append(s.X, v.Epoch), append(s.Y, v.MRecall)
		}
		f.Series = append(f.Series, s)
	}
	return f.Draw().SVG()
}
