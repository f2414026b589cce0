package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is a module that a program is linked with.
type module struct {
	Path, Version, Sum string
	Dir                string // its sources
	Licence            string // SPDX expression
}

// modulesOf returns the modules that are linked into a program, and Go itself, whose library is in it too.
func modulesOf(program, goCommand string) ([]module, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	root, err := exec.Command(goCommand, "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	all := []module{{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go"),
		Dir: strings.TrimSpace(string(root))}}
	var names []string
	for _, d := range info.Deps {
		if d.Replace != nil {
			return nil, fmt.Errorf("module %s is replaced; a release is made of published modules", d.Path)
		}
		names = append(names, d.Path+"@"+d.Version)
	}
	out, err := exec.Command(goCommand, append([]string{"mod", "download", "-json"}, names...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go mod download: %w\n%s", err, out)
	}
	dirs := map[string]string{}
	for in := json.NewDecoder(bytes.NewReader(out)); in.More(); {
		var m struct{ Path, Dir string }
		if err := in.Decode(&m); err != nil {
			return nil, err
		}
		dirs[m.Path] = m.Dir
	}
	for _, d := range info.Deps {
		if dirs[d.Path] == "" {
			return nil, fmt.Errorf("module %s has no sources in the module cache", d.Path)
		}
		all = append(all, module{Path: d.Path, Version: d.Version, Sum: d.Sum, Dir: dirs[d.Path]})
	}
	return all, nil
}

// legal are the names of files, and of folders of files, that say what is allowed.
var (
	legal       = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)([-._].*)?$`)
	legalFolder = regexp.MustCompile(`(?i)(^|[-_])licen[cs]es$`)
)

// licences collects the legal files of modules and of folders in them, as licences/MODULE@VERSION/NAME, and tells each
// module's licence by those at its root. A module without one, or with one that is not known, is an error.
func licences(modules []module) (all []entry, err error) {
	for i := range modules {
		m := &modules[i]
		found, err := m.legal()
		if err != nil {
			return nil, err
		}
		var kinds []string
		for _, e := range found {
			if kind := kindOf(string(e.Data)); kind != "" && !strings.Contains(e.Name, "/") && !slices.Contains(kinds,
				kind) {
				kinds = append(kinds, kind)
			}
			all = append(all, entry{Name: path.Join("licences", m.Path+"@"+m.Version, e.Name), Data: e.Data})
		}
		if m.Licence = declared[m.Path]; m.Licence == "" {
			m.Licence = strings.Join(kinds, " AND ")
		}
		if m.Licence == "" || len(found) == 0 {
			return nil, fmt.Errorf("module %s %s: no licence that is known in %s; read it, and say in declared "+
				"what it is", m.Path, m.Version, m.Dir)
		}
	}
	return all, nil
}

// legal returns the legal files of a module, by their names in it. Of Go it is those at the root: the rest of its tree
// is tools.
func (m *module) legal() (all []entry, err error) {
	err = filepath.WalkDir(m.Dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if name != m.Dir && (m.Path == "std" || slices.Contains([]string{"testdata", "vendor", "node_modules"},
				e.Name())) {
				return fs.SkipDir
			}
			return nil
		}
		inFolder := legalFolder.MatchString(filepath.Base(filepath.Dir(name))) && filepath.Dir(name) != m.Dir
		if !e.Type().IsRegular() || !legal.MatchString(e.Name()) && !inFolder || filepath.Ext(name) == ".go" {
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(m.Dir, name)
		all = append(all, entry{Name: filepath.ToSlash(rel), Data: data})
		return err
	})
	return all, err
}

// declared are licences that kindOf cannot tell.
var declared = map[string]string{
	"github.com/golang/freetype": "FTL OR GPL-2.0-only", // LICENSE names both and leaves the choice
	"go.yaml.in/yaml/v3":         "MIT AND Apache-2.0",  // LICENSE says which files are under which
}

// marks are phrases that one licence has, by its SPDX name; the first that fits counts.
var marks = []struct {
	name    string
	phrases []string
}{
	{"Apache-2.0", []string{"Apache License", "Version 2.0, January 2004"}},
	{"MPL-2.0", []string{"Mozilla Public License", "2.0"}},
	{"OFL-1.1", []string{"SIL OPEN FONT LICENSE Version 1.1"}},
	{"CC-BY-4.0", []string{"Creative Commons Attribution 4.0 International Public License"}},
	{"BSD-3-Clause", []string{"Redistribution and use in source and binary forms", "endorse or promote products"}},
	{"BSD-2-Clause", []string{"Redistribution and use in source and binary forms"}},
	{"MIT", []string{"Permission is hereby granted, free of charge, to any person obtaining a copy of this software"}},
	{"ISC", []string{"Permission to use, copy, modify, and/or distribute this software for any purpose"}},
}

// kindOf tells the licence of a text, "" where it is not known.
func kindOf(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, m := range marks {
		if !slices.ContainsFunc(m.phrases, func(p string) bool { return !strings.Contains(text, p) }) {
			return m.name
		}
	}
	return ""
}
