package config

import (
	"io/fs"
	"path"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"vsetrain/configs"
)

// CheckSettings returns every mistake of the settings on their own: unknown keys and values out of range.
func CheckSettings(settings []Setting) []Problem {
	var p problems
	settingsLayer(settings, &p)
	return p.list
}

// ParseFile returns the top mapping of another YAML file of at most 1 MiB, read as strictly as a configuration: one
// document, no repeated documents, a mapping at the top. The error is an *Error.
func ParseFile(file string) (*yaml.Node, error) {
	var p problems
	top := parseFile(file, &p)
	return top, p.err()
}

// NamedSweep returns the sweep of the program with this name; ok is false where there is none.
func NamedSweep(name string) (top *yaml.Node, ok bool, err error) {
	file := path.Join(configs.Sweeps, name+yamlEnding)
	b, err := fs.ReadFile(configs.FS, file)
	if err != nil {
		return nil, false, nil
	}
	var p problems
	top = parse(presetFolder+file, b, &p)
	return top, true, p.err()
}

// SweepNames are the names of the sweeps of the program.
func SweepNames() (names []string) {
	files, _ := fs.Glob(configs.FS, configs.Sweeps+"/*"+yamlEnding)
	for _, f := range files {
		names = append(names, strings.TrimSuffix(path.Base(f), yamlEnding))
	}
	return names
}

// IsRun reports whether a file is the configuration of a run: it has one of its sections, or extends another, and
// nothing that only a sweep has.
func IsRun(top *yaml.Node) bool { return kindOf(top) == "run" }

// Whole reports whether the key holds a whole number; known is false for a section or an unknown key.
func Whole(key string) (whole, known bool) {
	f := root.leaf(key)
	return f != nil && (f.typ.Kind() == reflect.Int || f.typ.Kind() == reflect.Uint64), f != nil
}

// Canonical returns a value of a key as Marshal writes it, so that equal values such as 1e-3 and 0.001 have the same
// text. Text that is not a value of the key stays unchanged.
func Canonical(key, text string) string {
	var p problems
	if f := root.leaf(key); f != nil {
		if v, ok := decodeText(f, text, Source{}, &p); ok {
			return scalar(reflect.ValueOf(v))
		}
	}
	return text
}

// Text returns the value of a key as the YAML that Marshal writes, "" for a key the configuration has not.
func (c *Config) Text(key string) string {
	if f := root.leaf(key); f != nil {
		return scalar(f.of(reflect.ValueOf(c).Elem()))
	}
	return ""
}

// Value returns the value of a key, with its type; nil for a key the configuration has not.
func (c *Config) Value(key string) any {
	f := root.find(key)
	if f == nil || f.isSection() {
		return nil
	}
	return f.of(reflect.ValueOf(c).Elem()).Interface()
}

// Changed returns "key: value" for every setting that differs from the default, in the order of the configuration.
func (c *Config) Changed() []string {
	def := Default()
	var out []string
	root.leaves(func(f *field) {
		if text := c.Text(f.path); text != def.Text(f.path) {
			out = append(out, f.path+": "+text)
		}
	})
	return out
}
