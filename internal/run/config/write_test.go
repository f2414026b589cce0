package config

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"vsetrain/lab/try"
)

func readsBack(t *testing.T, file string, c Config) {
	t.Helper()
	text := Marshal(&c)
	try.Do(t, os.WriteFile(file, text, 0o644))
	r, err := Load(Request{File: file})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if len(Differences("", r.Config, c)) > 0 {
		t.Errorf("wrote %+v\nread %+v\n%s", c, r.Config, text)
	}
	if again := Marshal(&r.Config); string(again) != string(text) {
		t.Errorf("second writing differs:\n%s\n%s", text, again)
	}
}

// Strings that look like something else, and floats with all their bits, survive the run directory's config.yaml.
func TestMarshalReadsBack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	rng := rand.New(rand.NewPCG(1, 2))
	for _, dir := range []string{"", "runs/a b", "true", "007", "1e3", "./~", "null", "- x", "a: b", "a #b",
		`C:\data "x"`,
		"ünïcode/日本", "line\nbreak\ttab", " lead", "trail ", "2026-01-01", "<<", "\u2028\u0085", "0x1F", "yes", "a,b",
		"&a", "!!str", "%d", "@x", "`"} {
		c := Default()
		c.Run.Dir = dir
		c.Track.Experiment = "~"
		c.Seed = rng.Uint64()
		c.Optim.LR = rng.Float64()
		c.Optim.Eps = rng.Float64() * 1e-12
		c.Loss.LUWM.Negative = [3]float64{rng.NormFloat64(), -1e-300, 1e6}
		c.Data.CaptionsPerImage = "train=20,test=1"
		c.Model.GSMN.Neighbors = "true"
		readsBack(t, file, c)
	}
}

func TestShow(t *testing.T) {
	r := load(t, Request{File: "testdata/good/top.yaml", Set: []string{"loss.margin=0.185"}})
	plain, docs := r.Show(false), r.Show(true)
	for _, want := range []string{"margin: 0.185", "# --set", "lr: 0.001", "# testdata/good/top.yaml:3", "clip: 2 ",
		"# default"} {
		if !strings.Contains(plain, want) {
			t.Errorf("no %q in\n%s", want, plain)
		}
	}
	if !strings.Contains(docs, "  # learning rate at the start\n  lr: 0.001") {
		t.Errorf("no explanation of optim.lr in\n%s", docs)
	}
	for _, text := range []string{plain, docs} { // what is shown is itself a configuration
		file := filepath.Join(t.TempDir(), "shown.yaml")
		try.Do(t, os.WriteFile(file, []byte(text), 0o644))
		if again := load(t, Request{File: file}); len(Differences("", again.Config, r.Config)) > 0 {
			t.Errorf("config show does not read back:\n%s", text)
		}
	}
}

// Every key is explained, has its own variable, and obeys its own rules by default.
func TestFields(t *testing.T) {
	names := map[string]string{}
	for _, v := range notConfig {
		names[v] = "reserved"
	}
	root.leaves(func(f *field) {
		if f.doc == "" {
			t.Errorf("%s has no doc tag", f.path)
		}
		if f.path == versionKey {
			return
		}
		if other := names[envName(f.path)]; other != "" {
			t.Errorf("%s and %s share the variable %s", f.path, other, envName(f.path))
		}
		names[envName(f.path)] = f.path
	})
	if len(names) < 50 {
		t.Errorf("only %d keys found", len(names))
	}
}

