package archtest

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

var (
	number = regexp.MustCompile(`\d+(?:,\d{3})*(?:\.\d+)?`)
	// unit is what follows a measured number: a time, a rate, points of a recall; unitBeside where the section links a
	// log, and elsewhere mostly sizes and settings. Intervals are of 95 %. A ratio has a decimal.
	unit = regexp.MustCompile(`^ (?:ms|µs|s|seconds|minutes|hours|points|\w+/s|` +
		`(?:GFLOP|captions|queries|pairs) a second)(?:\W|$)`)
	unitBeside = regexp.MustCompile(`^ (?:%|GB|MB)(?:\W|$)`)
	times      = regexp.MustCompile(`^ times(?:\W|$)`)
	second     = regexp.MustCompile(`^,? (?:and|to) `) // number of one unit
	// measures are in the head of a table that measures, or in the paragraph before it.
	measures    = regexp.MustCompile(`\b(?:[Mm]illiseconds|ms|M-Recall|R@1|captions/s)\b`)
	codeSpan    = regexp.MustCompile("(?:`--[^`]*` \\([^)]*\\))|`[^`]*`") // with the value of a flag
	logLink     = regexp.MustCompile(`\]\((?:docs/)?(log(?:/[\w./-]+)?)(#[^)]*)?\)`)
	heading     = regexp.MustCompile(`^(#+) (.*)`)
	writtenMark = regexp.MustCompile(`^<!-- (/?)[a-z0-9][a-z0-9 -]* -->$`)
	notMeasured = regexp.MustCompile(`^<!-- not measured: .+ -->$`)
	noAnchor    = regexp.MustCompile(`[^\w -]`)
)

// section is what stands between two headings of a page.
type section struct {
	first, level int // line and depth of the heading
	anchor       string
	lines        []string
	exempt       bool
	sources      []string         // files of docs/log that it links, with the anchor
	figures      map[int][]string // of measurements, by line
	computed     []float64        // what make figures wrote
}

// sectionsOf reads the sections of a page.
func sectionsOf(text string) (all []*section) {
	fenced := false
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if m := heading.FindStringSubmatch(line); i == 0 || !fenced && m != nil {
			s := &section{first: i + 1}
			if m != nil {
				s.level = len(m[1])
				s.anchor = "#" + strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(m[2]), ""), " ", "-")
			}
			all = append(all, s)
		}
		s := all[len(all)-1]
		s.lines = append(s.lines, line)
	}
	for _, s := range all {
		s.read()
	}
	return all
}

// read finds the figures of a section and what it links.
func (s *section) read() {
	for _, m := range logLink.FindAllStringSubmatch(strings.Join(s.lines, "\n"), -1) {
		s.sources = append(s.sources, path.Join("docs", m[1])+m[2])
	}
	s.figures = map[int][]string{}
	fenced, written := false, false
	paragraph, from, ended := "", 0, true // that of this line, or the one before a table
	table := -1                           // its first line
	for i, line := range append(s.lines, "") {
		trimmed := strings.TrimSpace(line)
		isRow := strings.HasPrefix(trimmed, "|") && !written
		if !isRow && table >= 0 {
			s.readTable(table, i, paragraph)
			table = -1
		}
		if isRow && table < 0 {
			table = i
		}
		mark := writtenMark.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			fenced = !fenced
			ended = true
		case fenced, isRow:
			ended = true
		case mark != nil:
			written = mark[1] == ""
		case written:
			s.computed = append(s.computed, numbers(line)...)
		case trimmed == "":
			ended = true
		default:
			if s.exempt = s.exempt || notMeasured.MatchString(line); ended {
				paragraph, from, ended = "", i, false
			}
			paragraph += trimmed + " "
			s.figures[from] = s.figuresIn(paragraph, true)
		}
	}
}

