package convert

import (
	"cmp"
	"fmt"
	"strings"

	"vsetrain/internal/files/regular"
)

// idList is an ids file: the images of a split in order.
type idList struct {
	path   string
	ids    []string // canonical
	lines  []string // as in the file
	number []int    // of each line in the file, from 1
	rows   int      // number of feature rows
}

// canonical removes blanks and, from whole numbers, leading zeros, so that 000042 and 42 are one image.
func canonical(id string) string {
	id = strings.TrimSpace(id)
	if id == "" || strings.Trim(id, "0123456789") != "" {
		return id
	}
	if t := strings.TrimLeft(id, "0"); t != "" {
		return t
	}
	return "0"
}

// maxIDs bounds an ids file in bytes.
const maxIDs = 1 << 30

// readIDs reads an ids file; blank lines are allowed only at its end. With distinct, consecutive equal ids have one
// feature row.
func readIDs(path string, distinct bool) (*idList, error) {
	text, err := regular.ReadText(path, maxIDs, "ids of images")
	if err != nil {
		return nil, err
	}
	l := &idList{path: path}
	blank, n, at := 0, 0, map[string]int{}
	for line := range strings.Lines(text) {
		n++
		id := canonical(line)
		if id == "" {
			blank = cmp.Or(blank, n)
			continue
		}
		if blank > 0 {
			return nil, fmt.Errorf("%s:%d: expected an image id, found a blank line; remove it", path, blank)
		}
		if err := regular.CheckID(id); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if last := len(l.ids) - 1; !distinct || last < 0 || l.ids[last] != id {
			if distinct && at[id] > 0 {
				return nil, fmt.Errorf("%s:%d: image %s was in line %d already; for one row for each image "+
					"(--distinct) the lines of an image must be consecutive", path, n, id, at[id])
			}
			l.rows++
		}
		at[id] = n
		l.ids, l.lines, l.number = append(l.ids, id), append(l.lines, strings.TrimSpace(line)), append(l.number, n)
	}
	if len(l.ids) == 0 {
		return nil, fmt.Errorf("%s: expected one image id per line, found an empty file", path)
	}
	return l, nil
}

// missing returns an error that lists the ids for which have is false, with their lines; nil if there are none.
func (l *idList) missing(have func(id string) bool, source string) error {
	const shown = 10
	var list []string
	n := 0
	seen := map[string]bool{}
	for i, id := range l.ids {
		if have(id) || seen[id] {
			continue
		}
		seen[id] = true
		if n++; n <= shown {
			list = append(list, fmt.Sprintf("%s (line %d)", id, l.number[i]))
		}
	}
	if n == 0 {
		return nil
	}
	more := ""
	if n > shown {
		more = fmt.Sprintf(" and %d more", n-shown)
	}
	return fmt.Errorf("%s: %d of its ids are not in %s: %s%s; give all feature files, or an ids file with the "+
		"images that they have",
		l.path, n, source, strings.Join(list, ", "), more)
}
