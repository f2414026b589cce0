package main

import (
	"bufio"
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"vsetrain/eval"
	"vsetrain/internal/run/config"
	"vsetrain/models"
)

// docs/reproduce.md: what the LSEH paper and others print, and what it takes to train it again.
const (
	reproducePage = "docs/reproduce.md"
	paperFile     = "docs/log/reproduce/paper.tsv"
	speedFile     = "docs/log/reproduce/efficiency.tsv"
	predictedFile = "docs/log/reproduce/predicted.tsv"
	fieldFile     = "docs/log/reproduce/field.tsv"
)

// trainCaptions are those of the training splits (docs/data.md).
var trainCaptions = map[string]int{"f30k": 145000, "coco": 566435, "iapr": 18000}

// reproduce returns the page with its tables made anew.
func reproduce(root string) ([]byte, error) {
	page, err := os.ReadFile(filepath.Join(root, reproducePage))
	if err != nil {
		return nil, err
	}
	steps := map[string]float64{}
	predicted, err := readTable(root, predictedFile, "preset", "step_ms")
	if err != nil {
		return nil, err
	}
	for _, row := range predicted {
		if steps[row[0]], err = strconv.ParseFloat(row[1], 64); err != nil || !(steps[row[0]] > 0) {
			return nil, fmt.Errorf("%s: step_ms %q of %s, expected a number above 0", predictedFile, row[1], row[0])
		}
	}
	paper, err := readTable(root, paperFile, append([]string{"preset", "protocol"}, recallColumns...)...)
	if err != nil {
		return nil, err
	}
	speed, err := readTable(root, speedFile, "preset", "m_recall", "epoch", "lseh_epoch")
	if err != nil {
		return nil, err
	}
	field, err := readTable(root, fieldFile, append(append([]string{"method", "protocol"}, recallColumns...),
		"source")...)
	if err != nil {
		return nil, err
	}
	rows, err := paperTable(paper, steps)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", paperFile, err)
	}
	efficiency, err := passedTable(speed, steps)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", speedFile, err)
	}
	for _, t := range []struct{ name, text string }{{"paper", rows}, {"efficiency", efficiency},
		{"field", fieldTable(field)}, {"published", publishedTable(eval.PublishedCheckpoints())}} {
		if page, err = between(page, t.name, t.text); err != nil {
			return nil, fmt.Errorf("%s: %w", reproducePage, err)
		}
	}
	return page, nil
}

var recallColumns = []string{"i2t_r1", "i2t_r5", "i2t_r10", "t2i_r1", "t2i_r5", "t2i_r10"}

// readTable reads a tab-separated file with these columns.
func readTable(root, name string, columns ...string) (rows [][]string, err error) {
	f, err := os.Open(filepath.Join(root, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for number := 1; lines.Scan(); number++ {
		cells := strings.Split(lines.Text(), "\t")
		if len(cells) != len(columns) || number == 1 && !slices.Equal(cells, columns) {
			return nil, fmt.Errorf("%s:%d: %q, expected %q", name, number, cells, columns)
		}
		if number > 1 {
			rows = append(rows, cells)
		}
	}
	return rows, lines.Err()
}

// paperTable is a row for each preset and protocol of the LSEH paper's tables.
func paperTable(rows [][]string, steps map[string]float64) (string, error) {
	var b strings.Builder
	b.WriteString("| preset | protocol | image to text R@1, 5, 10 | text to image R@1, 5, 10 | steps | " +
		"hours, predicted |\n|---|---|---|---|---:|---:|\n")
	for _, row := range rows {
		cost, _, err := costOf(row[0], steps)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", row[0], row[1], strings.Join(row[2:5], " "),
			strings.Join(row[5:8], " "), cost)
	}
	return b.String(), nil
}

// passedTable is a row for each preset of the LSEH paper's table of training efficiency. The best validation of a
// run must lie within the epochs of its preset.
func passedTable(rows [][]string, steps map[string]float64) (string, error) {
	var b strings.Builder
	b.WriteString("| preset | best M-Recall on dev | at epoch | LSEH passes it at epoch | steps | hours, predicted " +
		"|\n|---|---:|---:|---:|---:|---:|\n")
	for _, row := range rows {
		cost, epochs, err := costOf(row[0], steps)
		if err != nil {
			return "", err
		}
		if at, err := strconv.ParseFloat(row[2], 64); err != nil || at > float64(epochs) {
			return "", fmt.Errorf("%s: best at epoch %q of %d", row[0], row[2], epochs)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", row[0], strings.Join(row[1:], " | "), cost)
	}
	return b.String(), nil
}

// costOf returns the cells of the steps that a preset takes and of their hours, and its epochs.
func costOf(preset string, steps map[string]float64) (cells string, epochs int, err error) {
	c, err := config.Load(config.Request{Preset: preset})
	if err != nil {
		return "", 0, err
	}
	captions, ms := trainCaptions[filepath.Base(c.Data.Dir)], steps[preset]
	if captions == 0 || ms == 0 {
		return "", 0, fmt.Errorf("%s: the training captions or the predicted step are not known", preset)
	}
	batches := (captions + c.Train.Batch - 1) / c.Train.Batch
	if c.Train.DropLast {
		batches = captions / c.Train.Batch
	}
	all := float64(batches * c.Train.Epochs)
	return fmt.Sprintf("%s | %.2g", milliseconds(all), all*ms/3.6e6), c.Train.Epochs, nil
}

// fieldTable is a row for each method and protocol; a recall that the source lacks is a dash.
func fieldTable(rows [][]string) string {
	var b strings.Builder
	b.WriteString("| method | test | image to text R@1, 5, 10 | text to image R@1, 5, 10 | source |\n" +
		"|---|---|---|---|---|\n")
	tests := map[string]string{"1k": "Flickr30K", "5k": "COCO 5K"}
	for _, row := range rows {
		for i := 2; i < 8; i++ {
			row[i] = cmp.Or(row[i], missing)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", row[0], tests[row[1]], strings.Join(row[2:5], " "),
			strings.Join(row[5:8], " "), row[8])
	}
	return b.String()
}

// publishedTable is a row for each public checkpoint and protocol.
func publishedTable(list []eval.Published) string {
	var b strings.Builder
	b.WriteString("| name | file | network | protocol | image to text | text to image | source of the numbers |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, p := range list {
		network := p.Note
		if p.Network != "" {
			o := models.DefaultOptions()
			o.Network = p.Network
			network = o.Traits().Title
			if p.Note != "" {
				network += "; " + p.Note
			}
		}
		for _, n := range p.Recalls {
			var cells [6]string
			for i, v := range n.Values {
				if cells[i] = missing; !math.IsNaN(v) {
					cells[i] = strconv.FormatFloat(v, 'f', 1, 64)
				}
			}
			source := n.Source
			source = cmp.Or(source, "none")
			fmt.Fprintf(&b, "| `%s` | [%s](%s) | %s | %s | %s | %s | %s |\n", p.Name, strings.Join(p.Files, ", "),
				p.Where, network, n.Protocol, strings.Join(cells[:3], " "), strings.Join(cells[3:], " "), source)
		}
	}
	return b.String()
}
