package config

import (
	"fmt"
	"reflect"
)

// Differences lists the settings, by their keys below key, whose values differ between two structs of one type, as
// "key was 1, is 2". An empty key is that of the whole configuration.
func Differences[T any](key string, was, is T) (out []string) {
	a, b := reflect.ValueOf(was), reflect.ValueOf(is)
	fieldsOf(a, key, nil).leaves(func(f *field) {
		if x, y := f.of(a).Interface(), f.of(b).Interface(); x != y {
			out = append(out, fmt.Sprintf("%s was %v, is %v", f.path, x, y))
		}
	})
	return out
}
