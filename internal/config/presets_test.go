package config

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// The settings of every preset, from the tables of the papers and repositories.
var presets = map[string]struct {
	lr     float64
	update int
	margin float64
	loss   string
}{
	"vsepp/f30k-benchmark":            {2e-4, 15, 0.2, "lmh"},
	"vsepp/coco-benchmark":            {2e-4, 15, 0.2, "lmh"},
	"vsepp/iapr-benchmark":            {2e-4, 25, 0.2, "lmh"},
	"vsepp/f8k-benchmark":             {5e-4, 15, 0.2, "lmh"},
	"vsepp/f30k-lmh2":                 {2e-3, 3, 0.16, "lmh"},
	"vsepp/coco-lmh2":                 {3e-3, 4, 0.16, "lmh"},
	"vsepp/iapr-lmh2":                 {8e-4, 5, 0.16, "lmh"},
	"vsepp/f8k-lmh2":                  {1e-3, 6, 0.16, "lmh"},
	"vsepp/f30k-lseh":                 {2e-3, 3, 0.185, "lseh"},
	"vsepp/coco-lseh":                 {3e-3, 4, 0.185, "lseh"},
	"vsepp/iapr-lseh":                 {8e-4, 5, 0.185, "lseh"},
	"vsepp/f8k-lseh":                  {5e-4, 6, 0.185, "lseh"},
	"vsepp/f30k-released":             {2e-3, 2, 0.185, "lseh"},
	"vsepp/coco-released":             {2e-3, 2, 0.185, "lseh"},
	"vsepp/iapr-released":             {8e-4, 8, 0.185, "lseh"},
	"vsrn/f30k-benchmark":             {2e-4, 10, 0.2, "lmh"},
	"vsrn/coco-benchmark":             {2e-4, 15, 0.2, "lmh"},
	"vsrn/iapr-benchmark":             {5e-4, 20, 0.2, "lmh"},
	"vsrn/f8k-benchmark":              {2e-4, 10, 0.2, "lmh"},
	"vsrn/f30k-lmh2":                  {4e-4, 5, 0.16, "lmh"},
	"vsrn/coco-lmh2":                  {4e-4, 6, 0.16, "lmh"},
	"vsrn/iapr-lmh2":                  {5e-4, 20, 0.16, "lmh"},
	"vsrn/f8k-lmh2":                   {4e-4, 10, 0.16, "lmh"},
	"vsrn/f30k-lseh":                  {4e-4, 5, 0.185, "lseh"},
	"vsrn/coco-lseh":                  {4e-4, 6, 0.185, "lseh"},
	"vsrn/iapr-lseh":                  {5e-4, 20, 0.185, "lseh"},
	"vsrn/f8k-lseh":                   {4e-4, 10, 0.185, "lseh"},
	"vseinf/f30k-benchmark-bigru":     {5e-4, 15, 0.2, "lmh"},
	"vseinf/coco-benchmark-bigru":     {5e-4, 15, 0.2, "lmh"},
	"vseinf/iapr-benchmark-bigru":     {5e-4, 15, 0.2, "lmh"},
	"vseinf/f8k-benchmark-bigru":      {5e-4, 15, 0.2, "lmh"},
	"vseinf/f30k-lmh2-bigru":          {8e-4, 10, 0.16, "lmh"},
	"vseinf/coco-lmh2-bigru":          {1e-3, 10, 0.16, "lmh"},
	"vseinf/iapr-lmh2-bigru":          {9e-4, 10, 0.16, "lmh"},
	"vseinf/f8k-lmh2-bigru":           {8e-4, 10, 0.16, "lmh"},
	"vseinf/f30k-lseh-bigru":          {8e-4, 10, 0.185, "lseh"},
	"vseinf/coco-lseh-bigru":          {1e-3, 10, 0.185, "lseh"},
	"vseinf/iapr-lseh-bigru":          {9e-4, 10, 0.185, "lseh"},
	"vseinf/f8k-lseh-bigru":           {8e-4, 10, 0.185, "lseh"},
	"saf/f30k-benchmark":              {2e-4, 20, 0.2, "lmh"},
	"saf/f30k-lmh2":                   {4e-4, 16, 0.16, "lmh"},
	"saf/f30k-lseh":                   {4e-4, 16, 0.185, "lseh"},
	"saf/coco-benchmark":              {2e-4, 10, 0.2, "lmh"},
	"saf/coco-lmh2":                   {4e-4, 6, 0.16, "lmh"},
	"saf/coco-lseh":                   {4e-4, 6, 0.185, "lseh"},
	"saf/iapr-benchmark":              {2e-4, 20, 0.2, "lmh"},
	"saf/iapr-lmh2":                   {4e-4, 15, 0.16, "lmh"},
	"saf/iapr-lseh":                   {4e-4, 15, 0.185, "lseh"},
	"saf/f8k-benchmark":               {2e-4, 20, 0.2, "lmh"},
	"saf/f8k-lmh2":                    {4e-4, 16, 0.16, "lmh"},
	"saf/f8k-lseh":                    {4e-4, 16, 0.185, "lseh"},
	"sgr/f30k-benchmark":              {2e-4, 30, 0.2, "lmh"},
	"sgr/f30k-lmh2":                   {4e-4, 20, 0.16, "lmh"},
	"sgr/f30k-lseh":                   {4e-4, 20, 0.185, "lseh"},
	"sgr/coco-benchmark":              {2e-4, 10, 0.2, "lmh"},
	"sgr/coco-lmh2":                   {4e-4, 6, 0.16, "lmh"},
	"sgr/coco-lseh":                   {4e-4, 6, 0.185, "lseh"},
	"sgr/iapr-benchmark":              {2e-4, 30, 0.2, "lmh"},
	"sgr/iapr-lmh2":                   {4e-4, 20, 0.16, "lmh"},
	"sgr/iapr-lseh":                   {4e-4, 20, 0.185, "lseh"},
	"sgr/f8k-benchmark":               {2e-4, 30, 0.2, "lmh"},
	"sgr/f8k-lmh2":                    {4e-4, 20, 0.16, "lmh"},
	"sgr/f8k-lseh":                    {4e-4, 20, 0.185, "lseh"},
	"gsmn/f30k-benchmark":             {2e-4, 15, 0.2, "lmh"},
	"gsmn/coco-benchmark":             {5e-4, 5, 0.2, "lmh"},
	"gsmn/iapr-benchmark":             {2e-4, 15, 0.2, "lmh"},
	"gsmn/f8k-benchmark":              {2e-4, 3, 0.2, "lmh"},
	"gsmn/f30k-lmh2":                  {4e-4, 10, 0.16, "lmh"},
	"gsmn/coco-lmh2":                  {6e-4, 4, 0.16, "lmh"},
	"gsmn/iapr-lmh2":                  {4e-4, 10, 0.16, "lmh"},
	"gsmn/f8k-lmh2":                   {4e-4, 2, 0.16, "lmh"},
	"gsmn/f30k-lseh":                  {4e-4, 10, 0.185, "lseh"},
	"gsmn/coco-lseh":                  {6e-4, 4, 0.185, "lseh"},
	"gsmn/iapr-lseh":                  {4e-4, 10, 0.185, "lseh"},
	"gsmn/f8k-lseh":                   {4e-4, 2, 0.185, "lseh"},
	"vseinf/f30k-benchmark-bert":      {5e-4, 15, 0.2, "lmh"},
	"vseinf/f30k-lmh2-bert":           {8e-4, 10, 0.16, "lmh"},
	"vseinf/f30k-lseh-bert":           {8e-4, 10, 0.185, "lseh"},
	"vseinf/f30k-lseh-bert-semantics": {8e-4, 10, 0.185, "lseh"},
	"vseinf/coco-benchmark-bert":      {5e-4, 15, 0.2, "lmh"},
	"vseinf/coco-lmh2-bert":           {1e-3, 10, 0.16, "lmh"},
	"vseinf/coco-lseh-bert":           {1e-3, 10, 0.185, "lseh"},
	"vseinf/coco-lseh-bert-semantics": {1e-3, 10, 0.185, "lseh"},
	"vseinf/iapr-benchmark-bert":      {5e-4, 15, 0.2, "lmh"},
	"vseinf/iapr-lmh2-bert":           {9e-4, 10, 0.16, "lmh"},
	"vseinf/iapr-lseh-bert":           {9e-4, 10, 0.185, "lseh"},
	"vseinf/iapr-lseh-bert-semantics": {9e-4, 10, 0.185, "lseh"},
	"vseinf/f8k-benchmark-bert":       {5e-4, 15, 0.2, "lmh"},
	"vseinf/f8k-lmh2-bert":            {8e-4, 10, 0.16, "lmh"},
	"vseinf/f8k-lseh-bert":            {8e-4, 10, 0.185, "lseh"},
	"vseinf/f8k-lseh-bert-semantics":  {8e-4, 10, 0.185, "lseh"},
}

