package config

import (
	"fmt"
	"strings"

	"vsetrain/internal/system/options"
)

// Source says where a value came from. The zero Source is a default of the program.
type Source struct {
	File         string
	Line, Column int
	Name         string // "--set" or the name of an environment variable
	ours         bool   // a preset or another file of the program
}

// String returns "file:line", the name of the variable or flag, or "default".
func (s Source) String() string {
	switch {
	case s.File != "" && s.Line > 0:
		return fmt.Sprintf("%s:%d", s.File, s.Line)
	case s.File != "":
		return s.File
	case s.Name != "":
		return s.Name
	}
	return "default"
}

// position is String with the column, for messages.
func (s Source) position() string {
	if s.File != "" && s.Column > 0 {
		return fmt.Sprintf("%s:%d:%d", s.File, s.Line, s.Column)
	}
	return s.String()
}

// Problem is one mistake in a configuration.
type Problem struct {
	Source Source
	Key    string // dotted path from the top; empty when the mistake concerns no key
	Text   string // what is wrong and how to mend it
}

// String returns "position: key: text".
func (p Problem) String() string {
	s := p.Source.position() + ": "
	if p.Key != "" {
		s += p.Key + ": "
	}
	return s + p.Text
}

// Error lists every mistake found in a configuration, one line each.
type Error struct{ Problems []Problem }

// Error implements error.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// problems collects mistakes while reading continues, so that a user sees all of them at once.
type problems struct {
	list  []Problem
	files int // read so far
}

func (p *problems) add(at Source, key, format string, args ...any) {
	p.list = append(p.list, Problem{Source: at, Key: key, Text: fmt.Sprintf(format, args...)})
}

// value reports a leaf that cannot be used.
func (p *problems) value(at Source, f *field, found string) {
	p.add(at, f.path, "expected %s, found %s", f.expected(), found)
}

// option reports an error of a Validate method.
func (p *problems) option(at Source, e *options.Error) {
	text := fmt.Sprintf("expected %s, found %s", e.Expected, e.Found)
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	p.add(at, e.Key, "%s", text)
}

// Mistake is an error in the configuration that only shows together with the data or the machine. Commands exit with
// the same code as for one that shows in the file.
type Mistake struct{ error }

// Mistakef returns a *Mistake with the text of fmt.Errorf.
func Mistakef(format string, args ...any) error { return &Mistake{fmt.Errorf(format, args...)} }

// Unwrap returns the error below.
func (m *Mistake) Unwrap() error { return m.error }

func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	return &Error{Problems: p.list}
}
