package config

import (
	"encoding"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"vsetrain/internal/system/options"
)

// field is one key of the configuration: a section with children or a leaf with a value. Decoding, layering,
// writing and the JSON Schema all walk the same tree, which is read from the options structs.
type field struct {
	key, path, doc, arg string
	typ                 reflect.Type
	rule                options.Rule
	index               []int // of the leaf in Config
	children            []*field
}

var root = fieldsOf(reflect.ValueOf(Default()), "", nil)

var textType = reflect.TypeFor[encoding.TextUnmarshaler]()

// isText reports whether values of the type read themselves from text (options.PerSplit).
func isText(t reflect.Type) bool { return reflect.PointerTo(t).Implements(textType) }

func fieldsOf(v reflect.Value, path string, index []int) *field {
	t := v.Type()
	node := &field{path: path, typ: t}
	for i, sf := range options.Fields(t) {
		at := append(slices.Clone(index), i)
		for k, key := range options.Sections(sf.Type) {
			f := fieldsOf(v.Field(i).Index(k).Elem(), join(path, key), append(slices.Clone(at), k))
			f.key, f.path, f.doc = key, join(path, key), "used when name is "+key
			node.children = append(node.children, f)
		}
		key, ok := options.Key(sf)
		if !ok {
			continue
		}
		f := &field{typ: sf.Type}
		if sf.Type.Kind() == reflect.Struct {
			f = fieldsOf(v.Field(i), join(path, key), at)
		}
		f.key, f.path, f.index, f.rule = key, join(path, key), at, options.RuleOf(sf)
		f.doc, f.arg = sf.Tag.Get("doc"), sf.Tag.Get("arg")
		node.children = append(node.children, f)
	}
	return node
}

// of is the leaf in a configuration.
func (f *field) of(cfg reflect.Value) reflect.Value { return options.At(cfg, f.index) }

func (f *field) isSection() bool { return f.children != nil }

// child returns the field of a key inside a section, or nil.
func (f *field) child(key string) *field {
	for _, c := range f.children {
		if c.key == key {
			return c
		}
	}
	return nil
}

// find returns the field of a dotted path below f, or nil.
func (f *field) find(path string) *field {
	for key := range strings.SplitSeq(path, ".") {
		if f = f.child(key); f == nil {
			return nil
		}
	}
	return f
}

// leaf returns the field of a setting, or nil for a path that is none.
func (f *field) leaf(path string) *field {
	if f = f.find(path); f == nil || f.isSection() {
		return nil
	}
	return f
}

// leaves calls visit for every leaf below f in declaration order.
func (f *field) leaves(visit func(*field)) {
	for _, c := range f.children {
		if c.isSection() {
			c.leaves(visit)
		} else {
			visit(c)
		}
	}
}

// keys returns the keys of a section.
func (f *field) keys() []string {
	keys := make([]string, len(f.children))
	for i, c := range f.children {
		keys[i] = c.key
	}
	return keys
}

// Keys are the keys of all settings, with dots between sections.
func Keys() []string {
	var all []string
	root.leaves(func(f *field) { all = append(all, f.path) })
	return all
}

// expected says in words what a leaf accepts.
func (f *field) expected() string {
	switch {
	case isText(f.typ):
		return options.PerSplitExpected
	case f.typ.Kind() == reflect.Array:
		item := strings.Replace(strings.TrimPrefix(f.rule.String(), "a "), "number", "numbers", 1)
		return "a list of " + strconv.Itoa(f.typ.Len()) + " " + item
	case f.typ.Kind() == reflect.Bool:
		return "true or false"
	}
	return f.rule.String()
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// Complete returns the continuations of a partial --set argument: "optim.l" gives "optim.lr=" and others, "loss.name=l"
// gives "loss.name=lseh" and others.
func Complete(word string) []string {
	var out []string
	path, value, hasValue := strings.Cut(word, "=")
	root.leaves(func(f *field) {
		switch {
		case !hasValue && strings.HasPrefix(f.path, path):
			out = append(out, f.path+"=")
		case hasValue && f.path == path:
			values := f.rule.Enum
			if f.typ.Kind() == reflect.Bool {
				values = []string{"true", "false"}
			}
			for _, v := range values {
				if strings.HasPrefix(v, value) {
					out = append(out, path+"="+v)
				}
			}
		}
	})
	return out
}

// Key describes a key to a flag that stands for it.
type Key struct {
	Doc, Arg string // meaning of the key, and name of its value
	Truth    bool   // true or false
}

// KeyOf describes a key, which must exist.
func KeyOf(path string) Key {
	f := root.find(path)
	k := Key{Doc: f.doc, Arg: f.arg, Truth: f.typ.Kind() == reflect.Bool}
	switch {
	case k.Truth, k.Arg != "":
	case len(f.rule.Enum) > 0:
		k.Arg = strings.Join(f.rule.Enum, "|")
	case f.typ.Kind() == reflect.String:
		k.Arg = "TEXT"
	case f.typ.Kind() == reflect.Float64:
		k.Arg = "NUMBER"
	default:
		k.Arg = "N"
	}
	return k
}
