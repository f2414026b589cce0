package config

import (
	"encoding/json"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// portable are the sections that mean the same on every machine.
var portable = []string{"version", "seed", "data", "model", "loss", "optim", "train"}

// Portable returns settings as JSON that Load reads, for others to see: the settings of the named sections, or of all
// that mean the same on every machine, without the ones that name files.
func Portable(c *Config, sections ...string) ([]byte, error) {
	if len(sections) == 0 {
		sections = portable
	}
	all := map[string]any{}
	for _, key := range sections {
		value, err := root.child(key).plain(reflect.ValueOf(c).Elem())
		if err != nil {
			return nil, err
		}
		all[key] = value
	}
	b, err := json.MarshalIndent(all, "", "  ")
	return append(b, '\n'), err
}

// plain returns a value, or a map of the values in a section.
func (f *field) plain(cfg reflect.Value) (value any, err error) {
	if !f.isSection() {
		return value, yaml.Unmarshal([]byte(scalar(f.of(cfg))), &value)
	}
	all := map[string]any{}
	for _, child := range f.children {
		if slices.Contains(pathKeys, child.path) {
			continue
		}
		if all[child.key], err = child.plain(cfg); err != nil {
			return nil, err
		}
	}
	return all, nil
}