// The schema accepts what Load accepts and refuses what it refuses, as far as single keys go.
func TestSchema(t *testing.T) {
	var schema map[string]any
	try.Do(t, json.Unmarshal(Schema(), &schema))
	if schema["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
		t.Errorf("$schema is %v", schema["$schema"])
	}
	var full any
	c := Default()
	try.Do(t, yaml.Unmarshal(Marshal(&c), &full))
	if err := check(schema, full); err != "" {
		t.Errorf("the default configuration: %s", err)
	}
	crossField := map[string]bool{"text_encoder": true, "text_encoder_default": true, "weight_decay": true,
		"second_update": true, "second_update_equal": true, "reduce_fp64": true,
		"tf32_on_cpu": true, "luwm_warmup": true}
	texts, _ := badFiles(t)
	for name, text := range texts {
		name = strings.TrimSuffix(name, ".yaml")
		var v any
		if yaml.Unmarshal([]byte(text), &v) != nil || strings.HasPrefix(name, "extends_") && name != "extends_type" ||
			crossField[name] || name == "alias" || name == "merge_key" || name == "two_documents" ||
			name == "null_section" {
			continue // syntax, or rules that a schema of single keys does not hold
		}
		if check(schema, v) == "" {
			t.Errorf("%s: the schema accepts what Load refuses", name)
		}
	}
}

// check is the part of JSON Schema that Schema uses; it returns the first violation.
func check(s map[string]any, v any) string {
	if c, ok := s["const"]; ok && !same(c, v) {
		return "const"
	}
	if enum, ok := s["enum"].([]any); ok {
		for _, e := range enum {
			if same(e, v) {
				return ""
			}
		}
		return "enum"
	}
	if any, ok := s["anyOf"].([]any); ok {
		for _, a := range any {
			if check(a.(map[string]interface{}), v) == "" {
				return ""
			}
		}
		return "anyOf"
	}
	switch s["type"] {
	case "object":
		m, ok := v.(map[string]any)
		if !ok {
			return "not an object"
		}
		props := s["properties"].(map[string]any)
		for k, item := range m {
			p, ok := props[k].(map[string]any)
			if !ok && s["additionalProperties"] == false {
				return "unknown key " + k
			}
			if !ok {
				continue
			}
			if e := check(p, item); e != "" {
				return k + ": " + e
			}
		}
	case "array":
		l, ok := v.([]any)
		if n := s["minItems"]; !ok || n != nil && float64(len(l)) != n.(float64) {
			return "not a list of that length"
		}
		for _, item := range l {
			if e := check(s["items"].(map[string]any), item); e != "" {
				return e
			}
		}
	case "string":
		if _, ok := v.(string); !ok {
			return "not a string"
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			return "not a boolean"
		}
	case "integer", "number":
		rv := reflect.ValueOf(v)
		if !rv.IsValid() || !rv.CanInt() && (!rv.CanFloat() || s["type"] == "integer") {
			return "not a " + s["type"].(string)
		}
		x := rv.Convert(reflect.TypeFor[float64]()).Float()
		if lo, ok := s["minimum"].(float64); ok && !(x >= lo) {
			return "minimum"
		}
		if hi, ok := s["maximum"].(float64); ok && !(x <= hi) {
			return "maximum"
		}
		if lo, ok := s["exclusiveMinimum"].(float64); ok && !(x > lo) {
			return "exclusiveMinimum"
		}
		if hi, ok := s["exclusiveMaximum"].(float64); ok && !(x < hi) {
			return "exclusiveMaximum"
		}
	}
	return ""
}

func same(schemaValue, v any) bool {
	if n, ok := v.(int); ok {
		v = float64(n)
	}
	return schemaValue == v
}

// Differences name settings of every depth by their keys, also the constants that a loss declares in its file.
func TestDifferences(t *testing.T) {
	load := func(set ...string) Config {
		c := try.Get(Load(Request{Preset: "demo", Set: set}))(t)
		return c.Config
	}
	got := Differences("", load(), load("seed=8", "model.bert.dir=d", "loss.rcl.temperature=0.5"))
	want := []string{"seed was 7, is 8", "model.bert.dir was , is d", "loss.rcl.temperature was 0.05, is 0.5"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Differences("", load(), load()); got != nil {
		t.Errorf("equal configurations differ: %q", got)
	}
}
