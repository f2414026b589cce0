package sweep

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"vsetrain/internal/run/config"
	"vsetrain/internal/system/options"
)

// Metrics are the metrics of validations that a sweep can maximise.
var Metrics = []string{"m_recall", "rsum", "i2t_r1", "t2i_r1"}

// Load reads a sweep file, or a built-in sweep by its name. The error is a *config.Error that lists all mistakes with
// file and line. NewPlan checks the trials.
func Load(file string) (*Definition, error) {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		if top, ok, err := config.NamedSweep(file); ok || err != nil {
			return define(file, top, err)
		}
		remedy := "a sweep is a YAML file with axes (docs/sweeps.md), or one of the program: " +
			strings.Join(config.SweepNames(), ", ")
		if near := options.Nearest(file, config.SweepNames()); near != "" {
			remedy = "did you mean " + near + "?"
		}
		if _, preset := config.Find(file, ""); preset {
			remedy = fmt.Sprintf("it is a preset of one run: 'vsetrain train --config %s' trains it, and a sweep "+
				"names it with base:", file)
		}
		return nil, config.Mistakef("%s: no such sweep file; %s", file, remedy)
	}
	top, err := config.ParseFile(file)
	return define(file, top, err)
}

// define reads the document of a sweep file; err is an error of parsing it.
func define(file string, top *yaml.Node, err error) (*Definition, error) {
	if err != nil {
		return nil, err
	}
	if config.IsRun(top) {
		return nil, &config.Error{Problems: []config.Problem{{Source: config.SourceOf(file, top),
			Text: "this is the configuration of one run: train it with vsetrain train --config " + file +
				"; a sweep names it with base:"}}}
	}
	d := &Definition{File: file, Method: Grid, Seeds: []uint64{7}, Seed: 1, Metric: Metrics[0], Factor: 3, Gamma: 0.25,
		Launch: defaultLauncher()}
	r := &reader{file: file}
	seen := r.section("", top,
		key{"base", func(path string, _, v *yaml.Node) {
			d.BaseAt = r.at(v)
			r.text(&d.Base)(path, nil, v)
		}},
		key{"set", func(path string, _, v *yaml.Node) { d.Set = r.settings(path, v) }},
		key{"axes", r.items("axes", func(path string, v *yaml.Node) {
			d.Axes = append(d.Axes, r.axis(path, v, d.Axes))
		})},
		key{"method", r.text(&d.Method, Grid, Random, TPE, ASHA)},
		key{"trials", r.whole(&d.Trials, 1, 1_000_000)},
		key{"seed", r.seed(&d.Seed)},
		key{"seeds", r.seeds(&d.Seeds)},
		key{"metric", r.text(&d.Metric, Metrics...)},
		key{"asha", func(path string, _, v *yaml.Node) {
			r.section(path, v, key{"rungs", r.integers(&d.Rungs, 1)}, key{"factor", r.whole(&d.Factor, 2, 100)})
		}},
		key{"tpe", func(path string, _, v *yaml.Node) {
			r.section(path, v, key{"startup", r.whole(&d.Startup, 1, 1_000_000)}, key{"gamma", r.number(&d.Gamma)})
		}},
		key{"launcher", func(path string, _, v *yaml.Node) { r.launcher(path, v, &d.Launch) }},
		key{"dir", r.text(&d.Dir)},
	)
	if len(r.list) == 0 {
		r.together(d, top, seen)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	var bad error
	if d.Dir, bad = config.ExpandHome(d.Dir); bad != nil {
		return nil, config.Mistakef("%s: dir: %w", file, bad)
	}
	if d.Dir == "" {
		name := filepath.Base(file)
		d.Dir = filepath.Join("sweeps", strings.TrimSuffix(name, filepath.Ext(name)))
	}
	d.Startup = cmp.Or(d.Startup, max(4, d.Trials/4))
	return d, nil
}

// together checks rules of several keys.
func (r *reader) together(d *Definition, top *yaml.Node, seen map[string]*yaml.Node) {
	nodeOf := func(key string) *yaml.Node {
		if n := seen[key]; n != nil {
			return n
		}
		return top
	}
	if len(d.Axes) == 0 && len(d.Seeds) < 2 {
		r.add(top, "axes", "a sweep needs an axis, or several seeds")
	}
	if d.Method != Grid && d.Trials == 0 {
		r.add(nodeOf("method"), "trials", "method %s needs the number of points: trials: 20", d.Method)
	}
	if d.Method == Grid && d.Trials != 0 {
		r.add(nodeOf("trials"), "trials", "a grid has as many points as its axes make; leave trials out")
	}
	if (d.Method == ASHA) != (len(d.Rungs) > 0) {
		r.add(nodeOf("asha"), "asha.rungs", "expected for method asha only, such as [1, 3, 9] epochs, found method "+
			"%s with %d rungs", d.Method, len(d.Rungs))
	}
	for i := 1; i < len(d.Rungs); i++ {
		if d.Rungs[i] <= d.Rungs[i-1] {
			r.add(nodeOf("asha"), "asha.rungs", "expected ascending epochs, found %d after %d", d.Rungs[i],
				d.Rungs[i-1])
		}
	}
	if d.Gamma <= 0 || d.Gamma >= 1 {
		r.add(nodeOf("tpe"), "tpe.gamma", "expected a number in (0, 1), found %v", d.Gamma)
	}
	for i := range d.Axes {
		a := &d.Axes[i]
		if d.Method == Grid && a.Continuous() {
			r.list = append(r.list, config.Problem{Source: a.At, Key: a.Key(), Text: "a grid needs a step (range) or " +
				"a count (log_range); or choose method random, tpe or asha"})
		}
		if a.Name != "" && !strings.Contains(d.Base, "{"+a.Name+"}") && !setsAnything(a) {
			r.list = append(r.list, config.Problem{Source: a.At, Key: a.Name, Text: "changes nothing: base has no {" +
				a.Name + "}, and no choice sets anything"})
		}
	}
}

func setsAnything(a *Axis) bool {
	return slices.ContainsFunc(a.Values, func(v Value) bool { return len(v.Settings) > 0 })
}

// settings decodes a mapping of keys of the configuration; sections may be nested or written with dots.
func (r *reader) settings(path string, n *yaml.Node) []config.Setting {
	if n.Kind != yaml.MappingNode {
		r.add(n, path, "expected keys of the configuration such as optim.lr: 0.001, found %s", config.Describe(n))
		return nil
	}
	all := r.flatten("", n)
	r.list = append(r.list, config.CheckSettings(all)...)
	for i, s := range all {
		if j := slices.IndexFunc(all[:i], func(o config.Setting) bool { return o.Key == s.Key }); j >= 0 {
			r.list = append(r.list, config.Problem{Source: s.KeyAt, Key: s.Key,
				Text: "duplicate key; already set in line " + strconv.Itoa(all[j].KeyAt.Line)})
		}
	}
	return all
}

func (r *reader) flatten(prefix string, n *yaml.Node) (out []config.Setting) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		path := join(prefix, k.Value)
		if v.Kind == yaml.MappingNode {
			out = append(out, r.flatten(path, v)...)
			continue
		}
		out = append(out, config.Setting{Key: path, Value: v, KeyAt: r.at(k), At: r.at(v)})
	}
	return out
}

func (r *reader) seed(out *uint64) decoder {
	return scalar(r, out, "a whole number >= 0", func(v *yaml.Node) (uint64, bool) {
		n, err := config.Uint(v)
		return n, err == nil
	})
}

func (r *reader) seeds(out *[]uint64) decoder {
	var all []uint64
	return r.items("seeds", func(path string, v *yaml.Node) {
		before := len(r.list)
		var s uint64
		r.seed(&s)(path, nil, v)
		if slices.Contains(all, s) && len(r.list) == before {
			r.add(v, path, "seed %d is there already", s)
		}
		all = append(all, s)
		*out = all
	})
}
