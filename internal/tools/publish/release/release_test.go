package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/lab/try"
)

const root = "../../../.."

// stub is a release of a program of a few bytes.
func stub() (*built, []entry) {
	b := &built{Version: "1.2.3-rc.1", Epoch: time.Unix(1_700_000_000, 0).UTC(),
		Program: entry{"vsetrain", true, []byte("\x7fELF program")},
		Shared: []entry{{Name: "README.md", Data: []byte("# vsetrain\n")}, {Name: "LICENSE", Data: []byte("Apache")},
			{Name: "docs/data.md", Data: []byte("# Data\n")}, {Name: "scripts/torch.py", Data: []byte("x")},
			{Name: "NOTICE", Data: []byte("notice")}, {Name: "man/man1/vsetrain.1", Data: []byte(".TH")},
			{Name: "completions/bash/vsetrain", Data: []byte("bash")},
			{Name: "completions/zsh/_vsetrain", Data: []byte("zsh")},
			{Name: "completions/fish/vsetrain.fish", Data: []byte("fish")}},
		Licences: []entry{{Name: "licences/example.org/" + strings.Repeat("long/", 20) + "m@v1.0.0/LICENSE",
			Data: []byte("MIT")}},
		SBOM: entry{Name: "vsetrain.cdx.json", Data: []byte("{}")}}
	return b, []entry{{Name: "vsetrain/__init__.py", Data: []byte("x = 1\n")}, {Name: "vsetrain/py.typed"}}
}

// turned is the same with its files in another order.
func turned(b *built) *built {
	t := *b
	t.Shared = slices.Clone(b.Shared)
	slices.Reverse(t.Shared)
	return &t
}

// An archive has everything, sorted, with the time of the commit and fixed modes; the order of the input changes
// nothing.
func TestArchive(t *testing.T) {
	b, _ := stub()
	linux, windows := target{OS: "linux", Arch: "amd64"}, target{OS: "windows", Arch: "amd64"}
	packed, data, err := archive("vsetrain-1.2.3", b, linux)
	if err != nil || packed != "vsetrain-1.2.3.tar.gz" {
		t.Fatal(err)
	}
	time.Sleep(time.Millisecond)
	if _, again, err := archive("vsetrain-1.2.3", turned(b), linux); err != nil || !bytes.Equal(data, again) {
		t.Errorf("packed twice it differs: %v", err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil || !z.ModTime.IsZero() || z.Name != "" {
		t.Fatal(err, z.Header)
	}
	var names []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		try.Do(t, err)
		want := int64(0o644)
		if h.Name == "vsetrain-1.2.3/vsetrain" {
			want = 0o755
		}
		if h.Mode != want || !h.ModTime.Equal(b.Epoch) || h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
			t.Errorf("%+v", h)
		}
		names = append(names, h.Name)
	}
	if len(names) != 12 || !slices.IsSorted(names) {
		t.Errorf("files %q", names)
	}
	packed, data, err = archive("vsetrain-1.2.3", b, windows)
	if err != nil || packed != "vsetrain-1.2.3.zip" {
		t.Fatal(packed, err)
	}
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range r.File {
		if len(r.File) != len(names) || f.Name != names[i] || !f.Modified.Equal(b.Epoch) {
			t.Errorf("the archive for Windows has %s at %d", f.Name, i)
		}
	}
	b.Shared = append(b.Shared, entry{Name: "NOTICE"})
	if _, _, err := archive("x", b, linux); err == nil || !strings.Contains(err.Error(), "NOTICE is there twice") {
		t.Errorf("a file twice: %v", err)
	}
}

