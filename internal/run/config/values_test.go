package config

import (
	"reflect"
	"strings"
	"testing"
)

// The values are the same as in the written file, key by key.
func TestValues(t *testing.T) {
	c := Default()
	c.Optim.LR = 1e-7
	text := string(Marshal(&c))
	seen := map[string]bool{}
	for _, v := range Values(&c) {
		key := v.Key[strings.LastIndexByte(v.Key, '.')+1:]
		if !strings.Contains(text, key+": "+v.Text+"\n") {
			t.Errorf("%s: %s is not in the file", v.Key, v.Text)
		}
		seen[v.Key] = true
	}
	if !seen["optim.lr"] || !seen["seed"] || len(seen) != len(Keys()) {
		t.Errorf("%d values, the configuration has %d", len(seen), len(Keys()))
	}
}

// Settings have the types of TensorBoard's hyper-parameters, and leave out where a run lives.
func TestTypedSettings(t *testing.T) {
	c := Default()
	c.Seed, c.Run.Dir = 1<<60, "elsewhere"
	s := Settings(&c)
	for key, want := range map[string]any{"optim.lr": 2e-4, "train.batch": 128.0, "train.shuffle": true,
		"loss.name": "lmh", "seed": "1152921504606846976",
		"optim.betas": "[0.9, 0.999]", "data.captions_per_image": "auto", "run.dir": nil, "device.threads": nil,
		"version": nil} {
		if s[key] != want {
			t.Errorf("%s is %v (%[2]T), want %v", key, s[key], want)
		}
	}
	if n := len(Keys()); len(s) > n || len(s) < n-10 {
		t.Errorf("%d settings of %d keys", len(s), n)
	}
}

func TestDiffering(t *testing.T) {
	a, b, c := Default(), Default(), Default()
	a.Optim.LR, b.Optim.LR, c.Optim.LR = 1e-3, 1e-4, 1e-3
	b.Loss.Name = "lseh"
	b.Run.Dir, c.Device.Threads = "elsewhere", 3
	keys, values := Differing([]*Config{&a, &b, &c})
	if want := []string{"loss.name", "optim.lr"}; !reflect.DeepEqual(keys, want) {
		t.Errorf("keys %v, want %v", keys, want)
	}
	if want := [][]string{{"lmh", "lseh", "lmh"}, {"0.001", "0.0001", "0.001"}}; !reflect.DeepEqual(values, want) {
		t.Errorf("values %v, want %v", values, want)
	}
	if keys, _ := Differing([]*Config{&a}); keys != nil {
		t.Errorf("one configuration differs in %v", keys)
	}
}
