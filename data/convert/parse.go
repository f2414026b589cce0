package convert

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The fields of a bottom-up-attention file (peteanderson80/bottom-up-attention, tools/generate_tsv.py).
var fieldNames = []string{"image_id", "image_w", "image_h", "num_boxes", "boxes", "features"}

// columns maps the six fields to positions in a record.
type columns struct {
	at    [6]int
	named bool // by a header; there may be further fields then
}

var defaultColumns = columns{at: [6]int{0, 1, 2, 3, 4, 5}}

// need returns the smallest number of fields of a record.
func (c *columns) need() int { return slices.Max(c.at[:]) + 1 }

// header returns the columns named by a header record and true, or false when the record is data.
func header(fields [][]byte) (columns, bool, error) {
	c := columns{named: true}
	if len(fields) == 0 || !strings.Contains(" "+strings.Join(fieldNames, " ")+" ", " "+string(fields[0])+" ") {
		return defaultColumns, false, nil
	}
	for i, name := range fieldNames {
		c.at[i] = -1
		for j, f := range fields {
			if string(f) == name {
				c.at[i] = j
			}
		}
		if c.at[i] < 0 {
			return c, true, fmt.Errorf("header has no field %q: expected %s", name, strings.Join(fieldNames, ", "))
		}
	}
	return c, true, nil
}

// parser turns records into items; it owns the buffers the items point into.
type parser struct {
	columns columns
	fields  [][]byte
	raw     []byte
	it      item
}

// id returns the image id of a record cut into fields.
func (p *parser) id(fields [][]byte) (string, error) {
	need := p.columns.need()
	if len(fields) < need || !p.columns.named && len(fields) > need {
		return "", fmt.Errorf("expected %d tab-separated fields (%s), found %d; a short line is a truncated file", need,
			strings.Join(fieldNames, ", "), len(fields))
	}
	id := canonical(string(fields[p.columns.at[0]]))
	if err := checkID(id); err != nil {
		return "", fmt.Errorf("field %d: %w", p.columns.at[0]+1, err)
	}
	return id, nil
}

// item decodes a record. The result is valid until the next call.
func (p *parser) item(rec []byte) (*item, error) {
	var err error
	if p.fields, err = splitFields(rec, p.fields); err != nil {
		return nil, err
	}
	it := &p.it
	if it.id, err = p.id(p.fields); err != nil {
		return nil, err
	}
	if err := p.decode(it); err != nil {
		return nil, fmt.Errorf("image %s: %w", it.id, err)
	}
	return it, nil
}

func (p *parser) decode(it *item) (err error) {
	if it.width, err = p.number(1, 1, 1<<30); err != nil {
		return err
	}
	if it.height, err = p.number(2, 1, 1<<30); err != nil {
		return err
	}
	n, err := p.number(3, 1, maxRegions)
	if err != nil {
		return err
	}
	it.regions = int(n)
	if it.boxes, err = p.floats(4, it.boxes, 4*it.regions); err != nil {
		return err
	}
	if it.features, err = p.floats(5, it.features, 0); err != nil {
		return err
	}
	if len(it.features) == 0 || len(it.features)%it.regions != 0 {
		return fmt.Errorf("features: %d values are not a multiple of num_boxes %d: the line is truncated or its "+
			"count is wrong", len(it.features), it.regions)
	}
	it.dim = len(it.features) / it.regions
	if err := finite("boxes", it.boxes, 4); err != nil {
		return err
	}
	return finite("features", it.features, it.dim)
}

// number reads a whole number, also written as 640.0.
func (p *parser) number(field int, lo, hi int64) (int64, error) {
	text := strings.TrimSpace(string(p.fields[p.columns.at[field]]))
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		f, e := strconv.ParseFloat(text, 64)
		if e != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return 0, fmt.Errorf("%s: expected a whole number, found %q", fieldNames[field], clip(text))
		}
		n = int64(f)
	}
	if n < lo || n > hi {
		return 0, fmt.Errorf("%s: expected a whole number in [%d, %d], found %d", fieldNames[field], lo, hi, n)
	}
	return n, nil
}

// floats decodes a base64 array of little-endian float32 into dst, grown when needed. want is the number of values, 0
// for any.
func (p *parser) floats(field int, dst []float32, want int) ([]float32, error) {
	name, text := fieldNames[field], p.fields[p.columns.at[field]]
	if n := base64.StdEncoding.DecodedLen(len(text)); cap(p.raw) < n {
		p.raw = make([]byte, n)
	}
	n, err := base64.StdEncoding.Decode(p.raw[:cap(p.raw)], text)
	if err != nil {
		return dst, fmt.Errorf("%s: not base64: %v of %d characters; the line is truncated or damaged", name, err,
			len(text))
	}
	if n%4 != 0 {
		return dst, fmt.Errorf("%s: %d bytes are not float32 values: the line is truncated", name, n)
	}
	if want > 0 && n != 4*want {
		return dst, fmt.Errorf("%s: expected %d values, found %d: the line is truncated or num_boxes is wrong", name,
			want, n/4)
	}
	if n/4 > maxElements {
		return dst, fmt.Errorf("%s: %d values are more than %d", name, n/4, maxElements)
	}
	if cap(dst) < n/4 {
		dst = make([]float32, n/4)
	}
	dst = dst[:n/4]
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(p.raw[4*i:]))
	}
	return dst, nil
}

// clip shortens text for messages.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}
