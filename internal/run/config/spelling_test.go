package config

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/system/options"
	"vsetrain/lab/try"
)

// A path of Windows in double quotes is refused, whatever letters follow its backslashes, and named with the remedy; in
// single quotes it is what was written. A mistake elsewhere in the file is told in the same round.
func TestPathsOfWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-. ä"
	draw := func(first byte) string {
		path := "C:"
		for range 1 + r.IntN(3) {
			path += `\` + string(first)
			for range 1 + r.IntN(5) {
				path += string([]rune(letters)[r.IntN(len([]rune(letters)))])
			}
			first = letters[r.IntN(63)]
		}
		return strings.TrimRight(path, " ")
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	for i := range 63 {
		path := draw(letters[i])
		if letters[i] == 'u' || letters[i] == 'U' { // with four or eight digits they are what they say
			path = `C:\` + letters[i:i+1] + "sers"
		}
		try.Do(t, os.WriteFile(file, fmt.Appendf(nil, "data: {dir: \"%s\"}\nloss:\n  margn: 0.1\n", path), 0o644))
		_, err := Load(Request{File: file})
		try.Fails(t, err, "c.yaml:1", "write such text in single quotes",
			"loss.margn: unknown key; did you mean margin?")
		try.Do(t, os.WriteFile(file, fmt.Appendf(nil, "data: {dir: '%s'}\n", path), 0o644))
		if c := try.Get(Load(Request{File: file}))(t); c.Data.Dir != path {
			t.Errorf("%q is read as %q", path, c.Data.Dir)
		}
	}
}

// Of a file that is indented with tabs the other mistakes are told too.
func TestTabsAndOtherMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	for _, text := range []string{"data:\n\tdir: w\nloss:\n  margn: 0.2\n", "loss:\n  name: lmh\n\tmargn: 0.2\n",
		"loss:\n\tmargn: 0.2\n\tlseh:\n\t\tlambda: 0.1\n", "loss:\n    name: lmh\n\tmargn: 0.2\n"} {
		try.Do(t, os.WriteFile(file, []byte(text), 0o644))
		_, err := Load(Request{File: file})
		try.Fails(t, err, "indent with spaces, not tabs", "loss.margn: unknown key; did you mean margin?")
	}
}

// A key or a word with two neighbours changed, or a letter less or more, is taken for the one it was, or for one that
// it resembles as much. A right key in the wrong section is found.
func TestMisspelt(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	suggested := func(set string) string {
		var p problems
		setLayer([]string{set}, nil, &p)
		_, near, _ := strings.Cut(fmt.Sprint(p.err()), "did you mean ")
		return near
	}
	swapped := func(word string) string {
		i := r.IntN(len(word) - 1)
		return word[:i] + word[i+1:i+2] + word[i:i+1] + word[i+2:]
	}
	var leaves []*field
	root.leaves(func(f *field) { leaves = append(leaves, f) })
	for _, f := range leaves {
		for _, word := range f.rule.Enum {
			if len(word) < 3 {
				continue
			}
			other := swapped(word)
			if near := suggested(f.path + "=" + other); f.rule.AcceptsText(other) {
				continue
			} else if near = strings.TrimSuffix(near, "?"); near != word && len(near) != len(word) {
				t.Errorf("%s=%s: did you mean %s? want %s", f.path, other, near, word)
			}
		}
		section, key := "", f.path
		if i := strings.LastIndexByte(f.path, '.'); i >= 0 {
			section, key = f.path[:i+1], f.path[i+1:]
		}
		if len(key) < 3 {
			continue
		}
		for _, other := range []string{swapped(key), key + "s", key[:len(key)-1]} {
			if root.find(section+other) != nil {
				continue
			}
			near := suggested(section + other + "=1")
			if !strings.Contains(near, f.path) && options.Nearest(other, []string{key}) != "" &&
				!strings.HasPrefix(near, section) {
				t.Errorf("%s%s: did you mean %s want %s", section, other, near, f.path)
			}
		}
		if same := root.paths(func(o *field) bool { return o.key == key }); len(same) == 1 && section != "" {
			for _, s := range root.children {
				if s.isSection() && s.find(key) == nil && !strings.HasPrefix(section, s.key+".") &&
					options.Nearest(key, s.keys()) == "" {
					value := append(slices.Clone(f.rule.Enum), "1")[0]
					if near := suggested(s.key + "." + key + "=" + value); near != f.path+"?" {
						t.Errorf("%s.%s: did you mean %s want %s", s.key, key, near, f.path)
					}
				}
			}
		}
	}
	for path, want := range map[string]string{"loss.name=lshe": "lseh?", "model.name=vsrn2": "model.network?",
		"model.text=gru": "model.text_encoder?", "train.batch_size=8": "train.batch?",
		"optim.learning_rate=1": "optim.lr?",
		"train.warmup=1":        "loss.warmup_epochs or optim.warmup_steps?",
		"optm.lr=1":             "optim.lr?", "lr=1": "optim.lr?"} {
		if near := suggested(path); near != want {
			t.Errorf("%s: did you mean %s want %s", path, near, want)
		}
	}
}
