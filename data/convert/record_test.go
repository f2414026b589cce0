package convert

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

func readAll(text []byte) ([][]string, error) {
	r := newRecordReader(bytes.NewReader(text))
	var all [][]string
	var fields [][]byte
	for {
		rec, err := r.read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		if fields, err = splitFields(rec, fields); err != nil {
			return all, err
		}
		var row []string
		for _, f := range fields {
			row = append(row, string(f))
		}
		all = append(all, row)
	}
}

// FuzzRecord checks the record reader against encoding/csv: what both accept, both must read alike.
func FuzzRecord(f *testing.F) {
	for _, s := range []string{"a\tb\tc\n", "a\t\"b\tc\"\r\nd", "\"x\"\"y\"\t\n\n\"line\nend\"\tz", "\"open", "a\"b\tc",
		"\"a\"b\n", "\t\t\n", "\r\n\r", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := readAll(text)
		c := csv.NewReader(bytes.NewReader(text))
		c.Comma, c.FieldsPerRecord = '\t', -1
		want, csvErr := c.ReadAll()
		// encoding/csv drops carriage returns inside quotes, and a lone one at the end of the file.
		if err != nil || csvErr != nil || bytes.ContainsRune(text, '\r') {
			return
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %d records %q, encoding/csv reads %d %q", text, len(got), got, len(want), want)
		}
		for i := range got {
			if strings.Join(got[i], "|") != strings.Join(want[i], "|") {
				t.Fatalf("%q: record %d is %q, encoding/csv reads %q", text, i, got[i], want[i])
			}
		}
	})
}

// FuzzTSV checks that no header and no lines make a conversion panic, and that it writes an id a row.
func FuzzTSV(f *testing.F) {
	p := made("12", 1, 2)
	line := p.line()
	header := strings.ReplaceAll(columnSets[0].columns, " ", "\t")
	seven := "image_id\textra\timage_w\timage_h\tnum_boxes\tboxes\tfeatures\n"
	f.Add([]byte(header + "\n" + line + "\n"))
	f.Add([]byte(header + "\tmore\n" + line + "\tand more\n"))
	f.Add([]byte(seven + strings.Replace(line, "\t", "\tx\t", 1) + "\n"))
	f.Add([]byte(seven + line + "\n"))           // cut off: six of seven fields
	f.Add([]byte("features\timage_id\n" + line)) // fields are missing
	f.Add([]byte("\"1\n2\"" + line[2:] + "\n"))  // an id of two lines
	f.Fuzz(func(t *testing.T, text []byte) {
		o := to(t.TempDir())
		o.In = bytes.NewReader(text)
		rep, err := o.from(".tsv", "-")
		if err != nil {
			leftovers(t, o.Out)
			return
		}
		ids, err := os.ReadFile(filepath.Join(o.Out, "x_ids.txt"))
		if err != nil || bytes.Count(ids, []byte("\n")) != rep.Rows["x"] {
			t.Fatalf("%d rows, ids %q, %v", rep.Rows["x"], ids, err)
		}
	})
}

// FuzzItem checks that no line makes the parser panic or return an image whose sizes disagree.
func FuzzItem(f *testing.F) {
	p := made("12", 2, 3)
	f.Add([]byte(p.line()))
	f.Add([]byte("1\t2\t3\t1\tAAAAAAAAAAAAAAAAAAAAAA==\tAAAAAA=="))
	f.Add([]byte("1\t2\t3\t1\t\t"))
	f.Add([]byte("1\t2\t3\t99999999999\t\"\"\t\"A\nA\""))
	f.Fuzz(func(t *testing.T, line []byte) {
		it, err := new(parser).read(&source{form: form{columns: named(strings.Fields(columnSets[0].columns)), size: 4}},
			line)
		if err != nil {
			return
		}
		if it.regions < 1 || it.dim < 1 || len(it.boxes) != 4*it.regions ||
			len(it.features) != it.regions*it.dim || it.width < 1 || it.height < 1 {
			t.Fatalf("accepted an impossible image: %d regions, %d channels, %d boxes, %d features", it.regions, it.dim,
				len(it.boxes), len(it.features))
		}
	})
}

func TestRecordPositions(t *testing.T) {
	text := "one\t1\r\n\n\"two\nlines\"\t2\nthree\t3"
	r := newRecordReader(strings.NewReader(text))
	want := []struct {
		line   int
		offset int64
	}{{1, 0}, {3, 8}, {5, int64(strings.Index(text, "three"))}}
	for i, w := range want {
		rec := try.Get(r.read())(t)
		if r.line != w.line || r.offset != w.offset || !strings.HasPrefix(text[r.offset:], string(rec)) {
			t.Errorf("record %d: line %d offset %d, want %d and %d", i, r.line, r.offset, w.line, w.offset)
		}
	}
	if _, err := r.read(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestRecordLimit(t *testing.T) {
	r := newRecordReader(strings.NewReader(strings.Repeat("x", 5<<20) + "\n"))
	r.limit = 4 << 20
	try.Refuses(r.read())(t, "longer than 4194304 bytes")
}
