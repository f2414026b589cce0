package config

import "reflect"

// Value is a key of the configuration by its path from the top ("optim.lr"), and its value as a file writes it.
type Value struct{ Path, Text string }

// Values returns every key with its value, in the order of the file.
func Values(c *Config) []Value {
	var out []Value
	v := reflect.ValueOf(c).Elem()
	root.leaves(func(f *field) { out = append(out, Value{f.path, scalar(v.FieldByIndex(f.index))}) })
	return out
}
