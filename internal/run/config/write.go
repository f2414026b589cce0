package config

import (
	"encoding"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Marshal returns the configuration as YAML that Load reads back to the same values, bit for bit. Every key is written.
func Marshal(c *Config) []byte {
	var b strings.Builder
	for _, l := range lines(root, reflect.ValueOf(c).Elem(), 0) {
		b.WriteString(l.text + "\n")
	}
	return []byte(b.String())
}

// Show returns the configuration as YAML with the origin of every value in a comment and, when docs is set, the
// explanation of every key above it.
func (r *Resolved) Show(docs bool) string {
	all := lines(root, reflect.ValueOf(&r.Config).Elem(), 0)
	width := 0
	for _, l := range all {
		if !l.field.isSection() && len(l.text) <= 48 {
			width = max(width, len(l.text))
		}
	}
	var b strings.Builder
	for _, l := range all {
		if docs && l.field.doc != "" {
			fmt.Fprintf(&b, "%s# %s\n", strings.Repeat("  ", l.depth), l.field.doc)
		}
		if l.field.isSection() {
			b.WriteString(l.text + "\n")
			continue
		}
		fmt.Fprintf(&b, "%-*s  # %s\n", width, l.text, r.Origin(l.field.path))
	}
	return b.String()
}

type line struct {
	text  string
	depth int
	field *field
}

func lines(section *field, cfg reflect.Value, depth int) []line {
	var out []line
	indent := strings.Repeat("  ", depth)
	for _, f := range section.children {
		if f.isSection() {
			out = append(out, line{indent + f.key + ":", depth, f})
			out = append(out, lines(f, cfg, depth+1)...)
			continue
		}
		out = append(out, line{indent + f.key + ": " + scalar(f.of(cfg)), depth, f})
	}
	return out
}

// scalar writes a value in YAML; floats in the shortest form that reads back to the same bits, and that YAML 1.1
// readers such as PyYAML take for a number too: 1.0e-08, since to them 1e-08 is text.
func scalar(v reflect.Value) string {
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		b, err := m.MarshalText()
		if err != nil {
			panic("config: " + err.Error()) // no options type has a value without text
		}
		return string(b)
	}
	switch v.Kind() {
	case reflect.Array:
		items := make([]string, v.Len())
		for i := range items {
			items[i] = scalar(v.Index(i))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case reflect.Float64:
		return withPoint(strconv.FormatFloat(v.Float(), 'g', -1, 64))
	case reflect.String:
		return quote(v.String())
	}
	return fmt.Sprint(v.Interface())
}

// withPoint gives the mantissa of a number with an exponent the decimal point that YAML 1.1 asks for.
func withPoint(number string) string {
	mantissa, exponent, ok := strings.Cut(number, "e")
	if !ok || strings.Contains(mantissa, ".") {
		return number
	}
	return mantissa + ".0e" + exponent
}

// yaml11 matches plain words that YAML 1.1 takes for a truth value or a number, and YAML 1.2 for a string.
var yaml11 = regexp.MustCompile(`^(?i:y|n|yes|no|on|off|true|false|null|[-+]?0b[01_]+|[-+]?[0-9][0-9_]*)$`)

// quote writes a string plainly when YAML, also version 1.1, reads it back as the same string, else in double quotes.
func quote(s string) string {
	var n yaml.Node
	plain := s != "" && s == strings.TrimSpace(s) && !yaml11.MatchString(s) &&
		!strings.ContainsAny(s, "\n\r\t#:{}[],&*!|>'\"%@`\\")
	if plain && yaml.Unmarshal([]byte(s), &n) == nil && len(n.Content) == 1 &&
		n.Content[0].Kind == yaml.ScalarNode && n.Content[0].Tag == "!!str" && n.Content[0].Value == s {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 || r == 0xfeff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// Differences lists the settings, by their keys below key, whose values differ between two structs of one type, as
// "key was 1, is 2". An empty key is the key of the whole configuration.
func Differences[T any](key string, was, is T) (out []string) {
	a, b := reflect.ValueOf(was), reflect.ValueOf(is)
	fieldsOf(a, key, nil).leaves(func(f *field) {
		if x, y := f.of(a).Interface(), f.of(b).Interface(); x != y {
			out = append(out, fmt.Sprintf("%s was %v, is %v", f.path, x, y))
		}
	})
	return out
}
