package convert

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"vsetrain/internal/files/elements"
	"vsetrain/internal/files/regular"
)

// floatTypes are the types that arrays may have, by the bytes of a value, under their names in package elements.
var floatTypes = map[int]string{2: "F16", 4: "F32", 8: "F64"}

// parser turns records into items; it owns the buffers that the items point into.
type parser struct {
	form
	fields [][]byte
	record []byte // that was loaded
	raw    []byte // of the features
	it     item
}

// begin splits a record into fields and reads its id, which it may return together with an error.
func (p *parser) begin(rec []byte) (id string, err error) {
	if p.fields, err = splitFields(bytes.TrimPrefix(rec, byteOrderMark), p.fields); err != nil {
		return "", err
	}
	if at := p.columns.at[colID]; at < len(p.fields) {
		id = canonical(string(pythonBytes(p.fields[at])))
		if err := regular.CheckID(id); err != nil {
			return "", fmt.Errorf("field %d: %w", at+1, err)
		}
	}
	if n := p.columns.fields; len(p.fields) != n {
		what := "the line is cut off"
		if len(p.fields) > n {
			what = "another record may follow without a line end"
		}
		return id, fmt.Errorf("expected %d tab-separated fields, found %d; %s", n, len(p.fields), what)
	}
	return id, nil
}

// item decodes the record that begin has split. The result is valid until the next call.
func (p *parser) item() (*item, error) {
	if err := p.decode(); err != nil {
		return nil, err
	}
	return &p.it, p.features()
}

// decode reads the fields of a record; the features stay bytes.
func (p *parser) decode() (err error) {
	it, c := &p.it, &p.columns
	count, features := []byte(nil), []byte(nil)
	if c.has(colObject) {
		if count, features, err = object(p.fields[c.at[colObject]]); err != nil {
			return err
		}
	} else {
		count, features = p.fields[c.at[colCount]], p.fields[c.at[colFeatures]]
	}
	it.width, it.height = 0, 0
	if c.has(colWidth) {
		if it.width, err = number(colWidth, p.fields[c.at[colWidth]], 1, 1<<30); err == nil {
			it.height, err = number(colHeight, p.fields[c.at[colHeight]], 1, 1<<30)
		}
		if err != nil {
			return err
		}
	}
	n, err := number(colCount, count, 0, maxRegions)
	switch {
	case err != nil:
		return err
	case n == 0:
		return fmt.Errorf("num_boxes: 0: an image without regions cannot have a row")
	}
	if it.regions = int(n); !c.has(colBoxes) {
		it.boxes = nil // of a source that has them
	} else if err := p.boxes(p.fields[c.at[colBoxes]]); err != nil {
		return err
	}
	if p.raw, err = decode64(colFeatures, features, p.raw); err != nil {
		return err
	}
	if len(p.raw) == 0 || len(p.raw)%(2*it.regions) != 0 {
		return fmt.Errorf("features: %d bytes are not a whole number of values for each of %d boxes (num_boxes): "+
			"the line is truncated or num_boxes is wrong", len(p.raw), it.regions)
	}
	return nil
}

// boxes reads the boxes [num_boxes, 4], whose type follows from their number of bytes.
func (p *parser) boxes(field []byte) error {
	b, err := decode64(colBoxes, field, p.raw)
	if err != nil {
		return err
	}
	p.raw = b[:0]
	values := 4 * p.it.regions
	size := len(b) / values
	if len(b)%values != 0 || floatTypes[size] == "" || p.boxSize != 0 && size != p.boxSize {
		want := oneOf(2*values, 4*values, 8*values)
		if p.boxSize != 0 {
			want = strconv.Itoa(p.boxSize * values)
		}
		return fmt.Errorf("boxes: expected %s bytes, 4 values for each of %d boxes (num_boxes), found %d: the line is "+
			"truncated or num_boxes is wrong", want, p.it.regions, len(b))
	}
	p.boxSize = size
	p.it.boxes = floats(p.it.boxes, b, size)
	return finite("boxes", p.it.boxes, 4)
}

