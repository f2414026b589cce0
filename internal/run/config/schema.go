package config

import (
	"encoding/json"
	"reflect"
)

// Schema returns the JSON Schema (draft 2020-12) of the configuration, for editors and other programs.
func Schema() []byte {
	defaults := Default()
	s := section(root, reflect.ValueOf(&defaults).Elem())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "vsetrain configuration"
	file := map[string]any{"type": "string", "minLength": 1}
	s["properties"].(map[string]any)[extendsKey] = map[string]any{
		"description": "file or files that this one overlays, relative to it; later ones win",
		"anyOf":       []any{file, map[string]any{"type": "array", "items": file}},
	}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("config: " + err.Error()) // maps of plain values always marshal
	}
	return append(b, '\n')
}

func section(f *field, cfg reflect.Value) map[string]any {
	props := map[string]any{}
	for _, c := range f.children {
		var s map[string]any
		if c.isSection() {
			s = section(c, cfg)
		} else {
			s = leaf(c)
			s["default"] = c.of(cfg).Interface()
		}
		s["description"] = c.doc
		props[c.key] = s
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": props}
}

func leaf(f *field) map[string]any {
	switch {
	case f.path == "version":
		return map[string]any{"const": Version}
	case isText(f.typ):
		return map[string]any{"anyOf": []any{map[string]any{"type": "integer", "minimum": 1},
			map[string]any{"type": "string", "pattern": "^(auto|[^=,]+=[0-9]+(,[^=,]+=[0-9]+)*)$"}}}
	case f.typ.Kind() == reflect.Array:
		return map[string]any{"type": "array", "minItems": f.typ.Len(), "maxItems": f.typ.Len(),
			"items": number(f, f.typ.Elem())}
	case f.typ.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case len(f.rule.Enum) > 0:
		return map[string]any{"enum": f.rule.Enum}
	case f.typ.Kind() == reflect.String:
		return map[string]any{"type": "string"}
	}
	return number(f, f.typ)
}

func number(f *field, t reflect.Type) map[string]any {
	s := map[string]any{"type": "integer"}
	if t.Kind() == reflect.Float64 {
		s["type"] = "number"
	}
	for key, bound := range map[string]*float64{
		"minimum": f.rule.Min, "maximum": f.rule.Max, "exclusiveMinimum": f.rule.Above,
		"exclusiveMaximum": f.rule.Below,
	} {
		if bound != nil {
			s[key] = *bound
		}
	}
	return s
}