// A wheel has what the packaging standards ask for: the tags of its name, and every file in RECORD with its digest.
func TestWheel(t *testing.T) {
	b, python := stub()
	linux := target{OS: "linux", Arch: "amd64"}
	name, data, err := wheel(b, python, linux)
	try.Do(t, err)
	if want := "vsetrain-1.2.3rc1-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"; name != want {
		t.Errorf("name %s, want %s", name, want)
	}
	slices.Reverse(python)
	if _, again, err := wheel(turned(b), python, linux); err != nil || !bytes.Equal(data, again) {
		t.Errorf("packed twice it differs: %v", err)
	}
	r := try.Get(zip.NewReader(bytes.NewReader(data), int64(len(data))))(t)
	const info = "vsetrain-1.2.3rc1.dist-info/"
	files := map[string]string{}
	for _, f := range r.File {
		in := try.Get(f.Open())(t)
		text := try.Get(io.ReadAll(in))(t)
		files[f.Name] = string(text)
		want := os.FileMode(0o644)
		if strings.HasSuffix(f.Name, "scripts/vsetrain") {
			want = 0o755
		}
		if f.Mode() != want || !f.Modified.Equal(b.Epoch) {
			t.Errorf("%s: %v, %v", f.Name, f.Mode(), f.Modified)
		}
	}
	if files["vsetrain-1.2.3rc1.data/scripts/vsetrain"] != "\x7fELF program" || files["vsetrain/__init__.py"] == "" ||
		files["vsetrain-1.2.3rc1.data/data/share/man/man1/vsetrain.1"] == "" ||
		files["vsetrain-1.2.3rc1.data/data/share/doc/vsetrain/docs/data.md"] != "# Data\n" ||
		files["vsetrain-1.2.3rc1.data/data/share/doc/vsetrain/README.md"] == "" ||
		files["vsetrain-1.2.3rc1.data/data/share/doc/vsetrain/scripts/torch.py"] == "" {
		t.Errorf("files %q", files)
	}
	for _, line := range []string{"Name: vsetrain\n", "Version: 1.2.3rc1\n", "License-File: NOTICE\n",
		"\n\n# vsetrain\n"} {
		if !strings.Contains(files[info+"METADATA"], line) {
			t.Errorf("METADATA lacks %q: %s", line, files[info+"METADATA"])
		}
	}
	for line := range strings.SplitSeq(files[info+"METADATA"], "\n") {
		licence, ok := strings.CutPrefix(line, "License-File: ")
		if _, there := files[info+"licenses/"+licence]; ok && !there {
			t.Errorf("METADATA names %s, which is not there", licence)
		}
	}
	if !strings.Contains(files[info+"WHEEL"], "Root-Is-Purelib: false\nTag: py3-none-manylinux_2_17_x86_64\n"+
		"Tag: py3-none-manylinux2014_x86_64\n") {
		t.Errorf("WHEEL is %s", files[info+"WHEEL"])
	}
	rows, err := csv.NewReader(strings.NewReader(files[info+"RECORD"])).ReadAll()
	if err != nil || len(rows) != len(files) || r.File[len(r.File)-1].Name != info+"RECORD" {
		t.Fatalf("RECORD has %d rows of %d files, %v", len(rows), len(files), err)
	}
	for _, row := range rows {
		text, ok := files[row[0]]
		sum := sha256.Sum256([]byte(text))
		want := []string{row[0], "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]), fmt.Sprint(len(text))}
		if row[0] == info+"RECORD" {
			want = []string{row[0], "", ""}
		}
		if !ok || !slices.Equal(row, want) {
			t.Errorf("RECORD has %q, want %q", row, want)
		}
	}
	if _, _, err := wheel(b, python, target{OS: "plan9", Arch: "amd64"}); err == nil {
		t.Error("a wheel for a system without a tag")
	}
}

// What messages and help texts name below docs/ and scripts/ is in a release.
func TestNamedFiles(t *testing.T) {
	t.Chdir(root)
	all := try.Get(texts())(t)
	there := map[string]bool{}
	for _, e := range all {
		there[e.Name] = true
	}
	named := 0
	for _, dir := range []string{"cmd/vsetrain", "internal/apps/extract", "internal/run",
		"internal/apps/sweep"} {
		sources := try.Get(files(dir, dir, ".go"))(t)
		for _, e := range sources {
			for _, name := range inText.FindAllString(string(e.Data), -1) {
				if named++; !there[name] && !strings.HasSuffix(e.Name, "_test.go") {
					t.Errorf("%s names %s, which is in no release", e.Name, name)
				}
			}
		}
	}
	if named < 20 {
		t.Errorf("only %d names were found", named)
	}
}

var inText = regexp.MustCompile(`\b(?:docs/[a-z-]+\.md|scripts/[a-z_]+\.py)\b`)

func TestVersions(t *testing.T) {
	for version, want := range map[string]string{"1.2.3": "1.2.3", "0.1.0-dev": "0.1.0.dev0", "1.2.3-rc.2": "1.2.3rc2",
		"1.2.3-4-g0abc12": "1.2.3.post4+g0abc12", "1.2.3-4-g0abc12-dirty": "1.2.3.post4+g0abc12.dirty",
		"1.2.3-dirty": "1.2.3+dirty", "1.2": "", "v1.2.3": "", "1.2.3-beta": ""} {
		if got, err := pep440(version); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", version, got, err, want)
		}
	}
}

