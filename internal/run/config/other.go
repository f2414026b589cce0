package config

import (
	"reflect"
	"slices"

	"vsetrain/internal/system/options"
)

// DecodeFile reads another YAML file than a configuration, by the same rules: out points to an options struct (package
// options) that holds the defaults. Unknown, repeated and mistyped keys and values out of range are an *Error that
// lists all of them, and so are required keys that are missing.
func DecodeFile(file string, out any, required ...string) error {
	p := &problems{}
	tree := fieldsOf(reflect.ValueOf(out).Elem(), "", nil)
	found := layer{}
	if top := parseFile(file, p); top != nil {
		decodeSection(file, tree, tree, top, found, p)
		for _, key := range required {
			has := slices.ContainsFunc(p.list, func(q Problem) bool { return q.Key == key })
			if _, ok := found[key]; !ok && !has {
				f := tree.find(key)
				p.add(Source{File: file}, key, "missing; expected %s (%s)", f.expected(), f.doc)
			}
		}
	}
	if err := p.err(); err != nil {
		return err
	}
	tree.leaves(func(f *field) {
		if s, ok := found[f.path]; ok {
			options.Set(reflect.ValueOf(out).Elem(), f.index, reflect.ValueOf(s.value))
		}
	})
	return nil
}
