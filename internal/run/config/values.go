package config

import (
	"reflect"
	"strings"
)

// Value is one setting of a configuration, for tables: its key ("optim.lr"), its value as YAML, and what it means.
type Value struct{ Key, Text, Doc string }

// Values returns all settings in the order of the file.
func Values(c *Config) []Value {
	cfg := reflect.ValueOf(c).Elem()
	var out []Value
	root.leaves(func(f *field) { out = append(out, Value{f.path, scalar(f.of(cfg)), f.doc}) })
	return out
}

// Settings returns what a run is the result of, by key: numbers as float64, truth values as bool, everything else as
// the text of the file, and so whole numbers that a float64 does not hold. Where a run lives and computes (run, track,
// device.threads) is left out.
func Settings(c *Config) map[string]any {
	cfg := reflect.ValueOf(c).Elem()
	out := map[string]any{}
	root.leaves(func(f *field) {
		v := f.of(cfg)
		switch {
		case f.path == versionKey || elsewhere(f.path):
		case v.Kind() == reflect.Bool:
			out[f.path] = v.Bool()
		case v.CanFloat():
			out[f.path] = v.Float()
		case v.CanInt():
			out[f.path] = float64(v.Int())
		case v.CanUint() && v.Uint() < 1<<53:
			out[f.path] = float64(v.Uint())
		case v.Kind() == reflect.String:
			out[f.path] = v.String()
		default:
			out[f.path] = scalar(v)
		}
	})
	return out
}

// elsewhere reports whether a key says where a run lives and computes, not what comes out.
func elsewhere(key string) bool {
	return strings.HasPrefix(key, "run.") || strings.HasPrefix(key, "track.") || key == "device.threads" ||
		key == "device.timeout"
}

// Differing returns the settings that are not the same in all configurations: the keys, and for each the values in the
// order of the configurations. Settings of where a run lives and computes (elsewhere) are left out.
func Differing(all []*Config) (keys []string, values [][]string) {
	if len(all) < 2 {
		return nil, nil
	}
	columns := make([][]Value, len(all))
	for i, c := range all {
		columns[i] = Values(c)
	}
	for k, v := range columns[0] {
		if elsewhere(v.Key) {
			continue
		}
		row, same := make([]string, len(all)), true
		for i := range all {
			row[i] = columns[i][k].Text
			same = same && row[i] == v.Text
		}
		if !same {
			keys, values = append(keys, v.Key), append(values, row)
		}
	}
	return keys, values
}
