package convert

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/internal/compute/philox"
	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

// published writes a picture in the columns of a set, as the scripts that made the published files do.
func (p *picture) published(columns []string) string {
	n := len(p.boxes) / 4
	longs := func(n int) string { v, _ := encode64(make([]float64, n), 8); return v } // int64 zeros have the same bytes
	ones := func(n int) string { return base(make([]float32, n)) }
	var fields []string
	for _, c := range columns {
		f := map[string]string{"image_id": p.id, "img_id": p.id, "item_id": p.id, "image_w": fmt.Sprint(p.w),
			"img_w": fmt.Sprint(p.w), "image_h": fmt.Sprint(p.h), "img_h": fmt.Sprint(p.h), "num_boxes": fmt.Sprint(n),
			"boxes": base(p.boxes), "features": base(p.features), "objects_id": longs(n), "objects_conf": ones(n),
			"attrs_id": longs(n), "attrs_conf": ones(n), "cls_prob": ones(1601 * n), "attr_prob": ones(401 * n),
			"cls_idx": longs(n), "attr_idx": longs(n), "note": "a \"dog\"",
			"{num_boxes, features}": fmt.Sprintf(`{"num_boxes": %d, "features": "%s"}`, n, base(p.features))}[c]
		fields = append(fields, f)
	}
	return strings.Join(fields, "\t") + "\n"
}

// precise are features that tell their type.
func precise(id string, regions, dim int) picture {
	p := made(id, regions, dim)
	s := philox.NewKey(6, "precise/"+id).Stream(0)
	for i := range p.features {
		p.features[i] = float32(math.Abs(s.Norm()))
	}
	return p
}

// Files in the columns of every known set, and in any order that a header names, give the same features, and boxes and
// sizes where they have them.
func TestColumns(t *testing.T) {
	dir := try.MemoryDir(t)
	pictures := []picture{precise("COCO_val2014_000000000042", 5, 8), precise("7", 5, 8), precise("19", 5, 8),
		precise("3", 5, 8)}
	check := func(name, text string, boxes, size bool) {
		t.Helper()
		o := to(filepath.Join(dir, "out"))
		o.Force = true
		if _, err := o.tsv(t, text); err != nil {
			t.Errorf("%s: %.300v", name, err)
			return
		}
		checkRows(t, filepath.Join(o.Out, "x_ims.npy"), pictures...)
		for end, want := range map[string]bool{"_ims_bbx.npy": boxes, "_ims_size.npy": size} {
			f, err := npy.Open(filepath.Join(o.Out, "x"+end))
			if (err == nil) != want {
				t.Errorf("%s: %s: %v, want it to be there: %t", name, end, err, want)
			}
			if err != nil {
				continue
			}
			if v := try.Get(f.Float64s())(t); end == "_ims_size.npy" && (v[0] != float64(pictures[0].w) ||
				v[1] != float64(pictures[0].h)) || end == "_ims_bbx.npy" && float32(v[3]) != pictures[0].boxes[3] {
				t.Errorf("%s: %s holds %v", name, end, v[:4])
			}
			f.Close()
		}
	}
	lines := func(columns []string, each func(string) string) (text string) {
		for i := range pictures {
			text += each(pictures[i].published(columns))
		}
		return text
	}
	same := func(line string) string { return line }
	for _, s := range columnSets {
		columns := splitSet(s.columns)
		wide := s.name != "Oscar" && s.name != "VinVL"
		check(s.name, lines(columns, same), wide, wide)
		if wide {
			check(s.name+" with a header", strings.Join(columns, "\t")+"\n"+lines(columns, same), true, true)
		}
		// Python 3's repr of bytes, of base64.b64encode and of base64.encodebytes.
		check(s.name+" in b''", lines(columns, func(line string) string {
			fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			for i, f := range fields {
				switch {
				case strings.HasPrefix(f, "{"):
					fields[i] = strings.ReplaceAll(strings.ReplaceAll(f, `"features": "`, `'features': b'`), `"`, `'`)
				case len(f) > 40:
					fields[i] = "b'" + f[:20] + `\n` + f[20:] + `\n'`
				}
			}
			return strings.Join(fields, "\t") + "\n"
		}), wide, wide)
	}
	for seed := range 40 {
		s := philox.NewKey(uint64(seed), "columns").Stream(0)
		columns := []string{[]string{"image_id", "img_id", "item_id"}[s.IntN(3)], "num_boxes", "features"}
		boxes, size := s.IntN(2) == 0, s.IntN(2) == 0
		if boxes {
			columns = append(columns, "boxes")
		}
		if size {
			columns = append(columns, [][]string{{"image_w", "image_h"}, {"img_w", "img_h"}}[s.IntN(2)]...)
		}
		for _, more := range []string{"objects_id", "cls_prob", "note", "attrs_conf"} {
			if s.IntN(2) == 0 {
				columns = append(columns, more)
			}
		}
		columns = mixed(s, columns)
		head := strings.Join(columns, "\t") + "\n"
		text := head + lines(columns, same)
		switch s.IntN(4) {
		case 0:
			text = "\ufeff" + text
		case 1: // parts that were put together, each with its header
			text = head + pictures[0].published(columns) + head + pictures[1].published(columns) +
				pictures[2].published(columns) + head + pictures[3].published(columns)
		case 2:
			text = strings.ToUpper(head) + text[len(head):]
		}
		check(head, text, boxes, size)
	}
}

