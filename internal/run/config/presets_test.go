package config

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/configs"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// networkRules are the settings that a network has in every preset, whatever the data set and the loss. A network
// without a rule has only those that its name says.
var networkRules = map[string]func(c *Config, p *Preset) bool{
	"vsepp": func(c *Config, p *Preset) bool {
		return repeats(c, p, 30) && c.Model.TextEncoder == "gru" && c.Model.EmbedDim == 1024 && c.Train.Batch == 128
	},
	"vsrn": func(c *Config, p *Preset) bool {
		mode := map[bool]string{true: "coco", false: "f30k"}[p.Data == "coco"]
		epochs := map[bool]int{true: 40, false: 30}[p.Data == "iapr"] // quirk Q40
		return repeats(c, p, epochs) && c.Model.TextEncoder == "gru" && c.Model.EmbedDim == 2048 &&
			c.Model.VSRN.Mode == mode && c.Model.VSRN.Caption && c.Train.Batch == 128
	},
	"saf": func(c *Config, p *Preset) bool { return repeats(c, p, shorter(p, 30)) && sgraf(c) },
	"sgr": func(c *Config, p *Preset) bool { return repeats(c, p, shorter(p, 40)) && sgraf(c) },
	"gsmn": func(c *Config, p *Preset) bool {
		epochs, batch, lambda, g := shorter(p, 30), 64, 20.0, c.Model.GSMN
		if p.Data == "coco" {
			batch, lambda = 32, 10
		}
		if p.Data == "f8k" {
			epochs = 10
		}
		return repeats(c, p, epochs) && c.Train.ValStep == 1000 && c.Model.TextEncoder == "bigru" &&
			c.Model.EmbedDim == 1024 && g.Mode == "sparse" && g.Neighbors == "self" && g.Lambda == lambda &&
			c.Train.Batch == batch
	},
	"scan": func(c *Config, p *Preset) bool {
		want := models.SCANOptions{Attention: "t2i", Aggregate: "lse", Norm: "clipped_l2norm", Lambda: 9, LambdaLSE: 6}
		lr, step := 2e-4, 15
		if p.Data == "coco" {
			lr, step = 5e-4, 10
		}
		switch path.Base(p.Base) {
		case "ti-avg":
			want.Aggregate = "mean"
		case "it-avg":
			want.Attention, want.Aggregate, want.Lambda = "i2t", "mean", 4
		case "it-lse":
			want.Attention, want.Lambda, want.LambdaLSE = "i2t", 4, map[string]float64{"f30k": 5, "coco": 20}[p.Data]
		}
		return repeats(c, p, shorter(p, 30)) && c.Model.SCAN == want && c.Optim.LR == lr && c.Optim.LRUpdate == step &&
			c.Train.ValStep == 0 && c.Model.TextEncoder == "bigru" && c.Model.EmbedDim == 1024 &&
			c.Model.WordDim == 300 &&
			c.Train.Batch == 128 && c.Loss.WarmupEpochs == 0
	},
	"chan": func(c *Config, p *Preset) bool {
		want, encoder, decay, batch := models.DefaultOptions().CHAN, path.Base(p.Base), 1e-2, 384
		if encoder == "bert" {
			want.ImageEncoder, want.Pooling, decay, batch = "basic", "mean", 1e-4, 128
			if b := c.Model.Bert; b.Dir != "data/bert-base-uncased" || b.Layers != 12 || c.Optim.BertLR != 0.1 {
				return false
			}
		}
		return c.Model.CHAN == want && want.Coding == "vha" && want.Beta == 0.1 && want.Heads == 8 &&
			want.SizeAugment &&
			!want.MaskPadding && c.Model.TextEncoder == encoder && c.Model.EmbedDim == 1024 && c.Train.Batch == batch &&
			c.Train.Epochs == 25 && c.Train.ValStep == 0 && c.Train.DropLast && c.Optim.Name == "adamw" &&
			c.Optim.WeightDecay == decay && c.Optim.Schedule == "once" && c.Optim.LR == 5e-4 &&
			c.Optim.LRUpdate == 15 &&
			c.Loss.WarmupEpochs == 1
	},
	"vseinf": func(c *Config, p *Preset) bool {
		encoder, decay := path.Base(p.Base), 1e-4
		if encoder == "bigru" {
			decay = 1e-2
		}
		b := c.Model.Bert
		if encoder == "bert" && (b.Dir != "data/bert-base-uncased" || b.Init != "pretrained" || b.Layers != 12 ||
			b.Hidden != 768 || b.Heads != 12 ||
			b.Intermediate != 3072 || b.Positions != 512 || b.Dropout != 0.1 || c.Optim.BertLR != 0.1) {
			return false
		}
		return c.Train.Epochs == 25 && c.Train.Batch == 128 && c.Optim.Name == "adamw" &&
			c.Optim.WeightDecay == decay && c.Optim.Schedule == "once" && c.Train.DropLast &&
			c.Model.TextEncoder == encoder && c.Model.EmbedDim == 1024 && c.Model.VSEInf.SizeAugment &&
			!c.Model.VSEInf.BNIgnorePadding
	},
}

