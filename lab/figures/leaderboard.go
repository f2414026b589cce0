package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"vsetrain/configs"
	"vsetrain/internal/apps/chart"
	"vsetrain/internal/apps/report"
)

// docs/leaderboard.md: every loss with the same networks, starts, epochs and schedule (scripts/leaderboard.py).
const (
	leaderboardPage = "docs/leaderboard.md"
	leaderboardRuns = "leaderboard"
	firstSeed       = 7 // chooses the rate
	lastSeed        = 9
	queriesTable    = "test-1k-differences"
)

// contest is one comparison of the leaderboard, as a sweep offers it. Its runs are kept in folders PREFIX RATE-LOSS.
type contest struct {
	name, folder, prefix string
	rates, losses        []string // as the sweep names them, the rates in rising order, the base of the tables first
}

var sweepChoice = regexp.MustCompile(`(?m)^  - name: (\S+)|^      - \{name: "?([^",]+)`)

// contests are those of the sweeps of the leaderboard, those that choose rates first.
func contests() (all []contest, err error) {
	const before = "sweeps/leaderboard-"
	files, err := fs.Glob(configs.FS, before+"*.yaml")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		plan, err := configs.FS.ReadFile(file)
		if err != nil {
			return nil, err
		}
		axes, axis := map[string][]string{}, ""
		for _, m := range sweepChoice.FindAllStringSubmatch(string(plan), -1) {
			if m[1] != "" {
				axis = m[1]
			} else {
				axes[axis] = append(axes[axis], m[2])
			}
		}
		c := contest{folder: strings.TrimSuffix(strings.TrimPrefix(file, before), ".yaml"),
			rates: axes["rate"], losses: axes["loss"]}
		slices.SortFunc(c.rates, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
		c.name = c.folder
		if axes["noise"] == nil {
			all = slices.Insert(all, 0, c)
		}
		for _, n := range axes["noise"] {
			c.name, c.prefix = c.folder+"-"+n, n+"-"
			all = append(all, c)
		}
	}
	return all, nil
}

// number is a rate as a sweep names it.
func number(rate string) float64 {
	v, err := strconv.ParseFloat(rate, 64)
	if err != nil {
		panic(err) // of a file of this repository
	}
	return v
}

// runAt is the folder of the runs of a loss with a rate, in the archive.
func (c *contest) runAt(rate, name string) string {
	return filepath.Join(leaderboardRuns, c.folder, c.prefix+rate+"-"+name)
}

// rated returns the best M-Recall on dev of the first seed by loss and rate, as far as runs are kept, and the best rate
// of each loss.
func (c *contest) rated(kept string) (dev map[string]map[string]float64, best map[string]string, err error) {
	dev, best = map[string]map[string]float64{}, map[string]string{}
	for _, name := range c.losses {
		dev[name] = map[string]float64{}
		for _, rate := range c.rates {
			dir := filepath.Join(kept, c.runAt(rate, name), fmt.Sprint("s", firstSeed))
			if _, err := os.Stat(dir); err != nil {
				continue
			}
			r, err := report.Open(dir)
			if err != nil {
				return nil, nil, err
			}
			for _, v := range r.History() {
				dev[name][rate] = max(dev[name][rate], v.MRecall)
			}
			if b, ok := best[name]; !ok || dev[name][rate] > dev[name][b] {
				best[name] = rate
			}
		}
	}
	return dev, best, nil
}

// ratesTable shows what each rate reaches on dev, the chosen one in bold.
func (c *contest) ratesTable(dev map[string]map[string]float64, best map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| loss | %s | missing |\n|---|%s---|\n", strings.Join(c.rates, " | "),
		strings.Repeat("---:|", len(c.rates)))
	for _, name := range c.losses {
		fmt.Fprintf(&b, "| %s |", name)
		var gone []string
		for _, rate := range c.rates {
			v, ok := dev[name][rate]
			switch {
			case !ok:
				gone = append(gone, rate)
				b.WriteString(" - |")
			case rate == best[name]:
				fmt.Fprintf(&b, " **%.1f** |", v)
			default:
				fmt.Fprintf(&b, " %.1f |", v)
			}
		}
		if gone == nil {
			gone = []string{"none"}
		}
		fmt.Fprintf(&b, " %s |\n", strings.Join(gone, ", "))
	}
	return b.String()
}

// leaderboard returns the page with its tables made anew, and its charts.
func leaderboard(root, kept string) (map[string][]byte, error) {
	page, err := os.ReadFile(filepath.Join(root, leaderboardPage))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	list, err := contests()
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		dev, best, err := c.rated(kept)
		if err != nil {
			return nil, err
		}
		tables := map[string]string{"rates": c.ratesTable(dev, best)}
		s := study{name: leaderboardRuns + " " + c.name, tables: []string{primaryTable, queriesTable}, ranked: true}
		for _, name := range c.losses {
			s.settings = append(s.settings, setting{name, c.runAt(best[name], name), firstSeed, lastSeed})
		}
		drawn, _, err := s.draw(kept)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		maps.Copy(tables, drawn)
		runs, _, err := s.open(kept)
		if err != nil {
			return nil, err
		}
		if tables["curves"] = noRuns; len(runs) > 0 {
			name := "leaderboard-" + c.name + ".svg"
			tables["curves"] = fmt.Sprintf("![M-Recall on dev over epochs, seed %d](%s)\n\nRuns of seed %[1]d, which "+
				"chose the rates.\n", firstSeed, name)
			files["docs/"+name] = leaderboardCurves(c.name, runs)
		}
		for name, text := range tables {
			if page, err = between(page, c.name+" "+name, text); err != nil {
				return nil, fmt.Errorf("%s: %w", leaderboardPage, err)
			}
		}
	}
	files[leaderboardPage] = page
	return files, nil
}

var otherMeasure = regexp.MustCompile(`(?m)^\|.*\| (image to text|text to image) R@.*\n`)

// recallRows keeps the rows of M-Recall of a table of several measures.
func recallRows(table string) string { return otherMeasure.ReplaceAllString(table, "") }

// leaderboardCurves draws the validations of the first seed of each loss.
func leaderboardCurves(name string, runs []*report.Run) []byte {
	f := chart.Figure{Title: name + ", seed " + fmt.Sprint(firstSeed), X: "epoch", Y: "M-Recall on dev"}
	for _, r := range runs {
		if r.Config.Seed != firstSeed {
			continue
		}
		s := chart.Series{Name: r.Label, Color: len(f.Series)}
		for _, v := range r.History() {
			s.X, s.Y = append(s.X, v.Epoch), append(s.Y, v.MRecall)
		}
		f.Series = append(f.Series, s)
	}
	return f.Draw().SVG()
}