// Parts have the columns of their own, or of the part that has a header; images without boxes do not get the boxes of
// another one.
func TestColumnsOfParts(t *testing.T) {
	dir := try.MemoryDir(t)
	a, b, c := precise("7", 5, 8), precise("19", 5, 8), precise("3", 5, 8)
	o := to(filepath.Join(dir, "out"))
	o.SourceType = "f32"
	boxes := []string{"image_id", "num_boxes", "boxes", "features"}
	oscar := []string{"image_id", "num_boxes", "features"}
	try.Refuses(o.from(".tsv", write(t, dir, "a.tsv", strings.Join(boxes, "\t")+"\n"+a.published(boxes)),
		write(t, dir, "b.tsv", b.published(oscar))))(t, "b.tsv:1", "image 19: expected boxes and image size in all "+
		"images or in none")
	mixed := []string{"image_id", "num_boxes", "image_h", "note", "features", "image_w", "boxes"}
	cut := c.published(mixed)
	rep := try.Get(o.from(".tsv", write(t, dir, "a.tsv", a.published(mixed)),
		write(t, dir, "b.tsv", strings.Join(mixed, "\t")+"\n"+b.published(mixed)),
		write(t, dir, "c.tsv", cut[:len(cut)/2]+"\n"+c.published(mixed))))(t)
	if rep.Rows["x"] != 3 {
		t.Errorf("report %+v", rep)
	}
	checkSplit(t, o.Out, "x", npy.F32, a, b, c)
}

// A file of unknown columns is refused with what it has, what is known, and a way that works.
func TestUnknownColumns(t *testing.T) {
	dir := try.MemoryDir(t)
	p := precise("7", 5, 8)
	columns := []string{"features", "num_boxes", "boxes", "img_id"}
	text := p.published(columns)
	o := to(filepath.Join(dir, "out"))
	o.SourceType, o.Force = "f32", true
	try.Refuses(o.tsv(t, text))(t, "a.tsv:1: 4 columns of no known set: base64 of 160 bytes, the number 5, base64 of "+
		"80 bytes, the number 7", "LXMERT (img_id img_h img_w",
		"first line, between tabs: image_id, num_boxes and features")
	try.Get(o.tsv(t, strings.Join(columns, "\t")+"\n"+text))(t) // what the message says
	// As many columns as a known set has, with the features elsewhere.
	eight := []string{"image_id", "image_h", "image_w", "num_boxes", "boxes", "features", "cls_prob", "cls_idx"}
	try.Refuses(o.tsv(t, p.published(eight)))(t, "a.tsv:1: 8 columns of no known set")
	for text, want := range map[string]string{
		"image_id\tnum_boxes\tfeatures\timage_w\n":      "only one of image_w and image_h",
		"image_id\tnum_boxes\tfeatures\tfeatures\n":     "several times: features, features",
		"image_id\timg_id\tnum_boxes\tboxes\n":          "no column features",
		"image_id\timg_id\tnum_boxes\tfeatures\n":       "several times: image_id, img_id",
		"1\t{\"image_h\": 4, \"objects\": []}\n":        "image 1: a JSON object without num_boxes and features",
		"1\t{\"num_boxes\": 4, \"features\": \"AAA\n":   "image 1: not a JSON object with num_boxes and features",
		"1\t{\"num_boxes\": 1, \"features\": [1, 2]}\n": "image 1: not a JSON object with num_boxes and features",
	} {
		try.Refuses(o.tsv(t, text))(t, "a.tsv:1", want)
	}
}
