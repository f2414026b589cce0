package data

import (
	"fmt"
	"math"
	"regexp"
	"strings"
)

// formats are formats of lines that look like something else than captions.
var formats = []struct {
	line *regexp.Regexp
	what string
}{
	{regexp.MustCompile(`^b(".*"|'.*')$`), "Python bytes"},
	{regexp.MustCompile(`^([{[].*[}\]],?|"[^"]*": .*)$`), "JSON"},
	{regexp.MustCompile(`^"?[^\s,|;"]+\.(?i:jpe?g|png|gif|bmp|webp|tiff?|mp4|avi|webm|mkv)\b`),
		"the name of a picture"},
	{regexp.MustCompile(`^\S+#\w*\d\s`), "the id of a caption"},
	{regexp.MustCompile(`\t`), "fields with tabs between them"},
	{regexp.MustCompile(`\|.*\|`), "fields with | between them"},
	{regexp.MustCompile(`^\d+\s*[,;]\s*\D`), "the number of a caption"},
	{regexp.MustCompile(`^".*"$`), "a caption in quotes"},
	{regexp.MustCompile(`^-?[\d.]+([\s,;]+-?[\d.]+)+$`), "numbers"},
}

// heads matches a line of column names.
var heads = regexp.MustCompile(`^"?(?i:[a-z]*[_ ]?(image|img|picture|photo|file|video|caption|comment|sentence|text|` +
	`id|index|name|number|split|raw|title|label|description)s?[_ ]?[a-z]*|"|,|;|\||\t| )+$`)

// refuseForeign returns an error if most lines have another text format than captions, or if the first line is the head
// of a table. It examines 64 lines.
func refuseForeign(l *lineFile) error {
	sample := min(l.len(), 64)
	if sample > 1 && strings.ContainsAny(l.line(0), ",;|\t") && heads.MatchString(l.line(0)) {
		return fmt.Errorf("%s: expected a caption alone on each line, found the head of a table: %.60q; write its "+
			"column of captions alone, one per line", at(l, 0), l.line(0))
	}
	for _, f := range formats {
		found, first := 0, 0
		for k := range sample {
			i := k * l.len() / sample
			if f.line.MatchString(l.line(i)) {
				if found++; found == 1 {
					first = i
				}
			}
		}
		if sample < 2 || 2*found <= sample {
			continue
		}
		remedy := "; write the captions alone, one per line"
		if tabs := strings.Count(l.line(first), "\t"); tabs > 0 {
			remedy = fmt.Sprintf("; `cut -f%d %s` prints what follows the last tab", tabs+1, l.path)
		}
		return fmt.Errorf("%s: expected a caption alone on each line, found %s: %.60q%s", at(l, first), f.what,
			l.line(first), remedy)
	}
	return nil
}

// ReadCaptions returns the lines of a file of captions, without white space at their ends. It calls warn if they look
// like another format, which Open refuses.
func ReadCaptions(path string, warn func(error)) ([]string, error) {
	l, err := readLines(path, "captions")
	if err != nil {
		return nil, err
	}
	if err := refuseForeign(l); err != nil {
		warn(err)
	}
	captions := make([]string, l.len())
	for i := range captions {
		captions[i] = l.line(i)
	}
	return captions, nil
}

// openCaptions reads the captions, if there are any.
func openCaptions(s *Split, _ *OpenOptions) error {
	path := s.CaptionPath()
	lines, err := s.lines("_caps.txt", "captions")
	if lines == nil {
		return err
	}
	if lines.len() == 0 {
		return fmt.Errorf("%s: the file is empty; expected one caption per line", path)
	}
	if lines.len() > math.MaxInt32 {
		return fmt.Errorf("%s: %d captions; at most %d are read", path, lines.len(), math.MaxInt32)
	}
	s.captions = lines
	return refuseForeign(lines)
}
