package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// mayChange are the settings and sections that may change when a run is resumed: where it is stored and runs, how long
// it trains, what it shows, and where its first weights came from, which its checkpoint now contains.
var mayChange = []string{"device", "run", "track", "data.vocab", "model.bert.dir", "model.bert.init", "model.word_init",
	"train.epochs", "train.early_stop", "train.max_steps", "train.log_step", "train.collapse_steps",
	"train.on_collapse", "train.keep", "train.val_precision"}

// Identity holds the settings that make a run what it is, by key, as Marshal writes them.
type Identity map[string]string

// IdentityOf returns the settings of a configuration that may not change while its run is resumed.
func IdentityOf(c *Config) Identity {
	all, v := Identity{}, reflect.ValueOf(c).Elem()
	root.leaves(func(f *field) {
		if f.path == "device.precision" || !slices.ContainsFunc(mayChange, func(key string) bool {
			return f.path == key || strings.HasPrefix(f.path, key+".")
		}) {
			all[f.path] = scalar(f.of(v))
		}
	})
	return all
}

// WithoutPaths omits the settings that name files: their spelling depends on the working directory.
func (i Identity) WithoutPaths() Identity {
	i = maps.Clone(i)
	for _, key := range []string{"data.dir", "data.semantics", "data.noise_index", "data.mined"} {
		delete(i, key)
	}
	return i
}

// Differences lists the settings whose values differ, as "key was 1, is 2". It skips keys that one side lacks, which
// belong to another version.
func (i Identity) Differences(now Identity) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(i)) {
		if is, ok := now[key]; ok && is != i[key] {
			out = append(out, fmt.Sprintf("%s was %s, is %s", key, i[key], is))
		}
	}
	return out
}