func repeats(c *Config, _ *Preset, epochs int) bool {
	return c.Train.Epochs == epochs && c.Optim.Name == "adam" && c.Optim.Schedule == "repeat" &&
		c.Optim.LRUpdate2 == 0 && !c.Train.DropLast
}

// shorter: on MS-COCO SGRAF and GSMN train for 20 epochs.
func shorter(p *Preset, epochs int) int {
	if p.Data == "coco" {
		return 20
	}
	return epochs
}

func sgraf(c *Config) bool {
	return c.Train.Batch == 128 && c.Train.ValStep == 1000 && c.Model.TextEncoder == "bigru" &&
		c.Model.EmbedDim == 1024 && c.Model.SGRAF.SimDim == 256 && c.Model.SGRAF.Steps == 3
}

// lossRules are the settings of a loss, whatever the network. A loss without a rule has only those that its name
// says.
var lossRules = map[string]struct {
	name      string
	margin    float64
	semantics string
}{
	"lmh1": {"lmh", 0.2, "svd"}, "lmh2": {"lmh", 0.16, "svd"}, "lseh": {"lseh", 0.185, "svd"}, "lseh-bert": {"lseh",
		0.185, "bert"},
	"lmh-chan": {"lmh", 0.05, "svd"}, "luwm": {"luwm", 0.2, "svd"},
}

// Every row of the table is a configuration with the settings that its network, data set and loss have everywhere,
// under a name that says them. LMH2 and LSEH share the schedule of the LSEH paper, which is how its tables compare
// them; LMH1 and, with GSMN, LUWM have the schedule of the benchmark.
func TestPresets(t *testing.T) {
	schedules := map[string]Preset{}
	lr := map[string][4]float64{}
	ruled := map[string]bool{} // the rules that a row was held to
	for _, p := range Presets() {
		r, err := Load(Request{Preset: p.Name})
		if err != nil {
			t.Error(err)
			continue
		}
		c, network := &r.Config, path.Dir(p.Base)
		if path.Dir(p.Name) != network || !strings.HasPrefix(path.Base(p.Name), p.Data+"-") ||
			c.Model.Network != network || c.Data.Dir != "data/"+p.Data ||
			(c.Data.CaptionsPerImage == "1") != (p.Data == "iapr") {
			t.Errorf("%s: base %s, data %s; network %s on %s", p.Name, p.Base, p.Data, c.Model.Network, c.Data.Dir)
		}
		want, known := lossRules[p.Loss]
		if !strings.HasPrefix(p.Loss, c.Loss.Name) || known && (c.Loss.Name != want.name ||
			c.Loss.Margin != want.margin || c.Loss.LSEH.Semantics != want.semantics || c.Loss.LSEH.Lambda != 0.025) {
			t.Errorf("%s: loss %+v, want %+v", p.Name, c.Loss, want)
		}
		if rule := networkRules[network]; rule != nil && (c.Optim.Clip != 2 || c.Seed != 7 || !rule(c, &p)) {
			t.Errorf("%s: not the settings of its network: %+v", p.Name, r.Config)
		}
		ruled[network], ruled[p.Loss] = true, true
		// what the code does, and our own choice
		if !known || strings.Contains(p.Name, "released") || network == "vsepp" && p.Data == "f8k" {
			continue
		}
		key := p.Base + " " + p.Data + map[bool]string{true: " LMH1"}[p.Loss == "lmh1" || p.Loss == "luwm"]
		schedule := [4]float64{c.Optim.LR, float64(c.Optim.LRUpdate), float64(c.Optim.LRUpdate2),
			float64(c.Loss.WarmupEpochs)}
		if first, ok := schedules[key]; !ok {
			schedules[key], lr[key] = p, schedule
		} else if lr[key] != schedule {
			t.Errorf("%s and %s have the schedules %v and %v", first.Name, p.Name, lr[key], schedule)
		}
	}
	if len(schedules) < 50 {
		t.Errorf("only %d schedules", len(schedules))
	}
	for _, name := range append(slices.Collect(maps.Keys(networkRules)), slices.Collect(maps.Keys(lossRules))...) {
		if !ruled[name] {
			t.Errorf("no preset is held to the rule of %s", name)
		}
	}
	for _, name := range models.Available() {
		if !ruled[name] {
			t.Errorf("there is no preset of the network %s", name)
		}
	}
}

