package config

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/viper"

	"vsetrain/internal/system/options"
)

// Request names the layers of a configuration, the weakest first.
type Request struct {
	File   string   // YAML file, or if there is none of that name a preset; empty for the defaults alone
	Named  string   // what named the file, for errors; empty is --config
	Preset string   // a preset, also where there is a file of that name; in place of File
	Env    []string // the process environment as "NAME=value"
	Set    []string // --set flags as "key=value"
	Flags  []Alias  // flags that stand for keys, over the layers above

	Settings []Setting // of another file, such as a sweep; over all others
}

// Resolved is a complete, valid configuration and the origin of its values.
type Resolved struct {
	Config
	File    string
	origins map[string]Source
}

// Origin returns where the value of a key such as "optim.lr" came from; the zero Source is a default.
func (r *Resolved) Origin(path string) Source { return r.origins[path] }

// Load reads, checks and layers a configuration: flag over environment over file over default. The error is an *Error
// that lists every mistake found.
func Load(req Request) (*Resolved, error) {
	var p problems
	var files []layer
	if d := req.document(&p); d != nil {
		files = readFiles(d, Source{File: d.name()}, nil, &p)
	}
	env := envLayer(req.Env, &p)
	sets, outside := setLayer(req.Set, req.Flags, &p), settingsLayer(req.Settings, &p)
	if err := p.err(); err != nil {
		return nil, err
	}
	r := &Resolved{Config: Default(), File: cmp.Or(req.File, req.Preset), origins: map[string]Source{}}
	r.merge(files, env, sets, outside)
	r.choose(files)
	if r.expandHome(&p); p.err() != nil {
		return nil, p.err()
	}
	if err := r.Validate(); err != nil {
		r.report(err, &p)
		return nil, p.err()
	}
	return r, nil
}

// document returns what the request names, nil for the defaults alone or after a mistake.
func (r *Request) document(p *problems) *document {
	name := cmp.Or(r.Preset, r.File)
	if name == "" {
		return nil
	}
	d := presetNamed(name)
	if r.Preset == "" {
		d = find(name, "")
	}
	if d == nil {
		p.add(Source{Name: cmp.Or(r.Named, "--config")}, "", "%s", Missing(name))
	}
	return d
}

// merge lets viper decide which layer wins. It sees only checked, typed values under lower-case keys, so neither
// its weak conversions nor its folding of case can touch them.
func (r *Resolved) merge(files []layer, stronger ...layer) {
	store := viper.New()
	cfg := reflect.ValueOf(&r.Config).Elem()
	root.leaves(func(f *field) { store.SetDefault(f.path, f.of(cfg).Interface()) })
	for _, l := range files {
		if err := store.MergeConfigMap(l.nested()); err != nil {
			panic("config: " + err.Error()) // nested always is a map of maps
		}
		r.remember(l)
	}
	for _, l := range stronger {
		for path, s := range l {
			store.Set(path, s.value)
		}
		r.remember(l)
	}
	root.leaves(func(f *field) { options.Set(cfg, f.index, reflect.ValueOf(store.Get(f.path))) })
}

// expandHome expands the settings that name files and folders.
func (r *Resolved) expandHome(p *problems) {
	cfg := reflect.ValueOf(&r.Config).Elem()
	root.leaves(func(f *field) {
		if !slices.Contains(pathKeys, f.path) {
			return
		}
		path, err := ExpandHome(f.of(cfg).String())
		if err = cmp.Or(err, checkPath(f.of(cfg).String())); err != nil {
			p.add(r.origins[f.path], f.path, "%v", err)
			return
		}
		options.Set(cfg, f.index, reflect.ValueOf(path))
	})
}

func (r *Resolved) remember(l layer) {
	for path, s := range l {
		r.origins[path] = s.source
	}
}

// report adds the error of a Validate method at the place of the value it complains about.
func (r *Resolved) report(err error, p *problems) {
	var oe *options.Error
	if !errors.As(err, &oe) {
		p.add(Source{File: r.File}, "", "%v", err)
		return
	}
	at, set := r.origins[oe.Key]
	if !set {
		c := *oe
		c.Found += " (the default)"
		at, oe = Source{File: r.File}, &c
	}
	p.option(at, oe)
}

// nested returns the layer as a tree of maps.
func (l layer) nested() map[string]any {
	top := map[string]any{}
	for path, s := range l {
		m := top
		keys := strings.Split(path, ".")
		for _, k := range keys[:len(keys)-1] {
			next, ok := m[k].(map[string]any)
			if !ok {
				next = map[string]any{}
				m[k] = next
			}
			m = next
		}
		m[keys[len(keys)-1]] = s.value
	}
	return top
}

// choose finds out which keys a person chose.
func (r *Resolved) choose(files []layer) {
	r.chosen = map[string]bool{}
	def := Default()
	keys := 0
	root.leaves(func(*field) { keys++ })
	whole := map[string]bool{} // files that have every key
	for _, l := range files {
		for _, s := range l {
			whole[s.source.File] = len(l) == keys
		}
	}
	mine, standard := reflect.ValueOf(&r.Config).Elem(), reflect.ValueOf(&def).Elem()
	root.leaves(func(f *field) {
		at, set := r.origins[f.path]
		r.chosen[f.path] = set && !at.ours &&
			!(whole[at.File] && f.of(mine).Interface() == f.of(standard).Interface())
	})
}
