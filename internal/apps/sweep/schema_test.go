package sweep

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"vsetrain/lab/try"
)

// The schema has the keys that the reader has, section by section, and takes and refuses what the reader does.
func TestSchema(t *testing.T) {
	c := jsonschema.NewCompiler()
	try.Do(t, c.AddResource("sweep", try.Get(jsonschema.UnmarshalJSON(strings.NewReader(Schema)))(t)))
	s := try.Get(c.Compile("sweep"))(t)
	axis := s.Properties["axes"].Items2020
	names := regexp.MustCompile(`unknown key; .*?(?:has|a sweep has) ([a-z_, ]+)`)
	for place, at := range map[string]*jsonschema.Schema{"%s": s, "axes: [{%s}]": axis,
		"axes: [{name: a, choices: [{%s}]}]":         axis.Properties["choices"].Items2020.AnyOf[1],
		"axes: [{param: optim.lr, range: {%s}}]":     axis.Properties["range"],
		"axes: [{param: optim.lr, log_range: {%s}}]": axis.Properties["log_range"],
		"asha: {%s}":                   s.Properties["asha"],
		"tpe: {%s}":                    s.Properties["tpe"],
		"launcher: {%s}":               s.Properties["launcher"],
		"launcher: {slurm: {%s}}":      s.Properties["launcher"].Properties["slurm"],
		"launcher: {kubernetes: {%s}}": s.Properties["launcher"].Properties["kubernetes"]} {
		has := slices.Sorted(maps.Keys(at.Properties))
		_, err := load(t, fmt.Sprintf(place, "zzzzzzzzzz: 1"))
		found := names.FindStringSubmatch(fmt.Sprint(err))
		if found == nil {
			t.Fatalf("%s: %v", place, err)
		}
		want := strings.Split(found[1], ", ")
		slices.Sort(want)
		if !slices.Equal(has, want) {
			t.Errorf("%s: the schema has %q, the reader %q", place, has, want)
		}
	}
	accepts := func(text string) error {
		var v any
		try.Do(t, yaml.Unmarshal([]byte(text), &v))
		return s.Validate(v)
	}
	files := try.Get(filepath.Glob("../../../configs/sweeps/*.yaml"))(t)
	for _, file := range files {
		if err := accepts(string(try.Get(os.ReadFile(file))(t))); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if len(files) < 5 {
		t.Errorf("%d sweeps", len(files))
	}
	const good = "base: demo\naxes: [{param: train.batch, values: [8, 16]}]\n"
	for text, ok := range map[string]bool{"": true, "method: grid": true, "method: gird": false, "seeds: [7]": true,
		"seeds: []": false, "seeds: [-1]": false, "metric: rsum": true, "metric: sum": false, "dir: x": true,
		"launcher: {workers: 2}": true, "launcher: {workers: 0}": false, "launcher: {kind: pbs}": false,
		"launcher: {slurm: {time: '1:00:00', cpus: 4}}": true, "launcher: {slurm: {cpus: 0}}": false,
		"method: random\ntrials: 3": true, "method: random\ntrials: 0": false, "seed: x": false, "set: 3": false} {
		if _, err := load(t, good+text); (err == nil) != ok {
			t.Errorf("Load of %q: %v", text, err)
		}
		if err := accepts(good + text); (err == nil) != ok {
			t.Errorf("the schema on %q: %v", text, err)
		}
	}
}
