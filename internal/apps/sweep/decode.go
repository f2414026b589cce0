package sweep

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"vsetrain/internal/run/config"
	"vsetrain/internal/system/options"
)

// reader decodes a sweep file node by node and collects every mistake with its position in the file.
type reader struct {
	file string
	list []config.Problem
}

func (r *reader) at(n *yaml.Node) config.Source { return config.SourceOf(r.file, n) }

func (r *reader) add(n *yaml.Node, key, format string, args ...any) {
	r.list = append(r.list, config.Problem{Source: r.at(n), Key: key, Text: fmt.Sprintf(format, args...)})
}

func (r *reader) err() error {
	if len(r.list) == 0 {
		return nil
	}
	return &config.Error{Problems: r.list}
}

// key is what a section accepts: the name and what decodes its value.
type key struct {
	name   string
	decode func(path string, k, v *yaml.Node)
}

// section decodes a mapping; unknown and repeated keys are mistakes.
func (r *reader) section(path string, n *yaml.Node, keys ...key) (seen map[string]*yaml.Node) {
	seen = map[string]*yaml.Node{}
	if n.Kind != yaml.MappingNode {
		r.add(n, path, "expected a section with keys, found %s", config.Describe(n))
		return seen
	}
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		at := join(path, k.Value)
		if v.Kind == yaml.AliasNode {
			r.add(v, at, "aliases (*%s) are not read; write the value out", v.Value)
			continue
		}
		if earlier := seen[k.Value]; earlier != nil {
			r.add(k, at, "duplicate key; already set in line %d", earlier.Line)
			continue
		}
		seen[k.Value] = k
		j := slices.Index(names, k.Value)
		if j < 0 {
			hint := strings.TrimPrefix(path+" has ", " ") + strings.Join(names, ", ")
			if path == "" {
				hint = "a sweep has " + strings.Join(names, ", ")
			}
			if near := options.Nearest(k.Value, names); near != "" {
				hint = "did you mean " + near + "?"
			}
			r.add(k, at, "unknown key; %s", hint)
			continue
		}
		keys[j].decode(at, k, v)
	}
	return seen
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// text decodes a string; with words, one of them.
func (r *reader) text(out *string, words ...string) func(string, *yaml.Node, *yaml.Node) {
	return func(path string, _, v *yaml.Node) {
		if v.Kind != yaml.ScalarNode || v.Tag == "!!null" || v.Value == "" {
			r.add(v, path, "expected a string, found %s", config.Describe(v))
			return
		}
		if len(words) > 0 && !slices.Contains(words, v.Value) {
			hint := ""
			if near := options.Nearest(v.Value, words); near != "" {
				hint = "; did you mean " + near + "?"
			}
			r.add(v, path, "expected one of %s, found %s%s", strings.Join(words, ", "), config.Describe(v), hint)
			return
		}
		if strings.ContainsAny(v.Value, "\n\r\x00") {
			r.add(v, path, "expected one line, found %s", config.Describe(v))
			return
		}
		*out = v.Value
	}
}

// whole decodes a whole number in a range.
func (r *reader) whole(out *int, lo, hi int) func(string, *yaml.Node, *yaml.Node) {
	return func(path string, _, v *yaml.Node) {
		n, err := config.Int(v)
		if err != nil || n < lo || n > hi {
			r.add(v, path, "expected a whole number in [%d, %d], found %s%s", lo, hi, config.Describe(v),
				config.Doubt(v))
			return
		}
		*out = n
	}
}

// number decodes a finite number.
func (r *reader) number(out *float64) func(string, *yaml.Node, *yaml.Node) {
	return func(path string, _, v *yaml.Node) {
		x, err := config.Float(v)
		if err != nil {
			r.add(v, path, "expected a finite number, found %s%s", config.Describe(v), config.Doubt(v))
			return
		}
		*out = x
	}
}

// items calls each for every item of a list that must not be empty.
func (r *reader) items(what string, each func(path string, v *yaml.Node)) func(string, *yaml.Node, *yaml.Node) {
	return func(path string, k, v *yaml.Node) {
		if v.Kind != yaml.SequenceNode {
			r.add(v, path, "expected a list of %s, found %s", what, config.Describe(v))
			return
		}
		if len(v.Content) == 0 {
			r.add(k, path, "the list is empty; give at least one of its %s", what)
			return
		}
		for i, item := range v.Content {
			if item.Kind == yaml.AliasNode {
				r.add(item, path, "aliases (*%s) are not read; write the value out", item.Value)
				continue
			}
			each(fmt.Sprintf("%s[%d]", path, i), item)
		}
	}
}

// texts decodes a list of strings.
func (r *reader) texts(out *[]string) func(string, *yaml.Node, *yaml.Node) {
	return r.items("strings", func(path string, v *yaml.Node) {
		var s string
		if r.text(&s)(path, nil, v); s != "" {
			*out = append(*out, s)
		}
	})
}

// integers decodes a list of whole numbers >= lo.
func (r *reader) integers(out *[]int, lo int) func(string, *yaml.Node, *yaml.Node) {
	return r.items("whole numbers", func(path string, v *yaml.Node) {
		n := lo - 1
		if r.whole(&n, lo, 1<<30)(path, nil, v); n >= lo {
			*out = append(*out, n)
		}
	})
}
