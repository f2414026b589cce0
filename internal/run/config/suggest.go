package config

import (
	"cmp"
	"strings"

	"vsetrain/internal/system/options"
)

// unknownKey says what to write instead of an unknown key of a section.
func unknownKey(section *field, key string) string {
	if near := options.Nearest(key, section.keys()); near != "" {
		return "unknown key; did you mean " + near + "?"
	}
	if section.path == "" && section != root { // another file than a configuration
		return "unknown key; the file has " + strings.Join(section.keys(), ", ")
	}
	if near := sameKey(key, Keys()); near != "" {
		return "unknown key; did you mean " + near + "?"
	}
	if section.find(key) != nil {
		return "unknown key; write " + strings.ReplaceAll(key, ".", ": {") + ": ..." +
			strings.Repeat("}", strings.Count(key, "."))
	}
	where := section.path
	where = cmp.Or(where, "the top level")
	return "unknown key; " + where + " has " + strings.Join(section.keys(), ", ")
}

// sameKey returns the first path that ends in the key, or "": the right key in another section.
func sameKey(key string, paths []string) string {
	for _, path := range paths {
		if strings.HasSuffix(path, "."+key) {
			return path
		}
	}
	return ""
}