// readTable finds the figures of a table that measures something: the paragraph before it or its head names a measure,
// or its cells have units.
func (s *section) readTable(from, to int, lead string) {
	figures, measured := map[int][]string{}, measures.MatchString(codeSpan.ReplaceAllString(lead+s.lines[from], ""))
	for i := from + 2; i < to; i++ {
		_, cells, _ := strings.Cut(strings.Trim(s.lines[i], "| "), "|")
		figures[i], measured = s.figuresIn(cells, false), measured || len(s.figuresIn(cells, true)) > 0
	}
	if measured {
		maps.Copy(s.figures, figures)
	}
}

// figuresIn finds the numbers of a text, or those with a unit. Dates, names and sizes such as 36x2048 are none.
func (s *section) figuresIn(text string, united bool) (all []string) {
	text = codeSpan.ReplaceAllString(text, "")
	at := number.FindAllStringIndex(text, -1)
	has := false // a unit
	for _, span := range slices.Backward(at) {
		before, n, after := text[:span[0]], text[span[0]:span[1]], text[span[1]:]
		b, _ := utf8.DecodeLastRuneInString(strings.TrimSuffix(before, "-"))
		a, _ := utf8.DecodeRuneInString(strings.TrimPrefix(after, "x"))
		has = has && second.MatchString(after) || unit.MatchString(after) ||
			len(s.sources) > 0 && n != "95" && unitBeside.MatchString(after) ||
			strings.Contains(n, ".") && times.MatchString(after)
		if (has || !united) && !unicode.IsLetter(b) && !unicode.IsDigit(b) && !strings.ContainsRune("_./=@", b) &&
			!unicode.IsLetter(a) && !unicode.IsDigit(a) && !strings.ContainsRune("-/_", a) {
			all = append(all, n)
		}
	}
	return all
}

// numbers are the numbers in a text, without commas.
func numbers(text string) (all []float64) {
	for _, n := range number.FindAllString(text, -1) {
		if v, err := strconv.ParseFloat(strings.ReplaceAll(n, ",", ""), 64); err == nil {
			all = append(all, v)
		}
	}
	return all
}

// holds reports whether a figure is one of the numbers, or one of them rounded to its digits.
func holds(all []float64, figure string) bool {
	figure = strings.ReplaceAll(figure, ",", "")
	_, digits, _ := strings.Cut(figure, ".")
	return slices.ContainsFunc(all, func(v float64) bool {
		return strconv.FormatFloat(v, 'f', len(digits), 64) == figure
	})
}

// sourceNumbers are the numbers in a file of docs/log, or of the section that the anchor names.
func sourceNumbers(files map[string]string, source string) (all []float64) {
	name, anchor, found := strings.Cut(source, "#")
	if !found {
		return numbers(files[name])
	}
	for _, s := range sectionsOf(files[name]) {
		if s.anchor == "#"+anchor {
			all = append(all, numbers(strings.Join(s.lines, "\n"))...)
		}
	}
	return all
}

// Every figure that was measured stands in a file of docs/log that its section links, or in a table of the section that
// make figures writes from there; a section of other figures says so. CONTRIBUTING.md has the rule.
func TestMeasuredFigures(t *testing.T) {
	files := texts(t, ".md", ".csv", ".tsv")
	exempt, figures := 0, 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) != ".md" || name != "README.md" && path.Dir(name) != "docs" {
			continue
		}
		sections := sectionsOf(files[name])
		for i, s := range sections {
			if s.exempt || sections[0].exempt {
				exempt++
				continue
			}
			known := slices.Clone(s.computed)
			for k := i + 1; k < len(sections) && sections[k].level > s.level; k++ {
				known = append(known, sections[k].computed...)
			}
			for _, source := range s.sources {
				known = append(known, sourceNumbers(files, source)...)
			}
			for _, line := range slices.Sorted(maps.Keys(s.figures)) {
				for _, f := range s.figures[line] {
					if figures++; !holds(known, f) {
						t.Errorf("%s:%d: %s is in no file of docs/log that the section links (%v)", name, s.first+line,
							f, s.sources)
					}
				}
			}
		}
	}
	t.Logf("%d figures have a source; %d sections say that theirs are no measurements", figures, exempt)
}
