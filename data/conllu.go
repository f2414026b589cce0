package data

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"vsetrain/internal/files/regular"
)

// CoNLL-U (universaldependencies.org/format.html): sentences separated by blank lines, a line of ten columns separated
// by tabs for every word; column 1 is the number of the word, column 7 the number of its head, 0 for the root. Lines
// that begin with # are comments; 3-4 (a token of several words) and 8.1 (an empty node) do not count as words.
//
// A caption is one sentence, or all sentences after one "# newdoc", whose words are numbered consecutively. A file
// without any "# newdoc" has a sentence for each caption.

func isCoNLLU(path string) bool { return strings.EqualFold(filepath.Ext(path), ".conllu") }

func (d *Dependencies) readCoNLLU(r io.Reader) error {
	s := bufio.NewScanner(regular.TextReader(r))
	s.Buffer(make([]byte, 0, 1<<16), 1<<20)
	p := conllu{d: d}
	for line := 1; s.Scan(); line++ {
		if err := p.take(strings.TrimRight(s.Text(), " \r"), line); err != nil {
			return err
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%s: %w", d.path, err)
	}
	return p.endCaption()
}

// conllu is the state of a reader between two lines.
type conllu struct {
	d         *Dependencies
	documents bool    // captions begin with "# newdoc"
	root      []int32 // pair of the root of the caption
	edges     []int32
	before    int // words of the sentences before in this caption
	heads     []int32
	lines     []int
	begin     int // line of the caption, 0 between captions
}

func (p *conllu) take(text string, line int) error {
	switch {
	case text == "" && p.documents:
		return p.endSentence()
	case text == "":
		return p.endCaption()
	case strings.HasPrefix(text, "#"):
		if strings.HasPrefix(strings.TrimSpace(text[1:]), "newdoc") {
			if !p.documents && p.d.Len() > 0 {
				return fmt.Errorf("%s:%d: \"# newdoc\" after sentences without one; expected one before every "+
					"caption, or none", p.d.path, line)
			}
			p.documents = true
			return p.endCaption()
		}
		return nil
	}
	p.begin = cmp.Or(p.begin, line)
	columns := strings.Split(text, "\t")
	if len(columns) < 8 {
		return fmt.Errorf("%s:%d: %d columns separated by tabs; expected the ten of CoNLL-U", p.d.path, line,
			len(columns))
	}
	if strings.ContainsAny(columns[0], "-.") {
		return nil
	}
	id, err := strconv.Atoi(columns[0])
	if err != nil || id != len(p.heads)+1 {
		return fmt.Errorf("%s:%d: word number %q; expected %d", p.d.path, line, columns[0], len(p.heads)+1)
	}
	head, err := strconv.ParseUint(columns[6], 10, 24)
	if err != nil {
		return fmt.Errorf("%s:%d: head %q; expected the number of a word, or 0 for the root", p.d.path, line,
			columns[6])
	}
	p.heads, p.lines = append(p.heads, int32(head)), append(p.lines, line)
	return nil
}

func (p *conllu) endSentence() error {
	for i, head := range p.heads {
		word := int32(p.before + i + 1)
		switch {
		case int(head) > len(p.heads):
			return fmt.Errorf("%s:%d: head %d in a sentence of %d words", p.d.path, p.lines[i], head, len(p.heads))
		case int(head) == i+1:
			return fmt.Errorf("%s:%d: word %d is its own head", p.d.path, p.lines[i], i+1)
		case head > 0:
			p.edges = append(p.edges, int32(p.before)+head, word)
		case len(p.root) == 0:
			p.root = append(p.root, 0, word)
		}
	}
	if len(p.heads) > 0 && len(p.root) == 0 {
		return fmt.Errorf("%s:%d: a sentence without a root (head 0)", p.d.path, p.lines[0])
	}
	p.before += len(p.heads)
	p.heads, p.lines = p.heads[:0], p.lines[:0]
	return nil
}

func (p *conllu) endCaption() error {
	if p.begin == 0 {
		return nil
	}
	if err := p.endSentence(); err != nil {
		return err
	}
	err := p.d.add(append(p.root, p.edges...), p.begin)
	p.root, p.edges, p.before, p.begin = p.root[:0], p.edges[:0], 0, 0
	return err
}
