package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"vsetrain/configs"
	"vsetrain/internal/files/regular"
)

const (
	maxFileSize = 1 << 20
	maxDepth    = 16
	maxFiles    = 200 // read for one configuration; a file that two extend counts twice
)

// readFiles returns the layers of a document and of all it extends, the strongest last. chain holds the documents that
// lead to it, where it is named.
func readFiles(d *document, at Source, chain []string, p *problems) []layer {
	id, err := d.id()
	if err != nil {
		p.add(at, "", "%v", err)
		return nil
	}
	if i := slices.Index(chain, id); i >= 0 {
		p.add(at, extendsKey, "circular: %s", cycle(append(chain[i:], id)))
		return nil
	}
	if len(chain) == maxDepth {
		p.add(at, extendsKey, "more than %d files deep", maxDepth)
		return nil
	}
	if p.files++; p.files > maxFiles {
		if p.files == maxFiles+1 {
			p.add(at, extendsKey, "more than %d files in total; a file that two others extend counts twice", maxFiles)
		}
		return nil
	}
	chain = append(chain[:len(chain):len(chain)], id)
	var layers []layer
	if r := d.row; r != nil {
		at := Source{File: d.name(), Line: r.line}
		for _, name := range []string{r.Base, "data/" + r.Data, "loss/" + r.Loss} {
			base := presetNamed(name)
			if base == nil {
				p.add(at, "", "%s: no such preset: %s", r.Name, name)
				continue
			}
			layers = append(layers, readFiles(base, at, chain, p)...)
		}
		return append(layers, ofOurs(r.layer(p)))
	}
	top := parseDocument(d, p)
	if top == nil {
		return nil
	}
	if kindOf(top) == "sweep" {
		p.add(SourceOf(d.name(), top), "",
			"this is the file of a sweep: start it with vsetrain sweep run --config %s", d.path)
		return nil
	}
	for _, base := range bases(d, top, p) {
		layers = append(layers, readFiles(base.document, base.at, chain, p)...)
	}
	own := layer{}
	decodeSection(d.name(), root, root, top, own, p)
	if d.ours {
		own = ofOurs(own)
	}
	return append(layers, own)
}

// ofOurs marks the settings of a document of the program.
func ofOurs(l layer) layer {
	for path, s := range l {
		s.source.ours = true
		l[path] = s
	}
	return l
}

// parseDocument returns the top mapping of a YAML document, an empty one for an empty document, nil after a mistake.
func parseDocument(d *document, p *problems) *yaml.Node {
	if !d.ours {
		return parseFile(d.path, p)
	}
	b, err := configs.FS.ReadFile(d.path)
	if err != nil {
		p.add(Source{File: d.name()}, "", "cannot read the configuration: %v", err)
		return nil
	}
	return parse(d.name(), b, p)
}

// kindOf tells the file of a sweep, "sweep", and the configuration of a run, "run", from all others: a sweep has keys
// that only a sweep has and no section of a configuration, a run has one of those, or extends another, and no other
// key.
func kindOf(top *yaml.Node) string {
	sweep, run, other := false, false, false
	for i := 0; i+1 < len(top.Content); i += 2 {
		key := top.Content[i].Value
		f := root.child(key)
		run = run || key == extendsKey || f != nil && f.isSection()
		other = other || key != extendsKey && f == nil
		sweep = sweep || slices.Contains([]string{"axes", "base", "seeds", "method", "launcher"}, key)
	}
	switch {
	case sweep && !run:
		return "sweep"
	case run && !other:
		return "run"
	}
	return ""
}

// parseFile returns the top mapping of a YAML file, an empty one for an empty file, nil after a mistake.
func parseFile(file string, p *problems) *yaml.Node {
	at := Source{File: file}
	b, err := readSmall(file)
	if err != nil {
		if pe, ok := errors.AsType[*fs.PathError](err); ok {
			err = pe.Err
		}
		p.add(at, "", "cannot read the configuration: %v", err)
		return nil
	}
	return parse(file, b, p)
}

// parse is parseFile on the text of a document. After a mistake of spelling that is easily mended it returns what the
// text would be, so that the mistakes after it are told too.
func parse(file string, b []byte, p *problems) *yaml.Node {
	if utf16 := bytes.HasPrefix(b, []byte("\xff\xfe")) || bytes.HasPrefix(b, []byte("\xfe\xff")); !utf16 {
		text, err := regular.UTF8(b)
		if err != nil {
			p.add(Source{File: file}, "", "%v", err)
			return nil
		}
		b = text
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err == io.EOF {
		return &yaml.Node{Kind: yaml.MappingNode}
	} else if err != nil {
		syntaxError(file, err, p)
		return mended(b)
	}
	if err := dec.Decode(&second); err == nil {
		p.add(SourceOf(file, &second), "", "expected one document, found a second one after ---")
		return nil
	} else if err != io.EOF {
		syntaxError(file, err, p)
		return nil
	}
	escapedPaths(file, bytes.Split(b, []byte("\n")), &doc, p)
	top := doc.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return &yaml.Node{Kind: yaml.MappingNode}
	}
	if top.Kind != yaml.MappingNode {
		p.add(SourceOf(file, top), "", "expected keys such as model: and loss:, found %.40s", Describe(top))
		return nil
	}
	return top
}

