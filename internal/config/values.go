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
	root.leaves(func(f *field) { out = append(out, Value{f.path, scalar(cfg.FieldByIndex(f.index)), f.doc}) })
	return out
}

// Differing returns the settings that are not the same in all configurations: the keys, and for each the values in the order of the
// configurations. Settings of where a run lives and computes (run, device.threads) are left out.
func Differing(all []*Config) (keys []string, values [][]string) {
	if len(all) < 2 {
		return nil, nil
	}
	columns := make([][]Value, len(all))
	for i, c := range all {
		columns[i] = Values(c)
	}
	for k, v := range columns[0] {
		if strings.HasPrefix(v.Key, "run.") || v.Key == "device.threads" {
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
