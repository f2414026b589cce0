package main

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"vsetrain/eval"
	"vsetrain/internal/run/config"
	"vsetrain/models"
)

// trainCaptions are the captions of the training splits (docs/data.md).
var trainCaptions = map[string]int{"f30k": 145000, "coco": 566435, "iapr": 18000}

// reproduce writes the tables of docs/reproduce.md and docs/log/papers.md: what the LSEH paper and others print, and
// what it takes to train it again.
func (b *book) reproduce() error {
	recalls := []string{"i2t_r1", "i2t_r5", "i2t_r10", "t2i_r1", "t2i_r5", "t2i_r10"}
	files := map[string][]row{}
	for name, columns := range map[string][]string{"steps": {"network", "text_encoder", "batch", ">step_ms"},
		"paper":      slices.Concat([]string{"preset", "protocol"}, recalls),
		"efficiency": {"preset", "m_recall", ">epoch", "lseh_epoch"},
		"field":      slices.Concat([]string{"method", "protocol"}, recalls, []string{"source"})} {
		var err error
		if files[name], err = b.rows("docs/log/reproduce/"+name+".tsv", columns...); err != nil {
			return err
		}
	}
	steps := map[string]float64{} // milliseconds, by network, text encoder and batch
	for _, r := range files["steps"] {
		steps[r.text["network"]+" "+r.text["text_encoder"]+" "+r.text["batch"]] = r.number["step_ms"]
	}
	tables := map[string]*table{
		"paper": newTable("preset", "protocol", "image to text R@1, 5, 10", "text to image R@1, 5, 10", ">steps",
			">hours on an H100"),
		"efficiency": newTable("preset", ">best M-Recall on dev", ">at epoch", ">LSEH passes it at epoch", ">steps",
			">hours on an H100"),
		"field": newTable("method", "test", "image to text R@1, 5, 10", "text to image R@1, 5, 10", "source"),
	}
	for _, name := range []string{"published", "not read"} {
		tables[name] = newTable("name", "file", "network", "protocol", "image to text", "text to image",
			"source of the numbers")
	}
	for _, r := range files["paper"] {
		all, hours, _, err := r.cost(steps)
		if err != nil {
			return err
		}
		tables["paper"].row(r.preset(), r.text["protocol"], r.recalls("i2t"), r.recalls("t2i"), all, hours)
	}
	for _, r := range files["efficiency"] {
		all, hours, epochs, err := r.cost(steps)
		if err == nil && r.number["epoch"] > float64(epochs) {
			err = fmt.Errorf("%s: best at epoch %s of %d", r.at, r.text["epoch"], epochs)
		}
		if err != nil {
			return err
		}
		tables["efficiency"].row(r.preset(), r.text["m_recall"], r.text["epoch"], r.text["lseh_epoch"], all, hours)
	}
	tests := map[string]string{"1k": "Flickr30K", "5k": "COCO 5K"}
	for _, r := range files["field"] {
		tables["field"].row(r.text["method"], tests[r.text["protocol"]], r.recalls("i2t"), r.recalls("t2i"),
			r.text["source"])
	}
	published(tables)
	for name, t := range tables {
		page := "docs/log/papers.md"
		if name == "paper" || name == "published" {
			page = "docs/reproduce.md"
		}
		if err := b.put(page, name, t.String()); err != nil {
			return err
		}
	}
	return nil
}

func (r *row) preset() string { return "`" + r.text["preset"] + "`" }

// recalls are the cells of a direction, a dash where the source has none.
func (r *row) recalls(direction string) string {
	cell := func(k string) string { return cmp.Or(r.text[direction+"_r"+k], missing) }
	return cell("1") + " " + cell("5") + " " + cell("10")
}

// cost returns the steps of the preset of a row and their hours as cells, and its epochs.
func (r *row) cost(steps map[string]float64) (all, hours string, epochs int, err error) {
	preset := r.text["preset"]
	c, err := config.Load(config.Request{Preset: preset})
	if err != nil {
		return "", "", 0, fmt.Errorf("%s: %w", r.at, err)
	}
	captions := trainCaptions[filepath.Base(c.Data.Dir)]
	if captions == 0 {
		return "", "", 0, fmt.Errorf("%s: %s: the training captions are not known", r.at, preset)
	}
	batches := (captions + c.Train.Batch - 1) / c.Train.Batch
	if c.Train.DropLast {
		batches = captions / c.Train.Batch
	}
	n := float64(batches * c.Train.Epochs)
	if ms := steps[fmt.Sprintf("%s %s %d", c.Model.Network, c.Model.TextEncoder, c.Train.Batch)]; ms > 0 {
		hours = fmt.Sprintf("%.2g", n*ms/3.6e6)
	}
	return whole(n), cmp.Or(hours, missing), c.Train.Epochs, nil
}

// published adds a row for each public checkpoint and protocol, to the table of those that are read or to the other.
func published(tables map[string]*table) {
	for _, p := range eval.PublishedCheckpoints() {
		t, network := tables["not read"], p.Note
		if p.Network != "" {
			t = tables["published"]
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
			t.row("`"+p.Name+"`", fmt.Sprintf("[%s](%s)", strings.Join(p.Files, ", "), p.Where), network,
				string(n.Protocol), strings.Join(cells[:3], " "), strings.Join(cells[3:], " "),
				cmp.Or(n.Source, "none"))
		}
	}
}
