package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
)

type object = map[string]any

// Description is the OpenAPI 3.1 description of the routes.
func (s *Server) Description() []byte {
	paths, schemas := object{}, object{}
	for _, rt := range s.routes {
		operation := object{"operationId": rt.name, "summary": rt.summary, "responses": s.responses(rt, schemas)}
		if rt.open {
			operation["security"] = []any{}
		}
		if rt.request != nil {
			operation["requestBody"] = object{"required": true,
				"content": object{"application/json": object{
					"schema": s.reference(reflect.TypeOf(rt.request), schemas)}}}
		}
		item, _ := paths[rt.path].(object)
		if item == nil {
			item = object{}
			paths[rt.path] = item
		}
		item[strings.ToLower(rt.method)] = operation
	}
	b, err := json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{"title": "vsetrain serve", "version": "1", // of the paths
			"description": "Finds images for captions with a trained visual-semantic embedding network.",
			"license":     object{"name": "Apache 2.0", "identifier": "Apache-2.0"}},
		"servers":  []any{object{"url": "/"}},
		"security": []any{object{"token": []any{}}, object{}},
		"paths":    paths,
		"components": object{"schemas": schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer",
				"description": "Required if the server has a token."}}},
	}, "", "  ")
	if err != nil {
		panic(err) // of maps and strings
	}
	return append(b, '\n')
}

func (s *Server) responses(rt route, schemas object) object {
	all := object{}
	statuses := append([]int{http.StatusMisdirectedRequest}, rt.statuses...)
	for _, status := range statuses {
		body := object{"text/plain": object{"schema": object{"type": "string"}}}
		switch {
		case status >= 400 && rt.name != "health" || status == http.StatusMisdirectedRequest:
			body = object{"application/json": object{"schema": s.reference(reflect.TypeFor[ErrorAnswer](), schemas)}}
		case rt.answer != nil:
			body = object{"application/json": object{"schema": s.reference(reflect.TypeOf(rt.answer), schemas)}}
		}
		all[strconv.Itoa(status)] = object{"description": http.StatusText(status), "content": body}
	}
	return all
}

// reference adds the schema of a struct to schemas and returns a reference to it; for other types it returns the
// schema.
func (s *Server) reference(t reflect.Type, schemas object) object {
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[FloatArray]() {
		return s.schemaOf(t, schemas)
	}
	if _, done := schemas[t.Name()]; !done {
		schemas[t.Name()] = object{} // ends the recursion of a recursive type
		schemas[t.Name()] = s.schemaOf(t, schemas)
	}
	return object{"$ref": "#/components/schemas/" + t.Name()}
}

func (s *Server) schemaOf(t reflect.Type, schemas object) object {
	if t == reflect.TypeFor[FloatArray]() {
		return object{"description": "Numbers, or a string: the bytes of float32 values, little-endian, in base64.",
			"oneOf": []any{object{"type": "array", "items": object{"type": "number"}, "minItems": 1},
				object{"type": "string", "contentEncoding": "base64", "minLength": 8}}}
	}
	if t == reflect.TypeFor[[]byte]() {
		return object{"type": "string", "contentEncoding": "base64"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.reference(t.Elem(), schemas)
	case reflect.Slice:
		return object{"type": "array", "items": s.reference(t.Elem(), schemas)}
	case reflect.Map:
		return object{"type": "object"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Struct:
		properties, required, choices := object{}, []any{}, []string{}
		for i := range t.NumField() {
			f := t.Field(i)
			name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
			properties[name] = s.property(f, rest == "omitempty", schemas)
			if rest != "omitempty" {
				required = append(required, name)
			}
			if f.Tag.Get("choice") != "" {
				choices = append(choices, name)
			}
		}
		o := object{"type": "object", "properties": properties, "additionalProperties": false}
		if len(required) > 0 {
			o["required"] = required
		}
		if len(choices) > 0 {
			// in words: from a oneOf of required fields, client generators make types without the other fields
			o["description"] = "Has exactly one of " + strings.Join(choices, ", ") + "."
		}
		return o
	}
	panic(fmt.Sprintf("serve: no schema of %v", t))
}

// property returns the schema of a field with its tags. An optional field may be null.
func (s *Server) property(f reflect.StructField, optional bool, schemas object) object {
	p := s.reference(f.Type, schemas)
	least, most := "minimum", "maximum"
	if f.Type.Kind() == reflect.Slice {
		least, most = "minItems", "maxItems"
	}
	for tag, key := range map[string]string{"min": least, "max": most} {
		if n, ok := s.bound(f, tag); ok {
			p[key] = n
		}
	}
	if all := s.words(f); all != nil {
		p["enum"] = all
	}
	if optional {
		p = object{"oneOf": []any{p, object{"type": "null"}}}
	}
	p["description"] = f.Tag.Get("doc")
	return p
}
