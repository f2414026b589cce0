package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// mayChange are the settings, and sections of them, that a run may be resumed with other values of: where it lies and
// runs, how long it trains, what it shows, and where its first weights came from, which its checkpoint holds since.
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

// WithoutPaths leaves out the settings that name files, which are spelt as they are seen from a working directory.
func (i Identity) WithoutPaths() Identity {
	i = maps.Clone(i)
	for _, key := range []string{"data.dir", "data.semantics", "data.noise_index", "data.mined"} {
		delete(i, key)
	}
	return i
}

// Differences lists the settings that two configurations have other values of, as "key was 1, is 2". A key that one
// lacks is of another version, and left out.
func (i Identity) Differences(now Identity) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(i)) {
		if is, ok := now[key]; ok && is != i[key] {
			out = append(out, fmt.Sprintf("%s was %s, is %s", key, i[key], is))
		}
	}
	return out
}
