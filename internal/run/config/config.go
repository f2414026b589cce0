// Package config reads the one configuration of a run: strict YAML files that may extend one another, then
// VSETRAIN_* variables, then --set flags, on top of the defaults of every package.
//
// Every file is decoded strictly against the options structs before anything is merged: an unknown, repeated or
// mistyped key and a value out of range are errors that name file, line and column. Only checked and typed values
// enter the layers (kept by viper), and the origin of every value is remembered.
package config

import (
	"path/filepath"
	"strconv"
	"strings"

	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/mlflow"
	"vsetrain/internal/system/options"
	"vsetrain/loss"
	"vsetrain/models"
	"vsetrain/train"
)

// Version is the version of the configuration that this program reads and writes.
const Version = 1

// Config is the whole configuration of a run.
type Config struct {
	Version int                `yaml:"version" doc:"version of this format; 1"`
	Seed    uint64             `yaml:"seed" min:"0" doc:"seed of every random choice: weights, order, dropout, augmentation"`
	Data    data.Options       `yaml:"data" doc:"the data set"`
	Model   models.Options     `yaml:"model" doc:"the network"`
	Loss    loss.Options       `yaml:"loss" doc:"the retrieval loss"`
	Optim   train.OptimOptions `yaml:"optim" doc:"optimiser and learning-rate schedule"`
	Train   train.Options      `yaml:"train" doc:"the training loop"`
	Device  device.Options     `yaml:"device" doc:"device and precision"`
	Run     runfs.Options      `yaml:"run" doc:"the run directory"`
	Track   mlflow.Options     `yaml:"track" doc:"experiment tracking"`

	// chosen are the keys whose values the user chose by a flag, a variable or a file other than a preset. In a file
	// that has every key, such as the file of a run, they are the keys whose values differ from the default.
	chosen map[string]bool
}

// Default returns the configuration of an empty file: VSE++ with LMH and the benchmark settings, without a data folder.
func Default() Config {
	return Config{
		Version: Version,
		Seed:    7,
		Data:    data.DefaultOptions(),
		Model:   models.DefaultOptions(),
		Loss:    loss.DefaultOptions(),
		Optim:   train.DefaultOptimOptions(),
		Train:   train.DefaultOptions(),
		Device:  device.DefaultOptions(),
		Run:     runfs.DefaultOptions(),
	}
}

// Validate returns an *options.Error, its key a path from the top, for the first option that cannot be used.
func (c *Config) Validate() error {
	if c.Version != Version {
		return &options.Error{Key: "version", Found: intText(c.Version), Expected: intText(Version),
			Remedy: "this vsetrain reads configurations of version 1"}
	}
	for _, section := range []struct {
		key string
		opt interface{ Validate() error }
	}{
		{"data", &c.Data}, {"model", &c.Model}, {"loss", &c.Loss}, {"optim", &c.Optim},
		{"train", &c.Train}, {"device", &c.Device}, {"run", &c.Run}, {"track", &c.Track},
	} {
		if err := section.opt.Validate(); err != nil {
			return options.Under(section.key, err)
		}
	}
	if c.Optim.ReduceDtype == train.BF16 && c.Device.Precision == "fp64" {
		return &options.Error{Key: "optim.reduce_dtype", Found: train.BF16,
			Expected: "fp32 with device.precision fp64",
			Remedy:   "fp64 is for checking, which sums in bf16 would spoil"}
	}
	return nil
}

func intText(n int) string { return strconv.Itoa(n) }

// RunDir returns run.dir, or runs/NETWORK-NAME after the network and the config file when it is empty.
func (c *Config) RunDir(file string) string {
	if c.Run.Dir != "" {
		return c.Run.Dir
	}
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	if file == "" {
		name = "default"
	}
	if !strings.HasPrefix(name, c.Model.Network) {
		name = c.Model.Network + "-" + name
	}
	return filepath.Join("runs", name)
}

// Unchosen returns a copy in which no value counts as chosen, for Together.
func (c *Config) Unchosen() *Config {
	out := *c
	out.chosen = nil
	return &out
}

// WithPrecision returns a copy that computes in another precision: the one that device.precision auto chose.
func (c *Config) WithPrecision(precision string) *Config {
	out := *c
	out.Device.Precision = precision
	return &out
}
