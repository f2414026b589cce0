package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"vsetrain/internal/regular"
)

// extendsKey names the file, or the list of files, that a file is an overlay of. Paths are relative to the file.
// Later files of the list win over earlier ones, and the file itself over all of them.
const extendsKey = "extends"

const (
	maxFileSize = 1 << 20
	maxDepth    = 16
	maxFiles    = 200 // read for one configuration; a file that two extend counts twice
)

// readFiles returns the layers of a file and of all it extends, the strongest last. chain holds the files that lead to
// it, at the place that names it.
func readFiles(file string, at Source, chain []string, p *problems) []layer {
	abs, err := filepath.Abs(file)
	if err != nil {
		p.add(at, "", "%v", err)
		return nil
	}
	for i, seen := range chain {
		if seen == abs {
			p.add(at, extendsKey, "goes round in a circle: %s", cycle(append(chain[i:], abs)))
			return nil
		}
	}
	if len(chain) == maxDepth {
		p.add(at, extendsKey, "more than %d files deep", maxDepth)
		return nil
	}
	if p.files++; p.files > maxFiles {
		if p.files == maxFiles+1 {
			p.add(at, extendsKey, "more than %d files in all; a file that two others extend counts twice", maxFiles)
		}
		return nil
	}
	top := parseFile(file, p)
	if top == nil {
		return nil
	}
	if IsSweep(top) {
		p.add(sourceOf(file, top), "",
			"this is the file of a sweep: start it with vsetrain sweep run --config %s", file)
		return nil
	}
	var layers []layer
	for _, base := range bases(file, top, p) {
		layers = append(layers, readFiles(base.file, base.at, append(chain[:len(chain):len(chain)], abs), p)...)
	}
	own := layer{}
	decodeSection(file, root, top, own, p)
	return append(layers, own)
}

// parseFile returns the top mapping of a YAML file, an empty one for an empty file, nil after a mistake.
func parseFile(file string, p *problems) *yaml.Node {
	at := Source{File: file}
	b, err := readSmall(file)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		p.add(at, "", "cannot read the configuration: %v", err)
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err == io.EOF {
		return &yaml.Node{Kind: yaml.MappingNode}
	} else if err != nil {
		syntaxError(file, err, p)
		return nil
	}
	if err := dec.Decode(&second); err == nil {
		p.add(sourceOf(file, &second), "", "expected one document, found a second one after ---")
		return nil
	} else if err != io.EOF {
		syntaxError(file, err, p)
		return nil
	}
	top := doc.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return &yaml.Node{Kind: yaml.MappingNode}
	}
	if top.Kind != yaml.MappingNode {
		p.add(sourceOf(file, top), "", "expected keys such as model: and loss:, found %s", describe(top))
		return nil
	}
	return top
}

func readSmall(file string) ([]byte, error) {
	if !strings.HasPrefix(file, "/dev/fd/") { // a pipe that the shell names: --config <(...)
		return regular.ReadFile(file, maxFileSize, "a configuration")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if len(b) > maxFileSize {
		err = fmt.Errorf("larger than %d bytes", maxFileSize)
	}
	return b, err
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)

// syntaxError turns "yaml: line 3: did not find ..." into a position and a text.
func syntaxError(file string, err error, p *problems) {
	at, text := Source{File: file}, strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		fmt.Sscan(m[1], &at.Line)
		text = m[2]
	}
	if strings.Contains(text, "cannot start any token") {
		text += "; indent with spaces, not tabs, and quote strings that begin with @, ` or %"
	}
	p.add(at, "", "not valid YAML: %s", text)
}

// base is a file named by extends, its path as seen from the working directory, and the place that names it.
type base struct {
	file string
	at   Source
}

// bases returns the files named by extends.
func bases(file string, top *yaml.Node, p *problems) []base {
	for i := 0; i+1 < len(top.Content); i += 2 {
		if top.Content[i].Value != extendsKey {
			continue
		}
		v := top.Content[i+1]
		items := v.Content
		if v.Kind != yaml.SequenceNode {
			items = []*yaml.Node{v}
		}
		var files []base
		for _, item := range items {
			if item.Kind != yaml.ScalarNode || item.Tag != "!!str" || item.Value == "" {
				p.add(sourceOf(file, item), extendsKey, "expected a file or a list of files, found %s", describe(item))
				continue
			}
			path := filepath.FromSlash(item.Value)
			if !filepath.IsAbs(path) {
				path = filepath.Join(filepath.Dir(file), path)
			}
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				p.add(sourceOf(file, item), extendsKey, "no such file: %s", path)
				continue
			}
			files = append(files, base{path, sourceOf(file, item)})
		}
		return files
	}
	return nil
}

func cycle(chain []string) string {
	names := make([]string, len(chain))
	for i, c := range chain {
		names[i] = filepath.Base(c)
	}
	return strings.Join(names, " extends ")
}
