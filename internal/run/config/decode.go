package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"vsetrain/internal/system/options"
)

// setting is a checked value of a leaf and where it came from.
type setting struct {
	value  any
	source Source
}

// layer maps the dotted path of a leaf to its setting in one file, in the environment or in the flags.
type layer map[string]setting

// extendsKey names the file or preset, or the list of them, that a file is an overlay of. Paths are relative to the
// file. Later files of the list win over earlier ones, and the file itself over all of them.
const extendsKey = "extends"

// decodeSection decodes the mapping node of a section of a tree into out; every mistake goes to p.
func decodeSection(file string, tree, section *field, node *yaml.Node, out layer, p *problems) {
	seen := map[string]int{}
	if k := foreign(section, node); k != nil {
		p.add(SourceOf(file, k), fmt.Sprintf("%.40s", k.Value), "unknown key, like all others here; this file is not "+
			"a configuration: the top level has %s", strings.Join(section.keys(), ", "))
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		k, v := node.Content[i], node.Content[i+1]
		at, path := SourceOf(file, k), join(section.path, k.Value)
		if k.Kind != yaml.ScalarNode {
			p.add(at, section.path, "expected a key, found %s", Describe(k))
			continue
		}
		if line, ok := seen[k.Value]; ok {
			p.add(at, path, "duplicate key; already set in line %d", line)
			continue
		}
		seen[k.Value] = k.Line
		if section == root && k.Value == extendsKey {
			continue
		}
		if k.Tag == "!!merge" {
			p.add(at, section.path, "merge keys (<<) are not read; use %s at the top of the file", extendsKey)
			continue
		}
		f := section.child(k.Value)
		switch {
		case f == nil && tree == root && removedKey(path, v.Value, SourceOf(file, v), p):
		case f == nil:
			p.add(at, path, "%s", unknownKey(tree, section, k.Value, v.Value))
		case f.isSection() && v.Kind == yaml.MappingNode:
			decodeSection(file, tree, f, v, out, p)
		case f.isSection():
			p.add(SourceOf(file, v), path, "expected a section with keys, found %s", Describe(v))
		default:
			at := SourceOf(file, v)
			if value, ok := decodeLeaf(f, v, at, p); ok {
				out[path] = setting{value, at}
			}
		}
	}
}

// foreign returns the first key of a file that has several keys but none of the configuration: messages should not list
// all keys of an unrelated file.
func foreign(section *field, node *yaml.Node) *yaml.Node {
	if section != root || len(node.Content) < 4 {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		k := node.Content[i]
		first, _, _ := strings.Cut(k.Value, ".")
		if k.Kind != yaml.ScalarNode || k.Value == extendsKey || k.Tag == "!!merge" || section.child(first) != nil ||
			len(alike(root, section, k.Value, "")) > 0 {
			return nil
		}
	}
	return node.Content[0]
}

// decodeLeaf converts a node to the type of the leaf and checks its range.
func decodeLeaf(f *field, node *yaml.Node, at Source, p *problems) (any, bool) {
	v := reflect.New(f.typ).Elem()
	if node.Kind == yaml.AliasNode {
		p.add(at, f.path, "aliases (*%s) are not read; write the value out", node.Value)
		return nil, false
	}
	if !convert(f, v, node) {
		found := Describe(node)
		if f.typ.Kind() == reflect.String && !isText(f.typ) && len(f.rule.Enum) == 0 && node.Kind == yaml.ScalarNode &&
			node.Tag != "!!null" {
			if found += "; put it in quotes"; !utf8.ValidString(node.Value) {
				found = Describe(node) + ", which is not UTF-8"
			}
		}
		if near := options.Nearest(node.Value, f.rule.Enum); near != "" {
			found += "; did you mean " + near + "?"
		}
		if f.typ.Kind() != reflect.String || isText(f.typ) {
			found += Doubt(node)
		}
		p.value(at, f, found)
		return nil, false
	}
	return v.Interface(), true
}

// convert stores the node in v and reports whether type and range fit.
func convert(f *field, v reflect.Value, node *yaml.Node) bool {
	if isText(v.Type()) {
		return node.Kind == yaml.ScalarNode &&
			v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(node.Value)) == nil
	}
	if v.Kind() == reflect.Array {
		if node.Kind != yaml.SequenceNode || len(node.Content) != v.Len() {
			return false
		}
		for i, item := range node.Content {
			if !convert(f, v.Index(i), item) {
				return false
			}
		}
		return true
	}
	if node.Kind != yaml.ScalarNode {
		return false
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(node.Value)
		// A value like true may be one of the accepted words, so these are compared as written.
		return utf8.ValidString(node.Value) && f.rule.AcceptsText(node.Value) && (node.Tag == "!!str" ||
			len(f.rule.Enum) > 0)
	case reflect.Bool:
		return node.Tag == "!!bool" && node.Decode(v.Addr().Interface()) == nil
	case reflect.Float64:
		x, err := Float(node)
		v.SetFloat(x)
		return err == nil && f.rule.AcceptsNumber(x)
	case reflect.Int:
		n, err := Int(node)
		v.SetInt(int64(n))
		return err == nil && f.rule.AcceptsNumber(float64(n))
	case reflect.Uint64:
		n, err := Uint(node)
		v.SetUint(n)
		return err == nil && f.rule.AcceptsNumber(float64(n))
	}
	panic(fmt.Sprintf("config: key %s has the type %s, which the decoder does not know", f.path, f.typ))
}

// SourceOf returns the place of a node of a file.
func SourceOf(file string, n *yaml.Node) Source {
	return Source{File: file, Line: n.Line, Column: n.Column}
}
