package models

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"vsetrain/internal/files/pickle"
)

// referenceTag is the tag of a field of a network's options that a reference repository has as an option of its own:
// its name there, "cross_attn", and where the values differ both of each, "agg_func=LogSumExp:lse,Mean:mean".
const referenceTag = "reference"

// referenced calls visit for the fields of a network's options, a pointer to a struct, that have the tag.
func referenced(section any, visit func(option string, values [][2]string, v reflect.Value) error) error {
	s := reflect.ValueOf(section).Elem()
	for i := range s.NumField() {
		tag, ok := s.Type().Field(i).Tag.Lookup(referenceTag)
		if !ok {
			continue
		}
		option, list, _ := strings.Cut(tag, "=")
		var values [][2]string
		for pair := range strings.SplitSeq(list, ",") {
			if theirs, ours, ok := strings.Cut(pair, ":"); ok {
				values = append(values, [2]string{theirs, ours})
			}
		}
		if err := visit(option, values, s.Field(i)); err != nil {
			return err
		}
	}
	return nil
}

// readOptions sets a network's options from those of a checkpoint; what the checkpoint does not have stays as it is.
func (r *Reference) readOptions(section any, opt map[string]any) error {
	return referenced(section, func(option string, values [][2]string, v reflect.Value) error {
		switch x := opt[option].(type) {
		case bool:
			if v.Kind() == reflect.Bool {
				v.SetBool(x)
			}
		case int64:
			if v.CanInt() {
				v.SetInt(x)
			} else if v.CanFloat() {
				v.SetFloat(float64(x))
			}
		case float64:
			if v.CanFloat() {
				v.SetFloat(x)
			}
		default:
			text, ok := pickle.Text(x)
			if !ok || v.Kind() != reflect.String {
				return nil
			}
			if k := slices.IndexFunc(values, func(p [2]string) bool { return p[0] == text }); k >= 0 {
				text = values[k][1]
			} else if len(values) > 0 {
				var known []string
				for _, p := range values {
					known = append(known, p[0])
				}
				return fmt.Errorf("a %s checkpoint with %s %q, expected one of %s", r.options.Traits().Title, option,
					text, strings.Join(known, ", "))
			}
			v.SetString(text)
		}
		return nil
	})
}

// writeOptions puts a network's options among those of its repository.
func writeOptions(to map[string]any, section any) {
	_ = referenced(section, func(option string, values [][2]string, v reflect.Value) error {
		to[option] = v.Interface()
		for _, p := range values {
			if v.String() == p[1] {
				to[option] = p[0]
			}
		}
		return nil
	})
}