// Every YAML file of the program is a configuration on its own, beside the program and on disk, and there is one for
// each part of a row.
func TestParts(t *testing.T) {
	names := PresetNames()
	for _, p := range Parts() {
		inside, err := Load(Request{Preset: p.Name})
		if err != nil {
			t.Error(err)
			continue
		}
		onDisk, err := Load(Request{File: filepath.Join("..", "..", "..", "configs", p.Name+".yaml")})
		if err != nil {
			t.Error(err)
		} else if len(Differences("", inside.Config, onDisk.Config)) > 0 {
			t.Errorf("%s: the program's differs from the file", p.Name)
		}
		if p.About == "" {
			t.Errorf("%s begins without a comment", p.Name)
		}
	}
	try.Do(t, fs.WalkDir(os.DirFS(filepath.Join("..", "..", "..", "configs")), ".",
		func(file string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && path.Ext(file) == ".yaml" &&
				slices.Contains(names, strings.TrimSuffix(file, ".yaml")) == (path.Dir(file) == configs.Sweeps) {
				t.Errorf("configs/%s: a part of the program is any file but a sweep", file)
			}
			return err
		}))
	if b, err := configs.FS.ReadFile("presets.tsv"); err != nil || strings.Contains(string(b), " \t") ||
		strings.Contains(string(b), "\t ") {
		t.Errorf("blanks beside tabs in presets.tsv, %v", err)
	}
}

// A name is a file first, then a preset; extends takes both; what is neither is told with what may be meant.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, filepath.FromSlash(name))
		try.Do(t, os.MkdirAll(filepath.Dir(file), 0o777))
		try.Do(t, os.WriteFile(file, []byte(text), 0o666))
		return file
	}
	t.Chdir(dir)
	write("mine.yaml", "extends: vsepp/f30k-lseh\noptim: {lr: 0.5}\n")
	r := load(t, Request{File: "mine.yaml"})
	if r.Optim.LR != 0.5 || r.Loss.Name != "lseh" || r.Optim.LRUpdate != 3 {
		t.Errorf("extends of a preset: %+v", r.Optim)
	}
	if at := r.Origin("optim.lr_update"); at.File != "configs/presets.tsv" || at.Line != 4 {
		t.Errorf("optim.lr_update is from %v", at)
	}
	if at := r.Origin("model.embed_dim"); at.String() != "configs/vsepp/base.yaml:4" {
		t.Errorf("model.embed_dim is from %v", at)
	}
	if r := load(t, Request{File: "vsepp/f30k-lseh", Set: []string{"train.batch=64"}}); r.Optim.LR != 0.002 ||
		r.Train.Batch != 64 ||
		r.RunDir(r.File) != filepath.Join("runs", "vsepp-f30k-lseh") {
		t.Errorf("a preset: %+v in %s", r.Optim, r.RunDir(r.File))
	}
	write("vsepp/f30k-lseh", "optim: {lr: 0.25}\n")
	if r := load(t, Request{File: "vsepp/f30k-lseh"}); r.Optim.LR != 0.25 {
		t.Errorf("a file of the name of a preset: %+v", r.Optim)
	}
	write("both.yaml", "extends: vsepp/f30k-lseh\n")
	if r := load(t, Request{File: "both.yaml"}); r.Optim.LR != 0.25 {
		t.Errorf("extends of a file of the name of a preset: %+v", r.Optim)
	}
	if r := load(t, Request{Preset: "vsepp/f30k-lseh"}); r.Optim.LR != 0.002 {
		t.Errorf("the preset beside it: %+v", r.Optim)
	}
	for name, want := range map[string]string{
		"vsepp/f30k-lsehh": "--config: no such file or preset: vsepp/f30k-lsehh; did you mean the preset " +
			"vsepp/f30k-lseh?",
		"configs/vsepp/coco-lseh.yaml": "--config: no such file: configs/vsepp/coco-lseh.yaml; did you mean the " +
			"preset vsepp/coco-lseh?",
		"/a/b/configs/saf/f8k-lmh2.yaml": "--config: no such file: /a/b/configs/saf/f8k-lmh2.yaml; did you mean the " +
			"preset saf/f8k-lmh2?",
		"vsep/f30k": "--config: no such file or preset: vsep/f30k; did you mean the preset vsepp/f30k-benchmark?",
		"quite-another": "--config: no such file or preset: quite-another; vsetrain config list " +
			"shows the presets",
		"quite-another.yaml": "--config: no such file: quite-another.yaml",
		"sweeps/demo": "--config: no such file or preset: sweeps/demo; vsetrain config list " +
			"shows the presets",
	} {
		if _, err := Load(Request{File: name}); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", name, err, want)
		}
	}
	write("bad.yaml", "extends: [vsepp/bse]\n")
	if _, err := Load(Request{File: "bad.yaml"}); err == nil || err.Error() != "bad.yaml:1:11: extends: no such file "+
		"or preset: vsepp/bse; did you mean the preset vsepp/base?" {
		t.Errorf("%v", err)
	}
}