// settings are those that all presets of a network share.
var settings = map[string]func(c *Config, name string) bool{
	"vsepp": func(c *Config, name string) bool {
		warmup := 0
		if name == "vsepp/f8k-benchmark" {
			warmup = 1
		}
		return c.Train.Epochs == 30 && c.Optim.Name == "adam" && c.Optim.Schedule == "repeat" && c.Loss.WarmupEpochs == warmup && !c.Train.DropLast &&
			c.Model.EmbedDim == 1024
	},
	"vsrn": func(c *Config, name string) bool {
		mode := "f30k"
		if strings.HasPrefix(name, "vsrn/coco") {
			mode = "coco"
		}
		return c.Train.Epochs == 30 && c.Optim.Name == "adam" && c.Optim.Schedule == "repeat" && c.Loss.WarmupEpochs == 0 && !c.Train.DropLast &&
			c.Model.EmbedDim == 2048 && c.Model.VSRN.Mode == mode && c.Model.VSRN.Caption
	},
	"gsmn": gsmnSettings,
	"saf":  func(c *Config, name string) bool { return sgrafSettings(c, name, 30) },
	"sgr":  func(c *Config, name string) bool { return sgrafSettings(c, name, 40) },
	"vseinf": func(c *Config, name string) bool {
		warmup, second := 0, 20 // of the LSEH paper
		if strings.Contains(name, "benchmark") {
			warmup, second = 1, 0
		}
		if strings.Contains(name, "f8k") {
			warmup = 1
		}
		encoder, decay, semantics := "bert", 1e-4, "svd"
		if strings.HasSuffix(name, "-bigru") {
			encoder, decay = "bigru", 1e-2
		}
		if strings.HasSuffix(name, "-semantics") {
			semantics = "bert"
		}
		bert := c.Model.Bert
		if encoder == "bert" && (bert.Dir != "data/bert-base-uncased" || bert.Init != "pretrained" || bert.Layers != 12 || bert.Hidden != 768 ||
			bert.Heads != 12 || bert.Intermediate != 3072 || bert.Positions != 512 || bert.Dropout != 0.1 || c.Optim.BertLR != 0.1) {
			return false
		}
		return c.Train.Epochs == 25 && c.Optim.Name == "adamw" && c.Optim.WeightDecay == decay && c.Loss.LSEH.Semantics == semantics && c.Optim.Schedule == "once" &&
			c.Optim.LRUpdate2 == second && c.Loss.WarmupEpochs == warmup && c.Train.DropLast && c.Model.TextEncoder == encoder &&
			c.Model.EmbedDim == 1024 && c.Model.VSEInf.SizeAugment && !c.Model.VSEInf.BNIgnorePadding
	},
}

