package config

import (
	"fmt"
	"reflect"
	"strings"

	"vsetrain/internal/system/options"
)

// Differences lists the settings, by their keys below key, whose values differ between two structs of one type, as
// "key was 1, is 2". An empty key is that of the whole configuration.
func Differences[T any](key string, was, is T) []string {
	return differences(key, reflect.ValueOf(was), reflect.ValueOf(is))
}

func differences(key string, a, b reflect.Value) (out []string) {
	if a.Kind() != reflect.Struct {
		if !reflect.DeepEqual(a.Interface(), b.Interface()) {
			out = append(out, fmt.Sprintf("%s was %v, is %v", key, a.Interface(), b.Interface()))
		}
		return out
	}
	for i := range a.NumField() {
		if sections := options.Sections(a.Field(i).Type()); sections != nil {
			for k, section := range sections {
				out = append(out, differences(key+"."+section, a.Field(i).Index(k).Elem(),
					b.Field(i).Index(k).Elem())...)
			}
			continue
		}
		name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("yaml"), ",")
		if key != "" {
			name = key + "." + name
		}
		out = append(out, differences(name, a.Field(i), b.Field(i))...)
	}
	return out
}
