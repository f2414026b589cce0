package convert

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

// column is a column that is read; others are skipped.
type column int

const (
	colID column = iota
	colWidth
	colHeight
	colCount // num_boxes
	colBoxes
	colFeatures
	colObject // a JSON object with num_boxes and features, as in VinVL
	numColumns
)

// columnNames are the names of the columns in published files and headers; the first one names a column in messages.
var columnNames = [numColumns][]string{{"image_id", "img_id", "item_id"}, {"image_w", "img_w"}, {"image_h", "img_h"},
	{"num_boxes"}, {"boxes"}, {"features"}, {"{num_boxes, features}"}}

// columns says where the columns of a record are.
type columns struct {
	at     [numColumns]int // -1 for a missing column
	fields int             // of a record
	header string          // the header line; "" without a header
	fits   bool            // without a header: whether a record fits the set
}

// sure reports whether the columns are known from a header or a record.
func (c *columns) sure() bool { return c.header != "" || c.fits }

func (c *columns) has(col column) bool { return c.at[col] >= 0 }

// columnSets are the columns of published files, which have no header.
var columnSets = []struct{ name, columns string }{
	// peteanderson80/bottom-up-attention, tools/generate_tsv.py; hengyuan-hu/bottom-up-attention-vqa
	{"bottom-up attention", "image_id image_w image_h num_boxes boxes features"},
	{"bottom-up attention with classes", "image_id image_w image_h num_boxes boxes cls_idx attr_idx features"},
	{"bottom-up attention with probabilities",
		"image_id image_w image_h num_boxes boxes cls_prob attr_prob cls_idx attr_idx features"},
	// jiasenlu/vilbert_beta, script/convert_to_lmdb.py
	{"ViLBERT", "image_id image_w image_h num_boxes boxes features cls_prob"},
	// airsplay/lxmert, src/utils.py
	{"LXMERT", "img_id img_h img_w objects_id objects_conf attrs_id attrs_conf num_boxes boxes features"},
	// microsoft/Oscar, oscar/run_retrieval.py and oscar/run_captioning.py
	{"Oscar", "image_id num_boxes features"},
	{"VinVL", "image_id {num_boxes, features}"},
}

// named returns the columns with these names.
func named(names []string) columns {
	c := columns{fields: len(names)}
	for col, known := range columnNames {
		c.at[col] = slices.IndexFunc(names, func(n string) bool { return slices.Contains(known, n) })
	}
	return c
}

// header returns the columns that a header names; is is false if the record is data, without any name.
func header(fields [][]byte) (c columns, is bool, err error) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = strings.ToLower(strings.TrimSpace(string(f)))
	}
	c = named(names)
	if slices.Max(c.at[:]) < 0 {
		return c, false, nil
	}
	for _, col := range []column{colID, colCount, colFeatures} {
		if !c.has(col) {
			return c, true, fmt.Errorf("the header has no column %s: expected at least %s, %s and %s, found %s",
				strings.Join(columnNames[col], " or "), columnNames[colID][0], columnNames[colCount][0],
				columnNames[colFeatures][0], strings.Join(names, " "))
		}
	}
	if c.has(colWidth) != c.has(colHeight) {
		return c, true, fmt.Errorf("the header names only one of image_w and image_h: expected both or none, found %s",
			strings.Join(names, " "))
	}
	for _, known := range columnNames {
		var twice []string
		for _, n := range names {
			if slices.Contains(known, n) {
				twice = append(twice, n)
			}
		}
		if len(twice) > 1 {
			return c, true, fmt.Errorf("the header names one column several times: %s", strings.Join(twice, ", "))
		}
	}
	return c, true, nil
}

// columnsOf returns the columns of a record of a file without a header: the columns of the only known set with the same
// number of columns, and the same numbers and sizes of arrays. If the only set with this number of columns does not
// fit, it is returned for an error that says why.
func columnsOf(fields [][]byte) (columns, error) {
	var fit, broken []columns
	for _, s := range columnSets {
		names := splitSet(s.columns)
		c := named(names)
		if c.fields != len(fields) {
			continue
		}
		p := parser{form: form{columns: c}, fields: fields}
		if err := p.decode(); err != nil {
			broken = append(broken, c)
		} else if c.fits = p.fitsNames(names); c.fits {
			fit = append(fit, c)
		}
	}
	switch {
	case len(fit) == 1:
		return fit[0], nil
	case len(fit) == 0 && len(broken) == 1:
		return broken[0], nil
	}
	var found, sets []string
	for _, f := range fields {
		found = append(found, look(f))
	}
	for _, s := range columnSets {
		sets = append(sets, fmt.Sprintf("%s (%s)", s.name, s.columns))
	}
	return columns{}, fmt.Errorf("%d columns of no known set: %s; known are %s; a line that is cut off has fewer; for "+
		"another set, name the columns in a first line, between tabs: image_id, num_boxes and features among them, "+
		"any names for those that are not read", len(fields), strings.Join(found, ", "), strings.Join(sets, ", "))
}

// fitsNames reports whether the columns of a record that are not read have the arrays of a known set: a number for each
// region, or a probability for each class.
func (p *parser) fitsNames(names []string) bool {
	for i, f := range p.fields {
		if slices.Contains(p.columns.at[:], i) {
			continue
		}
		b, err := decode64(colFeatures, f, nil)
		one := len(b) <= 8*p.it.regions
		if err != nil || len(b) == 0 || len(b)%(2*p.it.regions) != 0 || one == strings.HasSuffix(names[i], "_prob") {
			return false
		}
	}
	return true
}

// splitSet returns the names of the columns of a set, one of which may be a JSON object.
func splitSet(columns string) []string {
	if before, _, ok := strings.Cut(columns, " {"); ok {
		return append(strings.Fields(before), columnNames[colObject][0])
	}
	return strings.Fields(columns)
}

// look describes a field.
func look(field []byte) string {
	text := strings.TrimSpace(string(field))
	switch {
	case text == "":
		return "nothing"
	case strings.HasPrefix(text, "{") || strings.HasPrefix(text, "["):
		return "JSON"
	case strings.Trim(text, "0123456789.") == "" && len(text) < 16:
		return "the number " + text
	case len(text) > 16:
		if n, err := base64.StdEncoding.Decode(make([]byte, base64.StdEncoding.DecodedLen(len(text))),
			bytes.TrimSpace(pythonBytes(field))); err == nil {
			return fmt.Sprintf("base64 of %d bytes", n)
		}
	}
	return fmt.Sprintf("the text %q", clip(text))
}

// pythonBytes returns the text of a repr of bytes, b'...', that Python 3 wrote. Line feeds of base64.encodebytes are \n
// there.
func pythonBytes(field []byte) []byte {
	f := bytes.TrimSpace(field)
	if n := len(f); n >= 3 && f[0] == 'b' && (f[1] == '\'' || f[1] == '"') && f[n-1] == f[1] {
		return bytes.ReplaceAll(f[2:n-1], []byte(`\n`), nil)
	}
	return f
}
