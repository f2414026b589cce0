package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"vsetrain/configs"
	"vsetrain/internal/system/options"
	"vsetrain/loss"
)

const (
	presetTable  = "presets.tsv"
	presetFolder = "configs/" // of the table and the files it is put together from, for messages
	yamlEnding   = ".yaml"
)

// Preset is a configuration that is part of the program: a row of configs/presets.tsv.
type Preset struct {
	Name   string // as --config takes it: "vsepp/f30k-lseh"
	Base   string // preset of the network: "vsepp/base"
	Data   string // data set, "f30k": the preset data/f30k
	Loss   string // "lseh": the preset loss/lseh
	Source string // where the settings come from

	line     int
	settings []cell
}

// cell is a value of a row that overrides what base, data set and loss say.
type cell struct {
	key, text string
	at        Source
}

// Part is a YAML file that is part of the program: the base of a network, a data set, a loss, or a whole configuration.
type Part struct {
	Name  string `json:"part"` // "vsepp/base"
	About string `json:"what"` // the first sentence of its comment
}

// Presets returns the rows of the table in its order.
var Presets = sync.OnceValue(func() []Preset {
	b, err := configs.FS.ReadFile(presetTable)
	if err != nil {
		panic("config: " + err.Error()) // it is embedded
	}
	rows, err := parsePresets(string(b))
	if err != nil {
		panic("config: " + err.Error()) // a test reads the table
	}
	return rows
})

// PresetLoss returns the loss of the preset with the network, data set, loss and schedule of a configuration, such as
// "lmh1", for use in tables; "" if there is none.
func PresetLoss(c *Config) string {
	for _, p := range Presets() {
		if p.Data != filepath.Base(filepath.Clean(c.Data.Dir)) {
			continue
		}
		if r, err := loadPreset(p.Name); err == nil && published(&r) == published(c) {
			return p.Loss
		}
	}
	return ""
}

// loadPreset keeps what it has loaded.
func loadPreset(name string) (Config, error) {
	if c, ok := loadedPresets.Load(name); ok {
		return c.(Config), nil
	}
	r, err := Load(Request{Preset: name})
	if err == nil {
		loadedPresets.Store(name, r.Config)
	}
	return r.Config, err
}

var loadedPresets sync.Map // of Config by name

// published is what the papers tell losses of one network apart by.
func published(c *Config) any {
	o := &c.Optim
	return [...]any{c.Model.Network, c.Model.TextEncoder, c.Loss.Name, c.Loss.Margin, c.Loss.WarmupEpochs,
		o.LR, o.Schedule, o.Decay, o.LRUpdate, o.LRUpdate2, o.WarmupSteps}
}

// Parts returns the YAML files of the program in the order of their names.
func Parts() []Part {
	var parts []Part
	err := fs.WalkDir(configs.FS, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err == nil && file == configs.Sweeps:
			return fs.SkipDir
		case err != nil || path.Ext(file) != yamlEnding:
			return err
		}
		b, err := configs.FS.ReadFile(file)
		if err != nil {
			return err
		}
		parts = append(parts, Part{strings.TrimSuffix(file, yamlEnding), firstSentence(string(b))})
		return nil
	})
	if err != nil {
		panic("config: " + err.Error()) // files that are embedded can be read
	}
	return parts
}

// firstSentence returns the first sentence of the comment that a file begins with.
func firstSentence(text string) string {
	var words []string
	for line := range strings.Lines(text) {
		comment, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		words = append(words, strings.TrimSpace(comment))
	}
	sentence, _, _ := strings.Cut(strings.Join(words, " "), ". ")
	return strings.TrimSuffix(sentence, ".")
}

// presetColumns are the columns of the table that are no keys of the configuration; the others are, and override the
// YAML files.
var presetColumns = []string{"preset", "base", "data", "loss", "source"}

// parsePresets reads the table: tab-separated, names of columns in the first line, empty cells leave a key to the YAML
// files.
func parsePresets(text string) ([]Preset, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	heads := strings.Split(lines[0], "\t")
	for _, name := range presetColumns {
		if !slices.Contains(heads, name) {
			return nil, fmt.Errorf("%s%s:1: no column %s", presetFolder, presetTable, name)
		}
	}
	var out []Preset
	for i, line := range lines[1:] {
		cells := strings.Split(line, "\t")
		if len(cells) != len(heads) {
			return nil, fmt.Errorf("%s%s:%d: expected %d tab-separated cells, found %d", presetFolder,
				presetTable, i+2,
				len(heads), len(cells))
		}
		p := Preset{line: i + 2}
		own := map[string]*string{"preset": &p.Name, "base": &p.Base, "data": &p.Data, "loss": &p.Loss,
			"source": &p.Source}
		column := 1
		for k, text := range cells {
			at := Source{File: presetFolder + presetTable, Line: p.line, Column: column}
			column += len(text) + 1
			if to := own[heads[k]]; to != nil {
				if *to = text; text == "" {
					return nil, fmt.Errorf("%s: %s is empty", at.position(), heads[k])
				}
				continue
			}
			if text != "" {
				p.settings = append(p.settings, cell{heads[k], text, at})
			}
		}
		if slices.ContainsFunc(out, func(o Preset) bool { return o.Name == p.Name }) {
			return nil, fmt.Errorf("%s%s:%d: %s is listed twice", presetFolder, presetTable, p.line, p.Name)
		}
		out = append(out, p)
	}
	return out, nil
}