// gsmnSettings: batches of 64 and 32, λ, epochs as in the GSMN repository; the LSEH paper's batches are of 128.
func gsmnSettings(c *Config, name string) bool {
	epochs, lambda, batch, warmup := 30, 20.0, 128, 0
	if strings.Contains(name, "/coco") {
		epochs, lambda = 20, 10
	}
	if strings.Contains(name, "/f8k") {
		epochs, warmup, batch = 10, 1, 64 // our own choice
	}
	switch {
	case strings.HasSuffix(name, "coco-benchmark"):
		batch = 32
	case strings.HasSuffix(name, "benchmark"):
		batch = 64
	}
	g := c.Model.GSMN
	return c.Train.Epochs == epochs && c.Train.Batch == batch && c.Train.ValStep == 1000 && c.Optim.Name == "adam" && c.Optim.Schedule == "repeat" &&
		c.Loss.WarmupEpochs == warmup && !c.Train.DropLast && c.Model.TextEncoder == "bigru" && c.Model.EmbedDim == 1024 && g.Mode == "sparse" &&
		g.Neighbors == "self" && g.Lambda == lambda
}

func sgrafSettings(c *Config, name string, epochs int) bool {
	if strings.Contains(name, "/coco") {
		epochs = 20
	}
	return c.Train.Epochs == epochs && c.Train.ValStep == 1000 && c.Optim.Name == "adam" && c.Optim.Schedule == "repeat" && c.Loss.WarmupEpochs == 0 &&
		!c.Train.DropLast && c.Model.TextEncoder == "bigru" && c.Model.EmbedDim == 1024 && c.Model.SGRAF.SimDim == 256 && c.Model.SGRAF.Steps == 3
}

// fragments are the parts that presets are put together from; demo is no published setting.
var fragments = map[string]bool{
	"data/f30k": true, "data/coco": true, "data/iapr": true, "data/f8k": true,
	"loss/lmh1": true, "loss/lmh2": true, "loss/lseh": true, "vsepp/base": true, "vsrn/base": true, "vseinf/base": true, "vseinf/bigru": true, "vseinf/bert": true, "saf/base": true, "sgr/base": true, "gsmn/base": true, "demo": true,
}

func TestPresets(t *testing.T) {
	dir := filepath.Join("..", "..", "configs")
	found := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(filepath.ToSlash(rel), ".yaml")
		found[name] = true
		r, err := Load(Request{File: path})
		if err != nil {
			t.Error(err)
			return nil
		}
		want, ok := presets[name]
		if !ok {
			if !fragments[name] {
				t.Errorf("configs/%s.yaml has no row in the table of this test", name)
			}
			return nil
		}
		if r.Optim.LR != want.lr || r.Optim.LRUpdate != want.update || r.Loss.Margin != want.margin || r.Loss.Name != want.loss {
			t.Errorf("%s: lr %v, update %d, margin %v, loss %s; want %+v", name, r.Optim.LR, r.Optim.LRUpdate, r.Loss.Margin, r.Loss.Name, want)
		}
		set, _, _ := strings.Cut(filepath.Base(name), "-")
		network, _, _ := strings.Cut(name, "/")
		if r.Data.Dir != "data/"+set || r.Model.Network != network || r.Train.Batch != 128 && network != "gsmn" || r.Optim.Clip != 2 || r.Seed != 7 ||
			r.Loss.LSEH.Lambda != 0.025 || !settings[network](&r.Config, name) {
			t.Errorf("%s: not the common settings: %+v", name, r.Config)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range presets {
		if !found[name] {
			t.Errorf("configs/%s.yaml is missing", name)
		}
	}
}
