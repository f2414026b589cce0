package convert

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/philox"
	"vsetrain/internal/files/npy"
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
	func(s *philox.Stream, line string) string { return replaced(line, 3, "0") },    // without boxes
	func(s *philox.Stream, line string) string { return replaced(line, 3, "6") },    // another number of them
	func(s *philox.Stream, line string) string { return replaced(line, 4, "AAAA") }, // boxes cut off
	func(s *philox.Stream, line string) string { return line + "\t" + line },        // the line end is missing
}

func replaced(line string, field int, with string) string {
	f := strings.Split(line, "\t")
	f[field] = with
	return strings.Join(f, "\t")
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
			order := make([]int32, len(lines))
			s.Perm(order)
			mixed := make([]string, len(lines))
			for i, j := range order {
				mixed[i] = lines[j]
			}
			lines = mixed
		}
		cut := s.IntN(len(lines) + 1)
		files := []string{write(t, dir, "a.tsv", strings.Join(lines[:cut], "\n")+"\n"),
			write(t, dir, "b.tsv", strings.Join(lines[cut:], "\n")+"\n")}
		var ids []string
		for _, p := range pictures {
			ids = append(ids, p.id)
		}
		s.Perm(make([]int32, 1))
		list := write(t, dir, "ids.txt", strings.Join(ids, "\n")+"\n")
		for _, split := range []Split{{"x", list}, {Name: "x"}} {
			name := fmt.Sprintf("seed %d, ids %q", seed, split.IDs)
			o := TSVOptions{Target: Target{Out: filepath.Join(dir, "out"), Splits: []Split{split}, DType: npy.F32,
				Force: true}, Files: files, Source: npy.F32}
			try.Do(t, os.RemoveAll(o.Out))
			rep, err := TSV(o, nil)
			if len(lost) > 0 {
				try.Fails(t, err, "--skip-broken leaves such images out", ".tsv:")
				leftovers(t, o.Out)
				o.SkipBroken = true
				rep, err = TSV(o, nil)
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
			ims := try.Get(npy.Open(filepath.Join(o.Out, "x_ims.npy")))(t)
			got := strings.Fields(string(try.Get(os.ReadFile(filepath.Join(o.Out, "x_ids.txt")))(t)))
			if len(got) != len(pictures)-len(lost) || ims.Rows() != len(got) {
				t.Errorf("%s: %d ids, %d rows", name, len(got), ims.Rows())
			}
			for row, id := range got {
				v := make([]float32, ims.RowLen())
				try.Do(t, ims.ReadRow(v, row))
				if i := slices.Index(ids, id); i < 0 || !equal(v, pictures[i].features) {
					t.Errorf("%s: row %d is not image %s", name, row, id)
				}
			}
			ims.Close()
		}
	}
}

// Images that may be left out do not shorten the ids file that the user wrote.
func TestSkipBrokenKeepsTheIDsFile(t *testing.T) {
	dir := t.TempDir()
	file := tsv(t, dir, "a.tsv", "\n", made("5", 3, 5))
	ids := write(t, dir, "x_ids.txt", "5\n")
	o := TSVOptions{Target: target(dir, Split{"x", ids}), Files: []string{file}}
	o.SkipBroken = true
	try.Refuses(TSV(o, nil))(t, "x_ids.txt", "--skip-broken", "--force")
	o.Force = true
	try.Get(TSV(o, nil))(t)
}
