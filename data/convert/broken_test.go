package convert

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/philox"
	"vsetrain/lab/try"
)

// damages are what can happen to the line of an image; each leaves its id.
var damages = []func(s *philox.Stream, line string) string{
	func(s *philox.Stream, line string) string { // cut off within the features
		from := strings.LastIndex(line, "\t") + 1
		return line[:from+s.IntN(len(line)-from)]
	},
	func(s *philox.Stream, line string) string { // cut off earlier, with fewer fields
		from := strings.Index(line, "\t")
		return line[:from+s.IntN(strings.LastIndex(line, "\t")-from)]
	},
	func(s *philox.Stream, line string) string { // a character that is none of base64
		from := strings.LastIndex(line, "\t") + 1
		at := from + s.IntN(len(line)-from)
		return line[:at] + "*" + line[at+1:]
	},
	func(s *philox.Stream, line string) string { return replaceField(line, 3, "0") },    // without boxes
	func(s *philox.Stream, line string) string { return replaceField(line, 3, "6") },    // another number of them
	func(s *philox.Stream, line string) string { return replaceField(line, 4, "AAAA") }, // boxes cut off
	func(s *philox.Stream, line string) string { return line + "\t" + line },            // the line end is missing
}

// Of an image with broken records and a whole one the whole one is taken, wherever they stand, and it is said. An image
// that stays broken is an error, or left out and named with SkipBroken; no row moves to another image.
func TestBrokenRecords(t *testing.T) {
	dir := try.MemoryDir(t)
	for seed := range 120 {
		s := philox.NewKey(uint64(seed), "broken").Stream(0)
		var pictures []picture
		var lines []string
		hurt, lost := 0, map[string]bool{}
		for i := range 6 {
			p := precise(fmt.Sprint(100+i), 4, 8)
			pictures = append(pictures, p)
			line := p.line()
			switch s.IntN(3) {
			case 0: // broken records before and after the whole one
				for range 1 + s.IntN(2) {
					lines = append(lines, damages[s.IntN(len(damages))](s, line))
					hurt++
				}
				lines = append(lines, line)
				if s.IntN(2) == 0 {
					lines = append(lines, damages[s.IntN(len(damages))](s, line))
					hurt++
				}
			case 1:
				if s.IntN(4) == 0 {
					lost[p.id] = true
					lines = append(lines, damages[s.IntN(len(damages))](s, line))
					break
				}
				fallthrough
			default:
				lines = append(lines, line)
			}
		}
		if s.IntN(2) == 0 { // records of an image need not follow each other
			lines = mixed(s, lines)
		}
		cut := s.IntN(len(lines) + 1)
		files := []string{write(t, dir, "a.tsv", strings.Join(lines[:cut], "\n")+"\n"),
			write(t, dir, "b.tsv", strings.Join(lines[cut:], "\n")+"\n")}
		var ids []string
		for _, p := range pictures {
			ids = append(ids, p.id)
		}
		list := write(t, dir, "ids.txt", strings.Join(ids, "\n")+"\n")
		for _, split := range []Split{{"x", list}, {Name: "x"}} {
			name := fmt.Sprintf("seed %d, ids %q", seed, split.IDs)
			o := to(filepath.Join(dir, "out"), split)
			o.Force, o.SourceType = true, "f32"
			try.Do(t, os.RemoveAll(o.Out))
			rep, err := o.from(".tsv", files...)
			if len(lost) > 0 {
				try.Fails(t, err, "--skip-broken leaves such images out", ".tsv:")
				leftovers(t, o.Out)
				o.SkipBroken = true
				rep, err = o.from(".tsv", files...)
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, strings.Join(lines, "\n"))
			}
			if len(rep.Duplicates)+len(rep.Notes) < hurt || len(rep.Broken) != len(lost) {
				t.Errorf("%s: %d records were broken, %d images lost: %+v", name, hurt, len(lost), rep)
			}
			for _, b := range rep.Broken {
				if !lost[b.ID] {
					t.Errorf("%s: image %s was left out: %v", name, b.ID, b.Err)
				}
			}
			var rows []picture
			for _, id := range strings.Fields(string(try.Get(os.ReadFile(filepath.Join(o.Out, "x_ids.txt")))(t))) {
				rows = append(rows, pictures[slices.Index(ids, id)])
			}
			if len(rows) != len(pictures)-len(lost) {
				t.Errorf("%s: %d ids", name, len(rows))
			}
			checkRows(t, filepath.Join(o.Out, "x_ims.npy"), rows...)
		}
	}
}

// Images that may be left out do not shorten the ids file that the user wrote.
func TestSkipBrokenKeepsTheIDsFile(t *testing.T) {
	dir := t.TempDir()
	file := tsv(t, dir, "a.tsv", "\n", made("5", 3, 5))
	ids := write(t, dir, "x_ids.txt", "5\n")
	o := target(dir, Split{"x", ids})
	o.SkipBroken = true
	try.Refuses(o.from(".tsv", file))(t, "x_ids.txt", "--skip-broken", "--force")
	o.Force = true
	try.Get(o.from(".tsv", file))(t)
}
