package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// sorted returns entries in the order of their names; two of one name are an error.
func sorted(all []entry) ([]entry, error) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(all); i++ {
		if all[i].Name == all[i-1].Name {
			return nil, fmt.Errorf("%s is there twice", all[i].Name)
		}
	}
	return all, nil
}

func mode(e entry) int64 {
	if e.Exec {
		return 0o755
	}
	return 0o644
}

// archive packs everything into a .zip for Windows, and a .tar.gz for other systems, with one folder. Names are sorted,
// times and modes are fixed, and there are no users, so that the bytes depend on the files alone. It returns the name.
func archive(folder string, b *built, t target) (string, []byte, error) {
	all, err := sorted(slices.Concat(b.Shared, b.Licences, []entry{b.Program, b.SBOM}))
	if err != nil {
		return "", nil, err
	}
	for i := range all {
		all[i].Name = path.Join(folder, all[i].Name)
	}
	if t.OS == "windows" {
		data, err := zipped(all, b.Epoch)
		return folder + ".zip", data, err
	}
	data, err := tarred(all, b.Epoch)
	return folder + ".tar.gz", data, err
}

func tarred(all []entry, epoch time.Time) ([]byte, error) {
	var out bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(zipped)
	for _, e := range all {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: e.Name, Size: int64(len(e.Data)),
			Mode: mode(e), ModTime: epoch, Format: tar.FormatUSTAR}
		if len(h.Name) > 100 {
			h.Format = tar.FormatPAX
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.Data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := zipped.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func zipped(all []entry, epoch time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range all {
		h := &zip.FileHeader{Name: e.Name, Method: zip.Deflate, Modified: epoch}
		h.ExternalAttrs = uint32(0o100000|mode(e)) << 16 // a regular file of Unix
		h.CreatorVersion = 3 << 8
		f, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(e.Data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// platforms are the tags of wheels (packaging.python.org, platform compatibility tags). The program for Linux asks of
// glibc only what its first versions had; manylinux 2.17 is the oldest tag that pip of today knows. The static program
// asks of no C library; its tag is that of systems with musl, where the other does not run. Programs of Go 1.26 run on
// macOS 12 and later.
var platforms = map[target]string{
	{OS: "linux", Arch: "amd64"}:               "manylinux_2_17_x86_64.manylinux2014_x86_64",
	{OS: "linux", Arch: "arm64"}:               "manylinux_2_17_aarch64.manylinux2014_aarch64",
	{OS: "darwin", Arch: "arm64"}:              "macosx_12_0_arm64",
	{OS: "darwin", Arch: "amd64"}:              "macosx_12_0_x86_64",
	{OS: "windows", Arch: "amd64"}:             "win_amd64",
	{OS: "linux", Arch: "amd64", Static: true}: "musllinux_1_1_x86_64",
	{OS: "linux", Arch: "arm64", Static: true}: "musllinux_1_1_aarch64",
}

// wheel packs the program and the Python package (PEP 427, PEP 491, PEP 639). It returns the name of the file.
func wheel(b *built, python []entry, t target) (string, []byte, error) {
	platform, ok := platforms[t]
	if !ok {
		return "", nil, fmt.Errorf("no platform tag of %s is known", t)
	}
	v, err := pep440(b.Version)
	if err != nil {
		return "", nil, err
	}
	info, data := fmt.Sprintf("vsetrain-%s.dist-info/", v), fmt.Sprintf("vsetrain-%s.data/", v)
	all := slices.Clone(python)
	add := func(name string, e entry) { all = append(all, entry{Name: name, Exec: e.Exec, Data: e.Data}) }
	add(data+"scripts/"+b.Program.Name, b.Program)
	var named []string // licences
	var readme []byte
	for _, e := range slices.Concat(b.Shared, b.Licences) {
		switch {
		case strings.HasPrefix(e.Name, "man/"):
			add(data+"data/share/"+e.Name, e)
		case e.Name == "LICENSE" || e.Name == "NOTICE" || strings.HasPrefix(e.Name, "licences/"):
			add(info+"licenses/"+e.Name, e)
			named = append(named, e.Name)
		case strings.HasSuffix(e.Name, "/vsetrain.fish"):
			add(data+"data/share/fish/vendor_completions.d/vsetrain.fish", e)
		case strings.HasSuffix(e.Name, "/_vsetrain"):
			add(data+"data/share/zsh/site-functions/_vsetrain", e)
		case strings.HasPrefix(e.Name, "completions/bash/"):
			add(data+"data/share/bash-completion/completions/vsetrain", e)
		case strings.HasPrefix(e.Name, "docs/"), strings.HasPrefix(e.Name, "scripts/"):
			add(data+"data/share/doc/vsetrain/"+e.Name, e)
		case e.Name == "README.md":
			readme = e.Data
			add(data+"data/share/doc/vsetrain/"+e.Name, e)
		}
	}
	slices.Sort(named)
	add(info+"METADATA", entry{Data: metadata(v, named, readme)})
	var tags strings.Builder
	for tag := range strings.SplitSeq(platform, ".") {
		fmt.Fprintf(&tags, "Tag: py3-none-%s\n", tag)
	}
	add(info+"WHEEL", entry{Data: []byte("Wheel-Version: 1.0\nGenerator: vsetrain release\nRoot-Is-Purelib: false\n" +
		tags.String())})
	add(info+"sboms/"+b.SBOM.Name, b.SBOM)
	if all, err = sorted(all); err != nil {
		return "", nil, err
	}
	var record strings.Builder
	for _, e := range all {
		sum := sha256.Sum256(e.Data)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", e.Name, base64.RawURLEncoding.EncodeToString(sum[:]), len(e.Data))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	all = append(all, entry{Name: info + "RECORD", Data: []byte(record.String())}) // the last, as PEP 427 advises
	packed, err := zipped(all, b.Epoch)
	return fmt.Sprintf("vsetrain-%s-py3-none-%s.whl", v, platform), packed, err
}

// metadata is the core metadata of the wheel, version 2.4.
func metadata(version string, licences []string, readme []byte) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "Metadata-Version: 2.4\nName: vsetrain\nVersion: %s\n"+
		"Summary: Train, evaluate and explore visual-semantic embedding networks\nLicense-Expression: Apache-2.0\n",
		version)
	for _, name := range licences {
		fmt.Fprintf(&b, "License-File: %s\n", name)
	}
	b.WriteString("Keywords: image-text retrieval,visual-semantic embedding\nRequires-Python: >=3.9\n" +
		"Requires-Dist: numpy\nProvides-Extra: yaml\nRequires-Dist: pyyaml; extra == \"yaml\"\n" +
		"Description-Content-Type: text/markdown\n\n")
	return append([]byte(b.String()), readme...)
}

// described is what git describe makes of a tag v1.2.3 or v1.2.3-rc.1, some commits before, and changes.
var described = regexp.MustCompile(`^(\d+\.\d+\.\d+)(?:-(dev|rc|a|b)\.?(\d*))?(?:-(\d+)-g([0-9a-f]+))?(-dirty)?$`)

// pep440 writes the version of the program as Python knows versions (PEP 440): 0.1.0-dev is 0.1.0.dev0, 1.2.3-4-gabc is
// 1.2.3.post4+gabc.
func pep440(version string) (string, error) {
	m := described.FindStringSubmatch(version)
	if m == nil {
		return "", fmt.Errorf("version %q; expected one such as 1.2.3, 1.2.3-rc.1 or 1.2.3-4-g0123abc", version)
	}
	v := m[1]
	if m[2] != "" {
		number := cmp.Or(m[3], "0")
		if m[2] == "dev" {
			v += "."
		}
		v += m[2] + number
	}
	var local []string
	if m[4] != "" {
		v += ".post" + m[4]
		local = append(local, "g"+m[5])
	}
	if m[6] != "" {
		local = append(local, "dirty")
	}
	if len(local) > 0 {
		v += "+" + strings.Join(local, ".")
	}
	return v, nil
}