// layer decodes the cells of a row.
func (r *Preset) layer(p *problems) layer {
	out := layer{}
	for _, c := range r.settings {
		f := root.leaf(c.key)
		if f == nil {
			p.add(c.at, c.key, "the heading of this column is not a configuration key")
			continue
		}
		if v, ok := decodeText(f, c.text, c.at, p); ok {
			out[c.key] = setting{v, c.at}
		}
	}
	return out
}

// document is a text of a configuration: a file, a YAML file of the program, or a row of its table.
type document struct {
	path string  // of a file; of the program's below configs/
	row  *Preset // of the table
	ours bool    // the program's
}

// name is what messages call the document.
func (d *document) name() string {
	if d.ours {
		return presetFolder + d.path
	}
	return d.path
}

// id tells documents from one another.
func (d *document) id() (string, error) {
	switch {
	case d.row != nil:
		return presetFolder + d.row.Name, nil
	case d.ours:
		return d.name(), nil
	}
	return filepath.Abs(d.path)
}

// derivedPreset is NETWORK/DATA-LOSS for a loss that has no row: the row NETWORK/DATA-benchmark with that loss and the
// warm-up epochs that it is published with. It is nil without that row or that loss.
func derivedPreset(name string) *Preset {
	for _, l := range loss.Names() {
		start, ok := strings.CutSuffix(name, "-"+l)
		i := slices.IndexFunc(Presets(), func(p Preset) bool { return p.Name == start+"-benchmark" })
		if !ok || i < 0 {
			continue
		}
		r := Presets()[i]
		at := Source{File: presetFolder + presetTable, Line: r.line, Column: 1}
		r.settings = append(slices.Clone(r.settings), cell{"loss.name", l, at},
			cell{"loss.warmup_epochs", intText(loss.PublishedWarmUp(l)), at})
		r.Name, r.Source = name, r.Name+" with loss "+l
		return &r
	}
	return nil
}

// presetNamed returns the preset or YAML file of the program that a name stands for, nil without.
func presetNamed(name string) *document {
	if i := slices.IndexFunc(Presets(), func(p Preset) bool { return p.Name == name }); i >= 0 {
		return &document{path: presetTable, row: &Presets()[i], ours: true}
	}
	if r := derivedPreset(name); r != nil {
		return &document{path: presetTable, row: r, ours: true}
	}
	if path.Dir(name) == configs.Sweeps {
		return nil
	}
	if st, err := fs.Stat(configs.FS, name+yamlEnding); err == nil && !st.IsDir() {
		return &document{path: name + yamlEnding, ours: true}
	}
	return nil
}

// find returns the document that a name stands for, in a file of the folder dir or, with dir empty, on the command
// line: a file first, then a preset. It is nil if there is neither.
func find(name, dir string) *document {
	file := filepath.FromSlash(name)
	if home, err := ExpandHome(file); err == nil {
		file = home
	}
	if dir != "" && !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	st, err := os.Stat(file)
	if err == nil && !st.IsDir() {
		return &document{path: file}
	}
	if d := presetNamed(name); d != nil {
		return d
	}
	if err != nil && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &document{path: file} // a folder, or a file that cannot be reached: reading it tells
}

// Find returns the request for the configuration that a file of the folder dir calls name; ok is false if there is
// no such file or preset.
func Find(name, dir string) (r Request, ok bool) {
	d := find(name, dir)
	switch {
	case d == nil:
		return Request{}, false
	case d.row != nil:
		return Request{Preset: d.row.Name}, true
	case d.ours:
		return Request{Preset: strings.TrimSuffix(d.path, yamlEnding)}, true
	}
	return Request{File: d.path}, true
}

// Missing says that a name is neither a file nor a preset, and what may be meant.
func Missing(name string) string {
	what := "no such file or preset"
	if path.Ext(name) != "" {
		what = "no such file"
	}
	what += ": " + name
	if near := nearestPreset(name); near != "" {
		return what + "; did you mean the preset " + near + "?"
	}
	if path.Ext(name) == "" {
		what += "; vsetrain config list shows the presets"
	}
	return what
}

// nearestPreset returns the preset most like a name, which may be the path of a YAML file that a preset is named after.
func nearestPreset(name string) string {
	short := strings.TrimSuffix(filepath.ToSlash(name), yamlEnding)
	if i := strings.LastIndex(short, presetFolder); i >= 0 {
		short = short[i+len(presetFolder):]
	}
	if near := options.Nearest(short, PresetNames()); near != "" {
		return near
	}
	var starts []string // vsepp/f30k of vsepp/f30k-lseh
	first := map[string]string{}
	for _, name := range PresetNames() {
		for i, r := range name {
			if start := name[:i]; r == '-' && first[start] == "" {
				starts, first[start] = append(starts, start), name
			}
		}
	}
	return first[options.Nearest(short, starts)]
}

// PresetNames returns the names of presets and YAML files of the program.
func PresetNames() []string {
	var names []string
	for _, p := range Presets() {
		names = append(names, p.Name)
	}
	for _, p := range Parts() {
		names = append(names, p.Name)
	}
	return names
}