func TestChecksums(t *testing.T) {
	a, b := sha256.Sum256([]byte("a")), sha256.Sum256([]byte("b"))
	if got, want := string(checksums(map[string][]byte{"y": a[:], "x": b[:]})), fmt.Sprintf("%x  x\n%x  y\n", b,
		a); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Each module has its licence; one without, or with one that is not known, ends the release.
func TestLicences(t *testing.T) {
	texts := map[string]string{
		"MIT": "MIT License\n\nPermission is hereby granted, free of charge, to any person\nobtaining a copy of this " +
			"software and",
		"BSD-3-Clause": "Redistribution and use in source and binary forms, with\nNeither may be used to endorse or " +
			"promote products",
		"BSD-2-Clause": "Redistribution and use in source and binary forms, with",
		"Apache-2.0":   "  Apache License\n  Version 2.0, January 2004",
	}
	var modules []module
	for kind, text := range texts {
		dir := t.TempDir()
		for name, data := range map[string]string{"LICENSE.txt": text, "NOTICE": "by somebody",
			"license.go": "package x"} {
			try.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o666))
		}
		third := filepath.Join(dir, "THIRD_PARTY_LICENSES", "Other")
		try.Do(t, os.Mkdir(filepath.Dir(third), 0o777))
		try.Do(t, os.WriteFile(third, []byte("terms of others"), 0o666))
		modules = append(modules, module{Path: "example.org/" + kind, Version: "v1.0.0", Dir: dir})
	}
	all, err := licences(modules)
	if err != nil || len(all) != 3*len(modules) {
		t.Fatalf("%d files, %v", len(all), err)
	}
	for _, m := range modules {
		if m.Licence != strings.TrimPrefix(m.Path, "example.org/") {
			t.Errorf("%s has the licence %q", m.Path, m.Licence)
		}
	}
	if !slices.ContainsFunc(all, func(e entry) bool { return e.Name == "licences/example.org/MIT@v1.0.0/NOTICE" }) {
		t.Errorf("files %v", all)
	}
	for _, text := range []string{"", "All rights reserved.", "GNU GENERAL PUBLIC LICENSE Version 3"} {
		dir := t.TempDir()
		try.Do(t, os.WriteFile(filepath.Join(dir, "LICENSE"), []byte(text), 0o666))
		if _, err := licences([]module{{Path: "example.org/x", Version: "v1", Dir: dir}}); err == nil ||
			!strings.Contains(err.Error(), "module example.org/x v1: no licence that is known") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The licences of the modules that the program is linked with are known, and the bill of materials names each.
func TestBill(t *testing.T) {
	t.Chdir(root)
	o := options{Go: "go", Out: t.TempDir()}
	program := try.Get(o.build(target{OS: runtime.GOOS, Arch: runtime.GOARCH}))(t)
	modules := try.Get(modulesOf(program, "go"))(t)
	try.Get(licences(modules))(t)
	b, _ := stub()
	data := try.Get(bill(b, modules, target{OS: "linux", Arch: "amd64"}))(t)
	var got struct {
		BOMFormat, SpecVersion string
		Metadata               struct{ Timestamp string }
		Components             []struct {
			Purl     string
			Licenses []struct{ Expression string }
		}
		Dependencies []struct{ DependsOn []string }
	}
	try.Do(t, json.Unmarshal(data, &got))
	if got.BOMFormat != "CycloneDX" || got.SpecVersion != "1.6" || got.Metadata.Timestamp != "2023-11-14T22:13:20Z" ||
		len(got.Components) != len(modules) || len(got.Dependencies[0].DependsOn) != len(modules) || len(modules) < 2 {
		t.Errorf("%s", data)
	}
	for i, c := range got.Components {
		if c.Purl != "pkg:golang/"+modules[i].Path+"@"+modules[i].Version || c.Licenses[0].Expression == "" {
			t.Errorf("%+v", c)
		}
	}
}

// The Makefile hands the release what it needs.
func TestMakefile(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("needs make")
	}
	c := exec.Command("make", "-n", "release", "VERSION=v1.2.3", "SOURCE_DATE_EPOCH=1700000000", "TARGETS=linux/amd64")
	c.Dir = root
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"-epoch 1700000000", "version=1.2.3", " linux/amd64", "bin/publish/release"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("make release runs %s, want %s", out, want)
		}
	}
}

func TestTargets(t *testing.T) {
	for text, want := range map[string]string{"linux/amd64": "linux-amd64", "darwin/amd64": "darwin-amd64",
		"windows/amd64": "windows-amd64", "linux/arm64/static": "linux-arm64-static",
		"linux": "", "darwin/arm64/static": "", "linux/amd64/dynamic": "", "linux/amd64/static/x": ""} {
		got, err := parseTarget(text)
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("%s: %v, %v, expected %q", text, got, err, want)
		}
		if err == nil && platforms[got] == "" {
			t.Errorf("%s has no tag of a wheel", text)
		}
	}
}
