package sweep

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"vsetrain/internal/run/config"
	"vsetrain/internal/system/options"
)

// reader decodes a sweep file and collects all mistakes with their positions.
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

// decoder decodes the value of a key.
type decoder = func(path string, k, v *yaml.Node)

// key is what a section accepts: the name and what decodes its value.
type key struct {
	name   string
	decode decoder
}

// section decodes a mapping. Unknown and repeated keys are mistakes.
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

// text decodes a string, or with words one of them.
func (r *reader) text(out *string, words ...string) decoder {
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

// scalar decodes a value with parse.
func scalar[T any](r *reader, out *T, expected string, parse func(*yaml.Node) (T, bool)) decoder {
	return func(path string, _, v *yaml.Node) {
		x, ok := parse(v)
		if !ok {
			r.add(v, path, "expected %s, found %s%s", expected, config.Describe(v), config.Doubt(v))
			return
		}
		*out = x
	}
}

// whole decodes a whole number in a range.
func (r *reader) whole(out *int, lo, hi int) decoder {
	return scalar(r, out, fmt.Sprintf("a whole number in [%d, %d]", lo, hi), func(v *yaml.Node) (int, bool) {
		n, err := config.Int(v)
		return n, err == nil && n >= lo && n <= hi
	})
}

// number decodes a finite number.
func (r *reader) number(out *float64) decoder {
	return scalar(r, out, "a finite number", func(v *yaml.Node) (float64, bool) {
		x, err := config.Float(v)
		return x, err == nil
	})
}

// items calls each for every item of a list, which must not be empty.
func (r *reader) items(what string, each func(path string, v *yaml.Node)) decoder {
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
func (r *reader) texts(out *[]string) decoder {
	return r.items("strings", func(path string, v *yaml.Node) {
		var s string
		if r.text(&s)(path, nil, v); s != "" {
			*out = append(*out, s)
		}
	})
}

// integers decodes a list of whole numbers >= lo.
func (r *reader) integers(out *[]int, lo int) decoder {
	return r.items("whole numbers", func(path string, v *yaml.Node) {
		n := lo - 1
		if r.whole(&n, lo, 1<<30)(path, nil, v); n >= lo {
			*out = append(*out, n)
		}
	})
}