// A table with a mistake is told with its line.
func TestParsePresets(t *testing.T) {
	const head = "preset\tbase\tdata\tloss\toptim.lr\tsource\n"
	for text, want := range map[string]string{
		"preset\tbase\n": "configs/presets.tsv:1: no column data",
		head + "a\tvsepp/base\tf30k\tlseh\t0.1\n": "configs/presets.tsv:2: expected 6 " +
			"tab-separated cells, found 5",
		head + "a\tvsepp/base\t\tlseh\t0.1\tx\n": "configs/presets.tsv:2:14: data is " +
			"empty",
		head + strings.Repeat("a\tvsepp/base\tf30k\tlseh\t0.1\tpaper\n", 2): "configs/presets.tsv:3: a is listed " +
			"twice",
		strings.Replace(head, "data\t", "", 1) + "a\tvsepp/base\tlseh\t0.1\tx\n": "configs/presets.tsv:1: no column " +
			"data",
	} {
		if _, err := parsePresets(text); err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
	rows, err := parsePresets(strings.Replace(head, "optim.lr", "optim.lrr", 1) +
		"a\tvsepp/base\tf30k\tlseh\t0.1\tx\nb\tvsepp/base\tf30k\tlseh\t\tx\n")
	if err != nil || len(rows) != 2 {
		t.Fatal(rows, err)
	}
	var p problems
	rows[0].layer(&p)
	try.Fails(t, p.err(), "presets.tsv:2:24: optim.lrr: the heading of this column is not a configuration key")
	if rows[1].layer(&p); len(p.list) != 1 {
		t.Errorf("an empty cell: %v", p.list)
	}
}

// A cell that is not a value of its column, or out of its range, and a base, data set or loss that there is none of,
// are told with their place.
func TestWrongCells(t *testing.T) {
	const head = "preset\tbase\tdata\tloss\ttrain.epochs\toptim.schedule\tsource\n"
	for row, want := range map[string]string{
		"a\tvsepp/base\tf30k\tlseh\tmany\t\tx": "configs/presets.tsv:2:24: train.epochs: expected a whole number " +
			`in [1, 1000000], found "many"`,
		"a\tvsepp/base\tf30k\tlseh\t\tseldom\tx": `configs/presets.tsv:2:25: optim.schedule: expected`,
		"a\tvsepp/bse\tf30k\tlseh\t\t\tx":        "configs/presets.tsv:2: a: no such preset: vsepp/bse",
		"a\tvsepp/base\tf3k\tlseh\t\t\tx":        "configs/presets.tsv:2: a: no such preset: data/f3k",
		"a\tvsepp/base\tf30k\tlse\t\t\tx":        "configs/presets.tsv:2: a: no such preset: loss/lse",
	} {
		rows := try.Get(parsePresets(head + row + "\n"))(t)
		var p problems
		readFiles(&document{path: presetTable, row: &rows[0], ours: true}, Source{}, nil, &p)
		try.Fails(t, p.err(), want)
	}
}