// oneOf lists the numbers of bytes of the three types.
func oneOf(f16, f32, f64 int) string { return fmt.Sprintf("%d, %d or %d", f16, f32, f64) }

// features converts the bytes of the features, whose type is known, to numbers.
func (p *parser) features() error {
	it, n := &p.it, len(p.raw)
	switch {
	case p.size == 0 && p.dim > 0:
		return fmt.Errorf("expected features of %d channels (--dim), %s bytes for each of %d boxes as float16, "+
			"float32 or float64, found %d in all: the line is truncated, or --dim is wrong", p.dim,
			oneOf(2*p.dim, 4*p.dim, 8*p.dim), it.regions, n)
	case p.size == 0:
		return fmt.Errorf("features: %d bytes of an unknown type, because no record at the beginning of the file "+
			"could be read; name the type with --source-dtype f16, f32 or f64", n)
	case n%(p.size*it.regions) != 0 || p.dim > 0 && n != p.size*p.dim*it.regions:
		return fmt.Errorf("features: expected %d bytes for each of %d boxes, as in most records, found %d in all: the "+
			"line is truncated, or of another detector", p.size*p.dim, it.regions, n)
	case n/p.size > maxElements:
		return fmt.Errorf("features: %d values are more than %d", n/p.size, maxElements)
	}
	it.features = floats(it.features, p.raw, p.size)
	it.dim = len(it.features) / it.regions
	return finite("features", it.features, it.dim)
}

// floats converts little-endian values of size bytes each into dst, grown when needed.
func floats(dst []float32, b []byte, size int) []float32 {
	dst = slices.Grow(dst[:0], len(b)/size)[:len(b)/size]
	elements.Convert(dst, floatTypes[size], b)
	return dst
}

// object returns num_boxes and features of a JSON object, as VinVL writes it, or of Python's repr of such a dict.
func object(field []byte) (count, features []byte, err error) {
	o := struct {
		Count    json.Number `json:"num_boxes"`
		Features *string     `json:"features"`
	}{}
	text := bytes.TrimSpace(field)
	if bytes.HasPrefix(text, []byte("{'")) && bytes.IndexByte(text, '"') < 0 {
		text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte(": b'"), []byte(": '")), []byte("'"), []byte(`"`))
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, nil, fmt.Errorf("not a JSON object with num_boxes and features as base64: %w; the line is "+
			"truncated or of another set of columns", err)
	}
	if o.Count == "" || o.Features == nil {
		return nil, nil, fmt.Errorf("a JSON object without num_boxes and features: %s", clip(string(text)))
	}
	return []byte(o.Count), []byte(*o.Features), nil
}

// number reads a whole number, which may have the form 640.0.
func number(col column, field []byte, lo, hi int64) (int64, error) {
	name, text := columnNames[col][0], string(pythonBytes(field))
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		f, e := strconv.ParseFloat(text, 64)
		if e != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return 0, fmt.Errorf("%s: expected a whole number, found %q", name, clip(text))
		}
		n = int64(f)
	}
	if n < lo || n > hi {
		return 0, fmt.Errorf("%s: expected a whole number in [%d, %d], found %d", name, lo, hi, n)
	}
	return n, nil
}

// decode64 decodes base64 into dst, grown when needed.
func decode64(col column, field, dst []byte) ([]byte, error) {
	text := pythonBytes(field)
	n := base64.StdEncoding.DecodedLen(len(text))
	dst = slices.Grow(dst[:0], n)[:n]
	n, err := base64.StdEncoding.Decode(dst, text)
	if err != nil {
		return dst[:0], fmt.Errorf("%s: not base64: %v of %d characters; the line is truncated or damaged",
			columnNames[col][0], err, len(text))
	}
	return dst[:n], nil
}

// clip shortens text for messages.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}