var (
	indent = regexp.MustCompile(`(?m)^[ \t]*\t[ \t]*`)
	quoted = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"`)
)

// mended returns the top mapping of a text with spaces for tabs in front of lines and backslashes of quoted paths taken
// as they are, nil where that does not help. Its nodes know their lines, and no columns.
func mended(b []byte) *yaml.Node {
	b = quoted.ReplaceAllFunc(b, func(q []byte) []byte { return bytes.ReplaceAll(q, []byte(`\`), []byte(`\\`)) })
	for _, width := range []int{1, 2, 4, 8} {
		spaced := indent.ReplaceAllFunc(b, func(tabs []byte) []byte {
			return bytes.ReplaceAll(tabs, []byte("\t"), bytes.Repeat([]byte(" "), width))
		})
		var doc yaml.Node
		if yaml.Unmarshal(spaced, &doc) == nil && len(doc.Content) > 0 && doc.Content[0].Kind == yaml.MappingNode {
			withoutColumns(&doc)
			return doc.Content[0]
		}
	}
	return nil
}

// oneLetter is a string in double quotes up to an escape sequence of one letter, such as \n in "C:\new\table".
var oneLetter = regexp.MustCompile(`^"(?:[^"\\]|\\["\\/uU])*(\\[^"\\/uU])`)

// escapedPaths adds a mistake for every value in double quotes with such a sequence: no setting has a line break, a tab
// or the like in it, but paths of Windows have backslashes.
func escapedPaths(file string, lines [][]byte, n *yaml.Node, p *problems) {
	if n.Kind == yaml.ScalarNode && n.Style&yaml.DoubleQuotedStyle != 0 && n.Line <= len(lines) {
		line := []rune(string(lines[n.Line-1]))
		if m := oneLetter.FindStringSubmatch(string(line[min(n.Column-1, len(line)):])); m != nil {
			p.add(SourceOf(file, n), "", "found %s in %s; %s", m[1], Describe(n), singleQuotes)
		}
	}
	for _, c := range n.Content {
		escapedPaths(file, lines, c, p)
	}
}

func withoutColumns(n *yaml.Node) {
	n.Column = 0
	for _, c := range n.Content {
		withoutColumns(c)
	}
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
	if strings.Contains(text, "cannot start any token") || strings.Contains(text, "a tab") {
		text += "; indent with spaces, not tabs, and quote strings that begin with @, ` or %"
	}
	if strings.Contains(text, "escape") || strings.Contains(text, "hexdecimal") {
		at.Line = max(at.Line, 1) // which the library leaves out
		text += "; " + singleQuotes
	}
	p.add(at, "", "not valid YAML: %s", text)
}

// singleQuotes is what to do where backslashes of a path were taken for escape sequences.
const singleQuotes = `in double quotes a backslash begins an escape sequence; write such text in single quotes, as ` +
	`'C:\data\f30k'`

// base is a document named by extends, and where it is named.
type base struct {
	*document
	at Source
}

// bases returns the documents named by extends: files beside the one that names them, then presets.
func bases(d *document, top *yaml.Node, p *problems) []base {
	for i := 0; i+1 < len(top.Content); i += 2 {
		if top.Content[i].Value != extendsKey {
			continue
		}
		v := top.Content[i+1]
		items := v.Content
		if v.Kind != yaml.SequenceNode {
			items = []*yaml.Node{v}
		}
		var all []base
		for _, item := range items {
			at := SourceOf(d.name(), item)
			if item.Kind != yaml.ScalarNode || item.Tag != "!!str" || item.Value == "" {
				p.add(at, extendsKey, "expected a file, a preset or a list of them, found %s", Describe(item))
				continue
			}
			if found := d.find(item.Value); found != nil {
				all = append(all, base{found, at})
				continue
			}
			p.add(at, extendsKey, "%s", Missing(item.Value))
		}
		return all
	}
	return nil
}

// find returns what a document calls name, nil if there is nothing.
func (d *document) find(name string) *document {
	if d.ours {
		return presetNamed(strings.TrimSuffix(path.Join(path.Dir(d.path), name), yamlEnding))
	}
	return find(name, filepath.Dir(d.path))
}

func cycle(chain []string) string {
	names := make([]string, len(chain))
	for i, c := range chain {
		names[i] = filepath.Base(c)
	}
	return strings.Join(names, " extends ")
}
