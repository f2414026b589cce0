package data

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"vsetrain/internal/files/jsontext"
	"vsetrain/internal/files/regular"
)

// openDependencies reads the dependency file if the options ask for it.
func openDependencies(s *Split, o *OpenOptions) error {
	if o.Dependencies == "" || s.captions == nil {
		return nil
	}
	d, err := readDependencies(s.path("_caps.json"))
	if missing(err) {
		d, err = readDependencies(s.path("_caps.conllu"))
	}
	if missing(err) {
		if o.Dependencies != "need" {
			return nil
		}
		return fmt.Errorf("split %q has no dependencies: expected %s, a JSON list with [[governor, dependent], ...] "+
			"for every caption, or %s in the CoNLL-U format; model.gsmn.mode: dense needs neither",
			s.name, s.path("_caps.json"), s.path("_caps.conllu"))
	}
	if err != nil {
		return err
	}
	if d.Len() != s.layout.captions {
		return fmt.Errorf("%s: dependencies of %d captions, but %s has %d", d.path, d.Len(), s.CaptionPath(),
			s.layout.captions)
	}
	s.dependencies, s.read = d, append(s.read, filepath.Base(d.path))
	return nil
}

// readDependencies reads a dependency file: CoNLL-U where the name ends in .conllu, otherwise JSON.
func readDependencies(path string) (*Dependencies, error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d := &Dependencies{path: path, first: []int32{0}}
	if isCoNLLU(path) {
		return d, regular.Explain(d.readCoNLLU(f), path, regular.Text, regular.Table)
	}
	return d, regular.Explain(d.readJSON(f), path, regular.JSON)
}

// Len returns the number of captions.
func (d *Dependencies) Len() int { return len(d.first) - 1 }

// Of returns the edges of a caption, governor and dependent in turn, the pair of the root left out.
func (d *Dependencies) Of(caption int) []int32 {
	return d.pairs[2*d.first[caption] : 2*d.first[caption+1]]
}

// Line returns the line of the file at which a caption begins, from 1.
func (d *Dependencies) Line(caption int) int { return int(d.lines[caption]) }

// add appends a caption that begins at a line.
func (d *Dependencies) add(pairs []int32, line int) error {
	for i := 0; i < len(pairs); i += 2 {
		switch gov, dep := pairs[i], pairs[i+1]; {
		case gov < 0 || dep < 0:
			return fmt.Errorf("%s:%d: pair [%d,%d]; token numbers are 1 and up, 0 is the root", d.path, line, gov, dep)
		case i == 0 && gov != 0 && dep != 0:
			return fmt.Errorf("%s:%d: the first pair is [%d,%d]; expected the pair of the root, [0, token]", d.path,
				line, gov, dep)
		case gov == dep:
			return fmt.Errorf("%s:%d: token %d depends on itself", d.path, line, gov)
		}
	}
	if len(pairs) > 0 {
		d.pairs = append(d.pairs, pairs[2:]...)
	}
	if len(d.pairs)/2 > math.MaxInt32 || line > math.MaxInt32 {
		return fmt.Errorf("%s: more than 2^31 edges or lines", d.path)
	}
	d.first, d.lines = append(d.first, int32(len(d.pairs)/2)), append(d.lines, int32(line))
	return nil
}

// check compares edges with the number of words of a caption, <start> and <end> left out.
func (d *Dependencies) check(caption, words int) error {
	for _, t := range d.Of(caption) {
		if int(t) > words {
			return fmt.Errorf("%s:%d: caption %d has a dependency on token %d, but only %d words", d.path,
				d.Line(caption), caption, t, words)
		}
	}
	return nil
}

// readJSON reads a list over captions of lists of pairs.
func (d *Dependencies) readJSON(r io.Reader) error {
	c := jsontext.NewLines(r)
	dec := json.NewDecoder(c)
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%s:%d: %s", d.path, c.Line(dec.InputOffset()), fmt.Sprintf(format, args...))
	}
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return fail("expected a list with a list of [governor, dependent] for every caption")
	}
	var pairs []int32
	for dec.More() {
		var text json.RawMessage
		var raw [][]int32
		err := dec.Decode(&text)
		if err == nil {
			err = jsontext.Unmarshal(text, &raw)
		}
		if err != nil {
			return fail("dependencies of caption %d: %v; expected a list of pairs [governor, dependent]", d.Len(), err)
		}
		pairs = pairs[:0]
		for _, p := range raw {
			if len(p) != 2 {
				return fail("dependencies of caption %d: %v has %d numbers; expected [governor, dependent]", d.Len(), p,
					len(p))
			}
			pairs = append(pairs, p...)
		}
		if err := d.add(pairs, c.Line(dec.InputOffset())); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return fail("the list of captions does not end: %v", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return fail("more than one JSON value")
	}
	return nil
}
